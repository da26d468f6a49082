"""Pools and deployments on a real Prefect server, set up twice."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import httpx
import pytest

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
    server = next(c for c in components(port=port, embedded_prefect=True)[0] if c.name == "prefect")
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
                "maintenance": ("process", 2),
            }
            export = api.get("deployments/name/export/export").json()
            assert (export["work_pool_name"], export["entrypoint"]) == ("exports", "flows.export.export")
            assert (export["schedules"], export["global_concurrency_limit"], export["pull_steps"]) == ([], None, [])
            assert set(export["parameter_openapi_schema"]["required"]) >= {"job_id"}
            assert export["enforce_parameter_schema"]
            sweep = api.get("deployments/name/sweep/sweep").json()
            assert (sweep["work_pool_name"], sweep["entrypoint"]) == ("maintenance", "flows.sweep.sweep")
            assert sweep["global_concurrency_limit"]["limit"] == 1
            assert sweep["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
            (schedule,) = sweep["schedules"]
            assert (schedule["slug"], schedule["active"]) == ("every-minute", True)
            assert (schedule["schedule"]["cron"], schedule["schedule"]["timezone"]) == ("* * * * *", "UTC")
            clean = api.get("deployments/name/clean/clean").json()
            assert (clean["work_pool_name"], clean["entrypoint"]) == ("maintenance", "flows.clean.clean")
            assert [each["schedule"]["cron"] for each in clean["schedules"]] == ["17 * * * *"]
            if round_ == 1:  # an operator's change in Prefect's own interface is put right by the next round
                api.patch("work_pools/exports", json={"concurrency_limit": None}).raise_for_status()


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
