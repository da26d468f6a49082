"""The worker command's errors, and the process on standby with a small stand-in for Prefect's engine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import psutil
import pytest

from outhaul.errors import InvalidRequest
from outhaul.stack import spare as spare_module
from outhaul.stack.spare import Spare
from outhaul.stack.worker import work

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ["python", "-m", "prefect.engine"]
ENGINE = """
import os, sys
print("preloaded" if "wave" in sys.modules else "fresh", os.environ["PREFECT__FLOW_RUN_ID"], os.environ.get("MINE"))
print(os.getcwd(), sys.path[0], len(sys.argv), __name__, flush=True)
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("pool", "limit", "grace", "words"),
    [
        ("export", None, 0, r"^pool: .*exports"),
        ("exports", 0, 0, r"^limit: must be at least 1$"),
        ("exports", None, -1, r"^grace: must not be negative$"),
    ],
)
def test_what_cannot_be_is_one_plain_line(pool, limit, grace, words):
    with pytest.raises(InvalidRequest, match=words):
        work(pool, limit=limit, grace=timedelta(seconds=grace), name=None)


def test_a_prefect_that_does_not_answer_is_named():
    env = {**os.environ, "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    done = subprocess.run(
        [sys.executable, "-m", "outhaul", "worker", "maintenance"], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "outhaul: Prefect does not answer at http://127.0.0.1:9/api/: check PREFECT_API_URL\n",
    )


def test_prefect_still_opens_its_processes_where_the_spare_steps_in():
    from prefect.runner import _starter_engine
    from prefect.utilities import processutils

    assert _starter_engine.run_process is processutils.run_process
    assert "open_process" in processutils.run_process.__code__.co_names


@pytest.fixture
def env(tmp_path):
    """An environment in which the stand-in is Prefect."""
    package = tmp_path / "lib" / "prefect"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "engine.py").write_text(ENGINE)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": f"{package.parent}{os.pathsep}{ROOT}"}


@asynccontextmanager
async def open_process(command, **options):
    async with await anyio.open_process(command, **options) as process:
        yield process


@pytest.fixture
def carry_out(env, tmp_path, capfd):
    """Has one run carried out; returns its process id, exit status and words, which go to the worker's own output."""

    async def carry_out(spare, command=COMMAND, **more):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}  # what Prefect asks for
        mine = {**env, "PREFECT__FLOW_RUN_ID": "7", **more}
        async with spare.open_process(command, env=mine, cwd=tmp_path, **pipes) as process:
            assert (process.stdout, process.stderr) == (None, None), "a run outlives its worker: no pipe may break"
            assert os.getsid(process.pid) == process.pid, "a terminal's Ctrl-C is for the worker alone"
            return process.pid, await process.wait(), capfd.readouterr().out.split()

    return carry_out


async def standing_by(spare):
    while spare._process is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return spare._process


@pytest.fixture
def check(env, monkeypatch):
    """Runs a test's coroutine with a spare, and sees that nothing of it is left."""
    monkeypatch.setattr(spare_module, "REST_SECONDS", 0.0)

    before = set(psutil.Process().children())

    def run(test):
        async def body():
            spare = Spare(open_process, ("wave",), env)
            spare.prepare()
            try:
                await test(spare)
            finally:
                await spare.close()

        asyncio.run(body())
        assert set(psutil.Process().children()) <= before

    return run


def test_a_run_is_the_process_on_standby(check, carry_out, tmp_path):
    async def test(spare):
        for _ in range(2):  # the next one is prepared
            waiting = await standing_by(spare)
            pid, status, words = await carry_out(spare)
            assert (pid, status) == (waiting.pid, 3)
            assert words == ["preloaded", "7", "None", str(tmp_path), str(tmp_path), "1", "__main__"]

    check(test)


def test_another_environment_gets_a_process_of_its_own_and_is_expected_next(check, carry_out):
    async def test(spare):
        waiting = await standing_by(spare)
        pid, status, words = await carry_out(spare, MINE="x")
        assert pid != waiting.pid
        assert (status, words[:3]) == (3, ["fresh", "7", "x"])
        waiting = await standing_by(spare)
        pid, _, words = await carry_out(spare, MINE="x")
        assert (pid, words[:3]) == (waiting.pid, ["preloaded", "7", "x"])

    check(test)


def test_another_command_gets_a_process_of_its_own(check, carry_out):
    async def test(spare):
        waiting = await standing_by(spare)
        pid, status, words = await carry_out(spare, [sys.executable, "-c", "print('other')"])
        assert (status, words) == (0, ["other"])
        assert spare._process is waiting
        assert pid != waiting.pid

    check(test)


def test_one_that_died_on_standby_is_replaced(check, carry_out):
    async def test(spare):
        waiting = await standing_by(spare)
        waiting.kill()
        await waiting.wait()
        pid, status, words = await carry_out(spare)
        assert pid != waiting.pid
        assert (status, words[0]) == (3, "fresh")
        assert (await standing_by(spare)).pid not in {pid, waiting.pid}

    check(test)


def test_one_on_standby_ends_with_its_worker():
    command = [sys.executable, "-P", "-m", "outhaul.stack.standby", "wave"]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=20).returncode == 0
