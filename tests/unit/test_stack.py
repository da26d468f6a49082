"""The supervisor with small stand-in programs: order, mending, stopping, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import traceback
from pathlib import Path

import psutil
import pytest

from outhaul.errors import Unavailable
from outhaul.stack import processes, supervisor
from outhaul.stack.child import Child
from outhaul.stack.components import MARK, WORKERS, Component, components, environment
from outhaul.stack.state import Standing, State
from outhaul.stack.supervisor import Stack

OUTSIDE = {"database_url": "postgresql://outside/a", "source_url": "postgresql://outside/b"}


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", textwrap.dedent(code))


def nothing(_component: str, _event: str) -> None: ...


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


SERVICE = Component("service", python("print('at work', flush=True); import time; time.sleep(600)"), says="at work")
# A stand-in for a Prefect worker: its child writes down that it was asked to stop, and takes its time over it.
RUN = """
import signal, sys, time
def hand_back(*_):
    time.sleep(0.3)
    print('handed back', flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, hand_back)
print('running', flush=True)
time.sleep(600)
"""
WORKER = Component(
    "worker",
    python(f"""
    import signal, subprocess, sys, time
    run = subprocess.Popen([sys.executable, '-c', {RUN!r}])
    def stop(*_):
        run.terminate()
        run.wait()
        print('worker stops', flush=True)
        sys.exit()
    signal.signal(signal.SIGTERM, stop)
    while True: time.sleep(0.1)
    """),
    says="running",
)


@pytest.fixture
def run_stack(tmp_path, monkeypatch):
    """Runs ``up`` and ``wait`` of a stack of stand-ins in a process of its own, as the command line does."""
    started = []

    def run(*stages: list[Component]) -> Stack:
        def serve() -> None:
            monkeypatch.setattr(supervisor, "components", lambda **_: list(stages))
            stack = Stack(tmp_path, os.environ, free_port(), api_port=free_port(), **OUTSIDE)
            with (tmp_path / "events").open("a") as events:

                def note(component, event):
                    events.write(f"{component}: {event}\n")
                    events.flush()

                if stack.up(note):
                    stack.wait(note)

        pid = os.fork()
        if pid == 0:
            try:
                serve()
            except BaseException:  # noqa: BLE001 - a forked child must not go on as a second pytest
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        started.append(psutil.Process(pid))
        return Stack(tmp_path, os.environ, **OUTSIDE)

    yield run
    processes.kill([*started, *processes.marked(MARK, str(tmp_path))])
    for process in started:
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_each_pool_has_a_worker_with_its_limit():
    from deployments.bootstrap import POOLS

    assert POOLS.keys() == WORKERS.keys()
    assert POOLS["exports"] == WORKERS["exports"]


def test_stages_are_in_order_and_an_outside_prefect_is_not_started():
    names = [[c.name for c in stage] for stage in components(port=4200, api_port=8000, embedded_prefect=True)]
    assert names == [["schema", "prefect"], ["deployments", "worker exports", "worker maintenance", "api"]]
    assert [c.name for c in components(port=4200, api_port=8000, embedded_prefect=False)[0]] == ["schema"]


def test_environment_reaches_flow_runs_whatever_the_shell_says(tmp_path):
    env = environment(
        {"PATH": "/bin", "OUTHAUL_CATALOG": "mine", "PREFECT_API_URL": "http://other", "OUTHAUL_HOME": "elsewhere"},
        tmp_path,
        prefect_api_url="http://127.0.0.1:1/api",
        database_url="a",
        source_url="b",
    )
    assert env["OUTHAUL_CATALOG"] == "mine"
    assert (env["PREFECT_API_URL"], env["OUTHAUL_DATABASE_URL"], env["OUTHAUL_SOURCE_URL"]) == (
        "http://127.0.0.1:1/api",
        "a",
        "b",
    )
    assert env["OUTHAUL_HOME"] == str(tmp_path)
    assert env["PATH"] == f"{Path(sys.executable).parent}:/bin"


def test_up_status_down(run_stack, tmp_path):
    stack = run_stack([Component("first", python("print('done')"))], [SERVICE])
    until(stack._state.ready)
    events = (tmp_path / "events").read_text().splitlines()
    assert events[:4] == ["first: starting", "first: done", "service: starting", "service: running"]
    assert stack._state.components()["service"].state == "running"
    assert Stack(tmp_path, os.environ, **OUTSIDE).up(nothing) is False
    assert stack.down(nothing) is True
    assert processes.marked(MARK, str(tmp_path)) == []
    assert not stack._state.ready()
    assert stack.down(nothing) is False
    assert {s.component: s.state for s in stack.status()}["worker exports"] == "stopped"


@pytest.mark.parametrize("signals", [1, 2], ids=["signal", "signal twice"])
@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything(run_stack, tmp_path, name, signals):
    stack = run_stack([SERVICE])
    until(stack._state.ready)
    process = stack._state.supervisor()
    for _ in range(signals):
        process.send_signal(name)
    assert processes.gone([process], 10)
    assert processes.marked(MARK, str(tmp_path)) == []


def test_what_dies_is_started_again(run_stack, tmp_path):
    stack = run_stack([SERVICE])
    until(stack._state.ready)
    before = stack._state.components()["service"].pid
    os.kill(before, signal.SIGKILL)
    until(lambda: stack._state.components()["service"].pid != before)
    assert psutil.pid_exists(stack._state.components()["service"].pid)
    assert "service: died; starting again in 1 s" in (tmp_path / "events").read_text()


def test_a_killed_supervisor_leaves_nothing_and_up_works_again(run_stack, tmp_path):
    stack = run_stack([SERVICE, WORKER])
    until(stack._state.ready)
    stack._state.supervisor().kill()
    # The worker's own child is told by nobody but the worker.
    until(lambda: processes.marked(MARK, str(tmp_path)) == [])
    stack = run_stack([SERVICE])
    until(stack._state.ready)
    assert stack.down(nothing) is True


def test_up_ends_what_an_earlier_stack_left_behind(run_stack, tmp_path):
    orphan = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: str(tmp_path)})
    stranger = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: "another"})
    stack = run_stack([SERVICE])
    until(stack._state.ready)
    assert orphan.wait(5) == -signal.SIGTERM
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_runs_hand_back_their_jobs_before_their_worker_stops(tmp_path):
    worker = Child(WORKER, os.environ, tmp_path)
    worker.start()
    worker.await_ready()
    worker.stop()
    assert worker.log.read_text().splitlines() == ["running", "handed back", "worker stops"]


def test_what_does_not_listen_is_killed_with_its_children(tmp_path):
    code = """
    import signal, subprocess, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(subprocess.Popen(['sleep', '600']).pid, 'deaf', flush=True)
    while True: time.sleep(1)
    """
    deaf = Child(Component("deaf", python(code), says="deaf", stop_seconds=0.3), os.environ, tmp_path)
    deaf.start()
    deaf.await_ready()
    grandchild = psutil.Process(int(deaf.log.read_text().split()[0]))
    deaf.stop()
    assert not deaf.is_running()
    assert not processes.alive(grandchild)


def test_an_interrupt_that_is_ignored_where_we_started_reaches_the_children(tmp_path):
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asked = Child(Component("asked", python(code)), os.environ, tmp_path)
        asked.start()
        asked.await_ready()
    finally:
        signal.signal(signal.SIGINT, before)
    assert asked.log.read_text() == "True\n"


def test_a_component_that_ends_while_starting_is_one_plain_line(tmp_path):
    words = "import sys; sys.exit('noise\\nouthaul: the queue database cannot be reached')"
    step = Child(Component("schema", python(words)), os.environ, tmp_path)
    step.start()
    with pytest.raises(Unavailable, match=r"^the queue database cannot be reached$"):
        step.await_ready()
    service = Child(Component("server", python("pass"), says="never"), os.environ, tmp_path)
    service.start()
    with pytest.raises(Unavailable, match=r"^server ended while starting; see .*server\.log$"):
        service.await_ready()


@pytest.mark.parametrize("setting", ["OUTHAUL_PREFECT_PORT", "OUTHAUL_API_PORT"])
def test_a_port_in_use_names_the_setting_and_nothing_stays(tmp_path, setting):
    handlers = [signal.getsignal(name) for name in supervisor.STOP_SIGNALS]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = (port, free_port()) if setting == "OUTHAUL_PREFECT_PORT" else (free_port(), port)
        with pytest.raises(Unavailable, match=f"port {port} is in use by another program: set {setting}"):
            Stack(tmp_path, os.environ, ports[0], api_port=ports[1], **OUTSIDE).up(nothing)
    assert [signal.getsignal(name) for name in supervisor.STOP_SIGNALS] == handlers
    assert not State(tmp_path).ready()


def test_only_one_is_the_supervisor(tmp_path):
    first, second = State(tmp_path), State(tmp_path)
    assert first.take()
    assert not second.take()
    first.write([Standing("x", "running", os.getpid(), "")], ready=True)
    assert second.ready()
    first.release()
    assert not second.ready()
    assert second.take()
    second.release()


def test_a_record_whose_process_id_belongs_to_a_stranger_is_no_supervisor(tmp_path):
    state = State(tmp_path)
    state.write([], ready=True)
    record = tmp_path / "stack.json"
    created = psutil.Process().create_time()
    record.write_text(record.read_text().replace(str(created), str(created - 100)))
    assert state.supervisor() is None
    record.write_text("half a rec")
    assert state.supervisor() is None


def test_a_folder_that_cannot_be_written_is_one_plain_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="cannot be written: set OUTHAUL_HOME"):
        Stack(tmp_path / "file" / "below", os.environ, **OUTSIDE).up(nothing)
