"""The queue's benchmark, as far as it needs no server: what it tries, what it counts and when it complains."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from bench import queue_plans, queue_report
from bench.queue_latency import Latency
from bench.queue_load import Figures, Load
from bench.queue_peers import CONTENDERS
from bench.queue_plans import Plan
from bench.queue_report import Findings
from bench.queue_tables import Tables
from outhaul.domain.transitions import TRANSITIONS, Event
from outhaul.errors import Unavailable
from outhaul.store.database import query

BEFORE = Figures(100, 40, 5, 1000, 0, 1_000_000, 2_000_000, 1)
AFTER = Figures(300, 90, 75, 1000, 1, 3_000_000, 2_500_000, 4)
LOAD = Load(
    "outhaul", "Outhaul: claim, settle", 50, 600, 60.0, 1.0, 2.0, 0.5, 0.7,
    {"IO: WALSync": 0.5, "Lock: tuple": 0.2, "Lock: advisory": 0.1, "at work": 0.2}, BEFORE, AFTER,
)  # fmt: skip
SEEN = Plan("job_list", ("Index Scan using export_jobs_tenant", "Sort"), 50, 12.0)
FULL = Plan("job_list_all", ("Sort", "Seq Scan on export_jobs"), 5_000_000, 800_000.0)


def findings(**changes):
    latency = Latency("claim", 300, 1.0, 2.0, 1.1, 3.5)
    fields = {"latencies": [latency], "plans": [SEEN, FULL], "loads": [LOAD]} | changes
    return Findings("16.0", 50_000, 5_000_000, **fields)


def variants(name):
    values = {**queue_plans.VALUES, "id": (1,), "job_id": (1,), "tenant_id": (1,)}
    return list(queue_plans._variants(name, values))


@pytest.mark.parametrize("file", sorted(f.name for f in files("sql").joinpath("queries").iterdir() if f.name[0] != "_"))
def test_every_statement_can_be_explained(file):
    name = file.removesuffix(".sql")
    for _, params in variants(name):
        assert set(params) == set(query(name).compile().params)


def test_what_may_be_null_is_tried_both_ways():
    assert [params["status"] for _, params in variants("job_list")] == [None, "completed", "dead"]


def test_moves_are_explained_with_their_own_guards():
    ((_, params),) = variants("job_claim")
    assert params["sources"] == [status for status, moves in TRANSITIONS.items() if Event.CLAIM in moves]
    assert params["target"] == "processing"


def test_a_parameter_without_a_value_is_named():
    with pytest.raises(Unavailable, match=r"has no value for id of sql/queries/job_get\.sql"):
        list(queue_plans._variants("job_get", queue_plans.VALUES))


def test_steps_are_told_apart():
    plan = {
        "Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "export_jobs",
        "Plans": [
            {"Node Type": "Incremental Sort", "Plans": [{"Node Type": "Seq Scan", "Relation Name": "export_jobs"}]},
            {"Node Type": "Index Scan", "Relation Name": "export_jobs", "Index Name": "export_jobs_pkey"},
        ],
    }  # fmt: skip
    assert [queue_plans._step(node) for node in queue_plans._nodes(plan)] == [
        "Update on export_jobs", "Incremental Sort", "Seq Scan on export_jobs", "Index Scan using export_jobs_pkey",
    ]  # fmt: skip


def test_a_statement_that_reads_all_jobs_is_named():
    assert findings().full_reads() == ["job_list_all"]
    assert findings(plans=[SEEN]).full_reads() == []


def test_the_load_adds_up():
    assert LOAD.per_second == 10
    assert LOAD.lock_waits == pytest.approx(0.3)
    assert (LOAD.change("updates"), LOAD.change("deadlocks")) == (200, 3)


def test_the_tables_say_what_was_found():
    latency, plans, loads, after = queue_report.sheets(findings())
    assert latency.rows == [("claim", "300", "1.00", "2.00", "1.10", "3.50", "1.75", "> 1.5")]
    assert [row[0] for row in plans.rows] == ["job_list", "job_list_all"]
    assert loads.rows[0][:4] == ("Outhaul: claim, settle", "600", "60.0", "10")
    assert after.rows[0][1:5] == ("200", "25%", "75", "1")
    assert [sheet.title for sheet in queue_report.sheets(findings(plans=[], loads=[]))] == [latency.title]
    assert all(len(row) == len(sheet.headings) for sheet in (latency, plans, loads, after) for row in sheet.rows)


def test_the_same_for_documents_and_programs():
    assert "| claim | 300 | 1.00 | 2.00 | 1.10 | 3.50 | 1.75 | > 1.5 |" in queue_report.markdown(findings())
    content = json.loads(queue_report.document(findings()))
    assert content["latencies"][0]["ratio"] == 1.75
    assert content["loads"][0]["after"]["dead_rows"] == 75


def test_the_past_has_a_mark_of_its_own():
    short, long = Tables(None, 1_000), Tables(None, 50_000)
    assert (short.tenants, long.tenants) == (1_000, 10_000)
    assert short._mark() != long._mark()
    assert b"{jobs}" not in long._script("queue_seed.sql")
    assert b"{tenants}" not in long._script("queue_live.sql")


def test_each_contender_has_a_name_of_its_own():
    assert len({contender.name for contender in CONTENDERS}) == len(CONTENDERS)
