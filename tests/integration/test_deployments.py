"""Pools and deployments on a real Prefect server, set up twice."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from ast import literal_eval

import httpx
import pytest
from receivers import receiver

from outhaul.stack.child import Child
from outhaul.stack.components import api_url, components, environment
from outhaul.store.local import LocalStore

BOOTSTRAP = [sys.executable, "-m", "deployments.bootstrap"]


@pytest.fixture(scope="module")
def prefect(tmp_path_factory):
    """The environment of a Prefect server that knows nothing yet."""
    home = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = environment(os.environ, home, prefect_api_url=api_url(port), database_url="", source_url="")
    server = next(c for c in components(port=port, api_port=port, embedded_prefect=True)[0] if c.name == "prefect")
    child = Child(server, env, home)
    child.start()
    child.await_ready()
    yield env
    child.stop()


def test_bootstrap_twice(prefect):
    with httpx.Client(base_url=f"{prefect['PREFECT_API_URL']}/", trust_env=False) as api:
        for round_ in (1, 2):
            subprocess.run(BOOTSTRAP, env=prefect, check=True)
            pools = {name: api.get(f"work_pools/{name}").json() for name in ("exports", "maintenance")}
            assert {name: (p["type"], p["concurrency_limit"]) for name, p in pools.items()} == {
                "exports": ("process", 4),
                "maintenance": ("process", None),
            }
            export = api.get("deployments/name/export/export").json()
            assert (export["work_pool_name"], export["entrypoint"]) == ("exports", "flows.export.export")
            assert (export["schedules"], export["global_concurrency_limit"], export["pull_steps"]) == ([], None, [])
            assert set(export["parameter_openapi_schema"]["required"]) >= {"job_id"}
            assert export["enforce_parameter_schema"]
            sweep = api.get("deployments/name/sweep/sweep").json()
            assert (sweep["work_pool_name"], sweep["entrypoint"]) == ("maintenance", "flows.sweep.sweep")
            assert sweep["global_concurrency_limit"] is None
            (schedule,) = sweep["schedules"]
            assert (schedule["slug"], schedule["active"]) == ("every-minute", True)
            assert (schedule["schedule"]["cron"], schedule["schedule"]["timezone"]) == ("* * * * *", "UTC")
            clean = api.get("deployments/name/clean/clean").json()
            assert (clean["work_pool_name"], clean["entrypoint"]) == ("maintenance", "flows.clean.clean")
            assert [each["schedule"]["cron"] for each in clean["schedules"]] == ["17 * * * *"]
            (silence,) = api.post("automations/filter", json={}).json()
            assert silence["enabled"]
            assert (silence["trigger"]["posture"], silence["actions"][0]["state"]) == ("Proactive", "CRASHED")
            if round_ == 1:  # an operator's change in Prefect's own interface is put right by the next round
                api.patch("work_pools/exports", json={"concurrency_limit": None}).raise_for_status()


def test_operators_are_told_by_a_block_and_of_pools_without_a_worker(prefect):
    with receiver() as chat, httpx.Client(base_url=f"{prefect['PREFECT_API_URL']}/", trust_env=False) as api:
        kind = api.get("block_types/slug/custom-webhook").raise_for_status().json()["id"]
        schema = api.post("block_schemas/filter", json={"block_schemas": {"block_type_id": {"any_": [kind]}}}).json()[0]
        data = {"name": "x", "url": chat.url, "json_data": {"text": "{{body}}"}, "allow_private_urls": True}
        block = {"name": "ops", "data": data, "block_schema_id": schema["id"], "block_type_id": kind}
        api.post("block_documents/", json=block).raise_for_status()
        tell = "from outhaul.orchestrator import Orchestrator; Orchestrator().notify('custom-webhook/ops', 'two died')"
        subprocess.run([sys.executable, "-c", tell], env=prefect, check=True)
        assert b"two died" in chat.seen[0].body
        subprocess.run(BOOTSTRAP, env={**prefect, "OUTHAUL_ALERT_BLOCK": "custom-webhook/ops"}, check=True)
        (idle,) = [each for each in api.post("automations/filter", json={}).json() if "worker" in each["name"]]
        assert idle["trigger"]["expect"] == ["prefect.work-pool.not-ready"]
        assert idle["actions"][0]["type"] == "send-notification"
        api.delete(f"automations/{idle['id']}").raise_for_status()
    wrong = {**prefect, "OUTHAUL_ALERT_BLOCK": "slack-webhook/none"}
    done = subprocess.run(BOOTSTRAP, env=wrong, check=False, capture_output=True, text=True)
    assert done.stderr.startswith("outhaul: OUTHAUL_ALERT_BLOCK: Prefect has no block 'slack-webhook/none'")


@pytest.fixture
def ask(prefect):
    """Makes a run of request-export by Prefect's API; the server of this module is set up by the test above."""
    with httpx.Client(base_url=f"{prefect['PREFECT_API_URL']}/", trust_env=False) as api:
        deployment = api.get("deployments/name/request-export/request-export").json()
        yield lambda **given: api.post(f"deployments/{deployment['id']}/create_flow_run", json={"parameters": given})


def test_the_form_is_stored(prefect):
    url = f"{prefect['PREFECT_API_URL']}/deployments/name/request-export/request-export"
    deployment = httpx.get(url, trust_env=False).json()
    assert (deployment["work_pool_name"], deployment["schedules"]) == ("maintenance", [])
    assert deployment["enforce_parameter_schema"]
    schema = deployment["parameter_openapi_schema"]
    assert schema["required"] == ["dataset", "tenant"]
    fields = sorted(schema["properties"].values(), key=lambda field: field["position"])
    assert [field["title"] for field in fields] == [
        "dataset", "tenant", "format", "query", "recipients", "priority", "options",
    ]  # fmt: skip
    assert all(field["description"] for field in fields)
    assert schema["properties"]["dataset"]["enum"] == ["flights", "flight_planes", "weather"]
    choices = {name: schema["definitions"][name]["enum"] for name in ("Format", "Priority")}
    assert choices == {"Format": ["csv", "json", "parquet"], "Priority": ["high", "normal", "low"]}
    for name in ("QueryForm", "FilterForm", "OptionsForm", "Sort"):
        assert schema["definitions"][name]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "'dataset' is a required property"),
        ({"dataset": "flightz"}, "'dataset'. Failure reason: 'flightz' is not one of ['flights', "),
        ({"format": "xls"}, "'format'. Failure reason: 'xls' is not one of ['csv', 'json', 'parquet']"),
        ({"query": {"limit": -1}}, "'query.limit'. Failure reason: -1 is less than the minimum of 0"),
        ({"query": {"colums": ["dest"]}}, "('colums' was unexpected)"),
        (
            {"query": {"filters": [{"column": "dest", "op": "~"}]}},
            "'query.filters[0].op'. Failure reason: '~' is not one",
        ),
        ({"options": {"csv": {"quote": "some"}}}, "'options.csv.quote'. Failure reason: 'some' is not one of"),
        ({"options": {"csv": {"delimeter": ";"}}}, "('delimeter' was unexpected)"),
    ],
)
def test_prefect_refuses_what_the_form_does_not_know(ask, given, words):
    answer = ask(**({"dataset": "flights", "tenant": "UA"} | given if given else {}))
    assert answer.status_code == 409
    assert words in answer.json()["detail"]


def test_prefect_takes_what_a_person_fills_in(ask):
    filled = {
        "query": {
            "columns": ["flight", "dest"],
            "filters": [
                {"column": "dest", "op": "in", "value": ["ORD", "SFO"]},
                {"column": "dep_delay", "op": ">", "value": 60.5},
                {"column": "arr_delay", "op": "is_null"},
            ],
            "sort": [{"column": "dest", "descending": True, "nulls": "last"}],
            "limit": 5,
        },
        "options": {"csv": {"excel": True, "guard_formulas": ["dest"]}},
    }
    assert ask(dataset="flights", tenant="UA", **filled).status_code == 201


STALE = """
import sys
from datetime import UTC, datetime, timedelta
from prefect.client.orchestration import get_client
from prefect.states import Cancelling, Pending, Running, Scheduled
from outhaul.orchestrator import Orchestrator

PARAMETERS = {
    "export": {"job_id": "00000000-0000-0000-0000-000000000000"},
    "request-export": {"dataset": "flights", "tenant": "UA"},
}
client, now = get_client(sync_client=True), datetime.now(UTC)
names = ("export", "request-export", "sweep", "deliver", "clean")
deployments = {name: client.read_deployment_by_name(f"{name}/{name}").id for name in names}
for name in ("sweep", "deliver", "clean"):
    client.pause_deployment(deployments[name])
for made in client.read_flow_runs():
    client.delete_flow_run(made.id)

def due(minutes):
    return Scheduled(scheduled_time=now + timedelta(minutes=minutes))

def run(name, start, *states):
    made = client.create_flow_run_from_deployment(deployments[name], parameters=PARAMETERS.get(name), state=due(start))
    for state in states:
        client.set_flow_run_state(made.id, state, force=True)
    return made.id

runs = {
    "handed out": run("export", 0, Pending()), "handed out, too": run("sweep", 0, Pending()),
    "told to stop": run("export", 0, Running(), Cancelling()),
    "at work": run("export", 0, Running()), "late export": run("export", -9),
    "late": run("sweep", -5), "later": run("sweep", -4),
    "asked": run("request-export", 0, Pending()), "asked late": run("request-export", -9),
    "lone": run("clean", -5), "due soon": run("sweep", 1),
}
print(Orchestrator().clear_stale(timedelta(hours=1)), Orchestrator().clear_stale(timedelta(0)))
print({name: client.read_flow_run(id).state.name for name, id in runs.items()})
"""


def test_runs_that_nobody_takes_further_are_ended(prefect):
    done = subprocess.run([sys.executable, "-c", STALE], env=prefect, check=True, capture_output=True, text=True)
    counts, states = done.stdout.splitlines()[-2:]
    assert counts == "0 5"
    assert literal_eval(states) == {
        "handed out": "Crashed", "handed out, too": "Crashed", "told to stop": "Cancelled",
        "at work": "Running", "late export": "Scheduled", "asked": "Crashed", "asked late": "Scheduled",
        "late": "Cancelled", "later": "Scheduled", "lone": "Scheduled", "due soon": "Scheduled",
    }  # fmt: skip


def test_clean_takes_what_nobody_works_on(prefect, tmp_path):
    store = LocalStore(tmp_path)
    for name in ("fresh", "stale"):
        upload = store.open_upload(f"t/{name}.csv", "text/csv")
        upload.write(b"half")
        upload.finish()
    whole = store.open_upload("t/whole.csv", "text/csv")
    whole.write(b"x")
    whole.complete()
    fresh, stale = sorted((tmp_path / "t").glob(".outhaul-*"), key=os.path.getmtime)
    os.utime(stale, (0, 0))
    env = {**prefect, "OUTHAUL_STORE_URL": tmp_path.as_uri()}
    program = "from flows.clean import clean; print('removed', clean())"
    done = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True)
    assert "removed 1" in done.stdout
    assert {path.name for path in (tmp_path / "t").iterdir()} == {fresh.name, "whole.csv"}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (None, "outhaul: PREFECT_API_URL is not set"),
        ("http://127.0.0.1:1/api", "outhaul: Prefect's API does not answer"),
    ],
)
def test_without_a_server_it_is_one_plain_line(prefect, url, words):
    env = {**prefect, "PREFECT_API_URL": url} if url else {k: v for k, v in prefect.items() if k != "PREFECT_API_URL"}
    done = subprocess.run(BOOTSTRAP, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(words)
