"""What each error that a job can end with means, and what usually mends it: one table for every front."""

from __future__ import annotations

from dataclasses import dataclass

from outhaul import errors


@dataclass(frozen=True, slots=True)
class Entry:
    """One kind of error: ``meaning`` says what happened, ``mend`` what usually helps. Both are whole sentences."""

    meaning: str
    mend: str


CATALOGUE = {
    errors.ExportError.code: Entry(
        "The export failed for a reason that has no name of its own.",
        "Read the detail of the job. If a retry fails in the same way, it is likely a fault of Outhaul: report it.",
    ),
    errors.SourceError.code: Entry(
        "The source database refused the query or broke it off.",
        "Read the detail of the job. A table, column or right that is missing has to be put back at the source; a "
        "query that ran out of time needs fewer rows, an index or a longer statement timeout of the dataset.",
    ),
    errors.SourceUnreachable.code: Entry(
        "The source database gives no session: no server answers, or it refuses all.",
        "See whether the source runs and its address and login are right. Its jobs wait, and go on by themselves.",
    ),
    errors.StoreError.code: Entry(
        "The file store refused the files or broke off.",
        "See whether the store has room and its address, bucket and credentials are right. What only broke off, "
        "a retry mends.",
    ),
    errors.ContractViolation.code: Entry(
        "The rows or columns of the source do not keep what the dataset promises. Nothing was published.",
        "Mend the rows at the source or change the dataset's contract, then start the job anew.",
    ),
    errors.UnrepresentableValue.code: Entry(
        "A value cannot be held by the format that was asked for.",
        "Ask again without that column, or for another format; for Parquet also with the option unrepresentable set to "
        "text or null.",
    ),
    errors.CountMismatch.code: Entry(
        "The rows that were read and those that were written are not the same number. Nothing was published.",
        "Start the job anew. If it happens again, it is a fault of Outhaul: report it.",
    ),
    errors.LeaseLost.code: Entry(
        "The worker lost its job to another attempt, whose result counts.",
        "Nothing needs to be done. If it happens often, workers cannot reach the queue's database in time.",
    ),
    errors.WorkerVanished.code: Entry(
        "The process that carried out the job died without a word: killed, out of memory or cut off.",
        "See the memory and the logs of the worker's machine. A sort without a limit over a lake needs memory for all "
        "rows that are asked for: ask for fewer rows, or give the worker more memory.",
    ),
    errors.Cancelled.code: Entry(
        "A person or a program stopped the job.",
        "Start the job anew if it is wanted after all.",
    ),
    errors.Interrupted.code: Entry(
        "The worker was told to stop, for example by a deploy.",
        "Nothing needs to be done: the job goes back in line at no charge.",
    ),
    errors.InvalidRequest.code: Entry(
        "What was asked for cannot be carried out any more: the dataset has changed since.",
        "Look at the dataset as it is now, and ask again.",
    ),
    errors.NotFound.code: Entry(
        "Something that the job needs is not there any more.",
        "Read the message for what is missing, put it back, then start the job anew.",
    ),
    errors.Unavailable.code: Entry(
        "The worker is not set up right, or something that it needs does not answer.",
        "Read the message for the setting or component, mend it where the worker runs, then start the job anew.",
    ),
}


def look_up(code: str) -> Entry:
    """The entry of a code; that of ``export_failed`` for one that this release does not know."""
    return CATALOGUE.get(code, CATALOGUE[errors.ExportError.code])
