"""How PostgreSQL means to answer each statement in ``sql/queries`` with a long past."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from outhaul.domain.transitions import Event, sources, target
from outhaul.errors import Unavailable
from outhaul.store.database import connect, query, transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Connection

    from bench.queue_tables import Tables

# A value for each parameter of each statement. Those that may be NULL are tried both ways.
NIL = "00000000-0000-0000-0000-000000000000"
VALUES: dict[str, tuple[Any, ...]] = {
    "action": ("bench",), "actor": ("bench",), "again_s": (300.0,), "delivery_id": (NIL,), "held": (True,),
    "key": ("orders store_error",), "kind": ("dead",), "last_at": ("2026-01-01T00:00:00Z",), "patience_s": (600.0,),
    "quiet_s": (3600.0,), "seen": ("processing",), "after_at": (None, "2026-01-01T00:00:00Z"), "after_id": (NIL,),
    "answer": (200,), "attempt": (1,), "automatic": (False,), "automatic_only": (False,), "bound": (10_000,),
    "byte_count": (1,), "bytes": (1,), "code": ("x",), "count": (50,), "dataset": ("orders",), "delay_s": (30.0,),
    "description": ("x",), "detail": ("{}",), "detail_text": ("x",), "digits": ("0123abcd",), "enabled": (True,),
    "endpoint_id": (None, NIL), "event": ("claim",), "events": (["export.completed"],), "export_enabled": (True,),
    "files": ("[]",), "flow_run_id": (NIL,), "format": ("csv",), "from_status": ("queued",), "generation": (1,),
    "grace_s": (120.0,), "hash": (b"x",), "hold": (True,), "hold_s": (300.0,), "idempotency_key": ("x",),
    "ids": ([NIL],), "lasting_s": (60.0,), "lease_s": (300.0,), "manifest_key": ("x",), "max_active": (100,),
    "max_concurrent_jobs": (2,), "max_per_source": (100,), "message": ("x",), "name": ("tenant-1",), "new_run": (1,),
    "note": ("x",), "notice": ("export.completed",), "options": ("{}",), "outcome": ("retry",),
    "overlap_s": (86_400.0,), "owner": ("x",), "part": (0,), "per_addressee": (4,), "plan": ("pro",),
    "priority": ("normal",), "query": ("{}",), "reason": ("x",), "recipients": ("",), "requested_by": ("bench",),
    "row_count": (1,), "rows": (1,), "rows_done": (1,), "rows_total_estimate": (1,), "s3_key": ("x",),
    "scope": ("queue",), "scopes": (["read"],), "secret": ("x",), "sha256": ("0" * 64,), "silent": (0,),
    "since": (None, "2026-01-01T00:00:00Z"), "source": ("default",), "status": (None, "completed", "dead"),
    "to_status": ("processing",), "tries": (1,), "until": (None, "2026-01-01T00:00:00Z"),
    "url": ("https://hooks.example.com/x",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """What reads the tables in one statement's plan; ``rows`` is the most that one step of it expects to read."""

    statement: str
    steps: tuple[str, ...]
    rows: int
    cost: float

    @property
    def reads_all_jobs(self) -> bool:
        """Whether it goes through the whole table of jobs."""
        return "Seq Scan on export_jobs" in self.steps


def explain_all(tables: Tables) -> list[Plan]:
    """The plan of every statement, for the tenant with the most jobs, the costliest last.

    Raises:
        Unavailable: the database does not answer, or a statement has a parameter that has no value here.
    """
    names = sorted(f.name.removesuffix(".sql") for f in files("sql").joinpath("queries").iterdir() if f.name[0] != "_")
    engine = connect(tables.url, application_name="outhaul bench")
    with transaction(engine) as connection:
        job, tenant = connection.execute(
            text("SELECT id, tenant_id FROM export_jobs WHERE id = CAST(md5('job 1') AS uuid)")
        ).one()
        values = {**VALUES, "id": (job,), "job_id": (job,), "tenant_id": (tenant,)}
        plans = [
            _explain(connection, name, variant, params) for name in names for variant, params in _variants(name, values)
        ]
    engine.dispose()
    return sorted(plans, key=lambda plan: plan.cost)


def _variants(name: str, values: Mapping[str, tuple[Any, ...]]) -> Iterator[tuple[str, dict[str, Any]]]:
    event = name.removeprefix("job_")
    if event in list(Event):
        moves = {
            "sources": ([str(status) for status in sources(Event(event))],),
            "target": (str(target(Event(event))),),
        }
        values = {**values, **moves}
    needed = query(name).compile().params
    if unknown := sorted(set(needed) - set(values)):
        raise Unavailable(f"bench/queue_plans.py has no value for {unknown[0]} of sql/queries/{name}.sql")
    once = {parameter: values[parameter][0] for parameter in needed}
    if "status" not in needed:
        yield "", once
        return
    for status in values["status"]:
        yield f", status {status}" if status else "", {**once, "status": status}


def _explain(connection: Connection, name: str, variant: str, params: dict[str, Any]) -> Plan:
    statement = text(f"EXPLAIN (FORMAT JSON) {query(name)}")
    (found,) = connection.execute(statement, params).scalar_one()
    nodes = list(_nodes(found["Plan"]))
    reads = [node for node in nodes if "Relation Name" in node or "Index Name" in node]
    steps = dict.fromkeys(_step(node) for node in nodes if node in reads or node["Node Type"].endswith("Sort"))
    return Plan(
        name + variant,
        tuple(steps),
        max((node["Plan Rows"] for node in reads), default=0),
        found["Plan"]["Total Cost"],
    )


def _step(node: dict[str, Any]) -> str:
    kind = str(node.get("Operation", node["Node Type"]))
    if "Index Name" in node:
        return f"{kind} using {node['Index Name']}"
    return f"{kind} on {node['Relation Name']}" if "Relation Name" in node else kind


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)
