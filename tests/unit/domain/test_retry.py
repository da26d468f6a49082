from datetime import timedelta

import pytest

from outhaul.domain.retry import RetryRule, Verdict, classify
from outhaul.errors import (
    Cancelled,
    ContractViolation,
    CountMismatch,
    Interrupted,
    InvalidRequest,
    LeaseLost,
    SourceError,
    StoreError,
    UnrepresentableValue,
)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (SourceError("gone", sqlstate="08006"), Verdict.TRANSIENT),  # connection failure
        (SourceError("full", sqlstate="53300"), Verdict.TRANSIENT),  # too many connections
        (SourceError("deadlock", sqlstate="40P01"), Verdict.TRANSIENT),
        (SourceError("timeout", sqlstate="57014"), Verdict.TRANSIENT),
        (SourceError("shutdown", sqlstate="57P01"), Verdict.TRANSIENT),
        (SourceError("lock", sqlstate="55P03"), Verdict.TRANSIENT),
        (SourceError("no state", sqlstate=None), Verdict.TRANSIENT),
        (SourceError("no table", sqlstate="42P01"), Verdict.PERMANENT),
        (SourceError("no column", sqlstate="42703"), Verdict.PERMANENT),
        (SourceError("no right", sqlstate="42501"), Verdict.PERMANENT),
        (SourceError("division", sqlstate="22012"), Verdict.PERMANENT),
        (StoreError("slow down", status=503), Verdict.TRANSIENT),
        (StoreError("too many", status=429), Verdict.TRANSIENT),
        (StoreError("reset", status=None), Verdict.TRANSIENT),
        (StoreError("no right", status=403), Verdict.PERMANENT),
        (StoreError("no bucket", status=404), Verdict.PERMANENT),
        (ContractViolation("null in a column that has none"), Verdict.PERMANENT),
        (UnrepresentableValue("infinity"), Verdict.PERMANENT),
        (InvalidRequest("columns", "gone since"), Verdict.PERMANENT),
        (CountMismatch("lost a row"), Verdict.TRANSIENT),
        (MemoryError(), Verdict.TRANSIENT),
        (Cancelled("stop"), Verdict.CANCELLED),
        (Interrupted("deploy"), Verdict.INTERRUPTED),
        (LeaseLost("other"), Verdict.FENCED),
    ],
)
def test_what_a_failure_means(error, verdict):
    assert classify(error) is verdict


def test_three_retries_and_no_fourth():
    rule = RetryRule()
    for n, least in enumerate([timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10)]):
        tries = {rule.delay(n) for _ in range(50)}
        assert all(least <= delay <= 1.1 * least for delay in tries)
        assert len(tries) > 1, "what failed together must not come back together"
    assert rule.delay(3) is None
    assert RetryRule([timedelta(seconds=1)]).delay(1) is None
    assert RetryRule([]).delay(0) is None
