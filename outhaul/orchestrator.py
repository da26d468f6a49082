"""The one place that speaks to Prefect's API: make, look at, reschedule and cancel the runs that carry out jobs."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from outhaul.errors import PrefectUnavailable, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, State

    from outhaul.domain.job import Job

DEPLOYMENT = "export/export"
PERIODIC = ("sweep", "deliver", "clean")
FLOWS = ("export", "request-export", *PERIODIC)


class RunState(Enum):
    """What a run will do, as far as a job is concerned."""

    WAITING = auto()  # scheduled, or in line for a worker
    PENDING = auto()  # handed to a worker, not yet running
    RUNNING = auto()
    ENDED = auto()
    MISSING = auto()  # Prefect does not know it


class Orchestrator:
    """Prefect, as the queue needs it. Every method raises PrefectUnavailable when the API does not answer.

    ``prefect`` is imported on first use: it costs more than a second, which not every command should pay.
    """

    @cached_property
    def _client(self) -> SyncPrefectClient:
        from prefect.client.orchestration import get_client

        return get_client(sync_client=True)

    def create(self, job: Job) -> UUID:
        """Make the run of the job's present generation; asking again returns the same run."""
        with _translated():
            run = self._client.create_flow_run_from_deployment(
                self._deployment_id,
                parameters={"job_id": str(job.id), "generation": job.generation},
                name=f"{job.dataset} · {job.tenant} · {job.format} · {job.short_id}",
                tags=[f"tenant:{job.tenant}", f"dataset:{job.dataset}"],
                idempotency_key=f"{job.id}/{job.generation}",
            )
            return run.id

    def state(self, run_id: UUID) -> RunState:
        """What the run is doing now."""
        with _translated():
            state = self._read(run_id)
        if state is None:
            return RunState.MISSING
        if state.is_final():
            return RunState.ENDED
        if state.is_running():
            return RunState.RUNNING
        return RunState.PENDING if state.is_pending() else RunState.WAITING

    def reschedule(self, run_id: UUID, at: datetime) -> bool:
        """Let the same run start again at ``at``; False when Prefect does not know it any more.

        A run that Prefect still believes alive is marked crashed first: the caller knows from the lease that it is not.
        The change to AwaitingRetry must not be forced, for only Prefect's own rule makes a worker pick the run up.
        """
        from prefect.states import AwaitingRetry

        with _translated():
            state = self._read(run_id)
            if state is None:
                return False
            if not state.is_final():
                if state.is_scheduled():
                    return True
                self._crash(run_id)
            self._client.set_flow_run_state(run_id, AwaitingRetry(scheduled_time=at))
            return True

    def end(self, run_id: UUID) -> None:
        """Mark a run whose process is gone as crashed, so that it takes no place in its pool any more."""
        with _translated():
            state = self._read(run_id)
            if state is not None and not state.is_final():
                self._crash(run_id)

    def cancel(self, run_id: UUID) -> None:
        """Ask Prefect to stop the run; one that has ended or is unknown is left alone."""
        from prefect.states import Cancelled, Cancelling

        with _translated():
            state = self._read(run_id)
            if state is None or state.is_final():
                return
            at_work = state.is_running() or state.is_pending()
            self._client.set_flow_run_state(run_id, Cancelling() if at_work else Cancelled())

    def clear_stale(self, age: timedelta) -> int:
        """End the runs that nobody will take further; returns how many.

        Those that a worker was handed more than ``age`` ago and never began: it died with them, and until they end they
        take places in the pool. Those that were to be cancelled as long ago: their process hears of it from the job's
        row, but without their worker they stay Cancelling for ever. And all but the latest of each periodic flow's runs
        that are late by as much.
        """
        from prefect.states import Cancelled, Crashed

        before = datetime.now(UTC) - age
        ends: dict[str, State] = {
            "PENDING": Crashed(message="No worker began it."),
            "CANCELLING": Cancelled(message="No worker stopped it."),
        }
        with _translated():
            stuck = [
                (run.id, end)
                for name, end in ends.items()
                for run in self._runs(FLOWS, name)
                if run.state and run.state.timestamp < before
            ]
            for run_id, end in stuck:
                self._client.set_flow_run_state(run_id, end, force=True)
            late = [run for name in PERIODIC for run in self._runs([name], "SCHEDULED", before)[:-1]]
            for run in late:
                self._client.set_flow_run_state(run.id, Cancelled(message="A later run does its work."))
        return len(stuck) + len(late)

    def store_login(self, block: str) -> tuple[Any, dict[str, Any]]:
        """The boto3 session and client parameters of a prefect-aws block, given as ``block-type/name``."""
        from prefect_aws.credentials import AwsCredentials, MinIOCredentials

        kinds: dict[str, Any] = {"aws-credentials": AwsCredentials, "minio-credentials": MinIOCredentials}
        kind, _, name = block.partition("/")
        if kind not in kinds or not name:
            raise Unavailable(
                f"OUTHAUL_STORE_CREDENTIALS_BLOCK: {block!r} is not {' or '.join(f'{k}/NAME' for k in kinds)}"
            )
        with _translated():
            try:
                credentials: Any = kinds[kind].load(name)
            except ValueError:
                raise Unavailable(f"OUTHAUL_STORE_CREDENTIALS_BLOCK: Prefect has no block {block!r}") from None
        return credentials.get_boto3_session(), credentials.aws_client_parameters.get_params_override()

    def notify(self, block: str, text: str) -> None:
        """Send a message by a notification block, given as ``slack-webhook/ops``.

        Raises:
            PrefectUnavailable: also when there is no such block, or it cannot send.
        """
        from prefect.blocks.abstract import NotificationBlock
        from prefect.blocks.core import Block

        try:
            with _translated():
                loaded: Any = Block.load(block)
                if isinstance(loaded, NotificationBlock):
                    cast("Any", loaded).notify(text, "Outhaul")  # a coroutine only where a loop runs
                    return
        except ValueError:
            raise PrefectUnavailable(f"OUTHAUL_ALERT_BLOCK: Prefect has no block {block!r}") from None
        raise PrefectUnavailable(f"OUTHAUL_ALERT_BLOCK: {block!r} is not a block that notifies")

    def _runs(self, flows: Sequence[str], state: str, before: datetime | None = None) -> list[FlowRun]:
        """Runs of these flows in a state, by the time for which they are due; at most 200."""
        from prefect.client.schemas import filters
        from prefect.client.schemas.objects import StateType
        from prefect.client.schemas.sorting import FlowRunSort

        return self._client.read_flow_runs(
            flow_filter=filters.FlowFilter(name=filters.FlowFilterName(any_=[*flows])),
            flow_run_filter=filters.FlowRunFilter(
                state=filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=[StateType(state)])),
                expected_start_time=filters.FlowRunFilterExpectedStartTime(before_=before),
            ),
            sort=FlowRunSort.EXPECTED_START_TIME_ASC,
        )

    @cached_property
    def _deployment_id(self) -> UUID:
        from prefect.exceptions import ObjectNotFound

        try:
            return self._client.read_deployment_by_name(DEPLOYMENT).id
        except ObjectNotFound:
            raise PrefectUnavailable(f"Prefect has no deployment {DEPLOYMENT}: run `outhaul deploy`") from None

    def _crash(self, run_id: UUID) -> None:
        from prefect.states import Crashed

        self._client.set_flow_run_state(run_id, Crashed(message="The worker's lease ran out."), force=True)

    def _read(self, run_id: UUID) -> Any:
        from prefect.exceptions import ObjectNotFound

        try:
            return self._client.read_flow_run(run_id).state
        except ObjectNotFound:
            return None


@contextmanager
def _translated() -> Iterator[None]:
    import httpx
    from prefect.exceptions import PrefectException

    try:
        yield
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:
        raise PrefectUnavailable("Prefect's API does not answer: check PREFECT_API_URL", detail=str(error)) from error
