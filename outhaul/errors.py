"""Every error that a user of Outhaul can meet.

The message is one plain line, safe to show to the asker. ``detail`` is for operators: it may name hosts and hold
the vendor's own words. ``code`` is stable: it is stored on the job, grouped by and answered over HTTP.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class OuthaulError(Exception):
    """Base of all errors that are reported as one line."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail


class InvalidRequest(OuthaulError):
    """The request can never be carried out; nothing has been stored. ``field`` is the path of what is wrong."""

    code = "invalid_request"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class NotFound(OuthaulError):
    """What was asked for does not exist, or not for this tenant."""

    code = "not_found"


class Gone(OuthaulError):
    """It did exist, and its time is over."""

    code = "gone"


class Refused(OuthaulError):
    """The action is known but not allowed in the present state."""

    code = "refused"


class TooMany(OuthaulError):
    """A limit is reached; the same may be asked for again later."""

    code = "too_many"


class Unavailable(OuthaulError):
    """A component that is needed does not answer or is not set up."""

    code = "unavailable"


class PrefectUnavailable(Unavailable):
    """Prefect does not answer or is not set up; what is stored already can be admitted later."""


class ExportError(OuthaulError):
    """An export that had started could not be finished.

    ``permanent`` says that no retry can mend it.
    """

    code = "export_failed"
    permanent: ClassVar[bool] = False


class SourceError(ExportError):
    """The source database refused or broke off. ``sqlstate`` is its five-character code, or None."""

    code = "source_error"

    def __init__(self, message: str, *, sqlstate: str | None = None, detail: str = "") -> None:
        super().__init__(message, detail=detail)
        self.sqlstate = sqlstate


class SourceUnreachable(SourceError):
    """The source gives no session: no server answers, or it refuses all. Jobs wait; no retry is charged."""

    code = "source_unreachable"


class StoreError(ExportError):
    """The object store refused or broke off. ``status`` is the HTTP status, or None."""

    code = "store_error"

    def __init__(self, message: str, *, status: int | None = None, detail: str = "") -> None:
        super().__init__(message, detail=detail)
        self.status = status


class ContractViolation(ExportError):
    """The rows, or the live columns, do not keep the dataset's contract."""

    code = "contract_violation"
    permanent = True


class UnrepresentableValue(ExportError):
    """The chosen format cannot hold a value and the policy is ``fail``."""

    code = "unrepresentable_value"
    permanent = True


class CountMismatch(ExportError):
    """Rows read, rows written and rows in the manifest are not the same number."""

    code = "count_mismatch"


class LeaseLost(ExportError):
    """Another attempt owns the job now; whatever this one does is refused."""

    code = "lease_lost"


class WorkerVanished(ExportError):
    """The worker that held the job died or fell silent until its lease ran out."""

    code = "worker_vanished"


class Cancelled(ExportError):
    """A person or the API stopped the job while it was running."""

    code = "cancelled"


class Interrupted(ExportError):
    """The worker was told to stop, for example by a deploy; the attempt costs no retry."""

    code = "interrupted"


def unknown(kind: str, value: str, allowed: Iterable[str]) -> str:
    """Say that ``value`` is no ``kind``, what would be, and which of those is closest."""
    names = sorted(str(name) for name in allowed)
    close = get_close_matches(value, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{str(value)!r} is not a known {kind}.{hint} Allowed: {', '.join(names) or 'none'}."
