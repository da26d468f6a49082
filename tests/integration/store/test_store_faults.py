"""Servers that fail, connections that break and disks that fill: whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from fault_proxy import LOST, RESET, FaultProxy

from outhaul.domain.retry import Verdict, classify
from outhaul.errors import StoreError
from outhaul.store.s3 import S3Store

MIB = 1 << 20
NEVER_MIND = timedelta(hours=-1)
SMALL, LARGE = 1000, 20 * MIB
SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["put", "multipart"])


def put(store, key: str, data: bytes) -> None:
    upload = store.open_upload(key, "text/csv")
    upload.write(data)
    upload.complete()


def sends(request) -> bool:
    return request.method == "PUT" and request.length > 0


def once(fault, when):
    """A fault that strikes the first request that fits."""
    struck = []

    def strike(request):
        if struck or not when(request):
            return None
        struck.append(request)
        return fault

    strike.struck = struck
    return strike


@SIZES
@pytest.mark.parametrize("fault", [500, 503, RESET, LOST])
def test_a_passing_fault_while_sending_is_retried(spoiled, proxy, size, fault):
    data = os.urandom(size)
    proxy.fault = once(fault, sends)
    put(spoiled, "f", data)
    assert proxy.fault.struck
    assert b"".join(spoiled.read("f")) == data
    assert spoiled.clean_uploads("", NEVER_MIND) == 0


@pytest.mark.parametrize("fault", [500, 503, RESET, LOST])
@pytest.mark.parametrize("step", ["POST", "HEAD"])
def test_a_passing_fault_at_start_or_end_is_retried(spoiled, proxy, fault, step):
    data = os.urandom(LARGE)
    proxy.fault = once(fault, lambda request: request.method == step and not request.completes)
    put(spoiled, "f", data)
    assert proxy.fault.struck
    assert b"".join(spoiled.read("f")) == data


@pytest.mark.parametrize("fault", [500, RESET, LOST])
def test_a_passing_fault_of_the_completion_is_survived(spoiled, proxy, fault):
    # LOST is the hard one: the file is there, and the retry meets 412 or 404.
    data = os.urandom(LARGE)
    proxy.fault = once(fault, lambda request: request.completes)
    put(spoiled, "f", data)
    assert proxy.fault.struck
    assert b"".join(spoiled.read("f")) == data
    assert spoiled.clean_uploads("", NEVER_MIND) == 0


@SIZES
@pytest.mark.parametrize("fault", [500, 503, RESET])
def test_a_lasting_fault_fails_the_upload_and_leaves_nothing(spoiled, proxy, s3, size, fault):
    put(s3, "good", b"good")
    proxy.fault = lambda request: fault if sends(request) and request.part in {None, 2} else None
    with pytest.raises(StoreError, match=r"^The file store could not store '.*/f': [^/]*\.$") as caught:
        put(spoiled, "f", bytes(size))
    assert caught.value.status == (fault if isinstance(fault, int) else None)
    assert classify(caught.value) is Verdict.TRANSIENT
    assert "127.0.0.1" not in caught.value.message
    assert list(s3.list()) == ["good"]
    assert s3.clean_uploads("", NEVER_MIND) == 0


@pytest.mark.parametrize("fault", [500, RESET])
def test_a_completion_that_never_succeeds_leaves_nothing(spoiled, proxy, s3, fault):
    proxy.fault = lambda request: fault if request.completes else None
    with pytest.raises(StoreError):
        put(spoiled, "f", bytes(LARGE))
    assert list(s3.list()) == []
    assert s3.clean_uploads("", NEVER_MIND) == 0


def test_completions_whose_answers_are_all_lost_count_as_done(spoiled, proxy, s3):
    data = os.urandom(LARGE)
    proxy.fault = lambda request: LOST if request.completes else None
    put(spoiled, "f", data)
    assert b"".join(s3.read("f")) == data


@SIZES
def test_a_server_that_says_it_knows_no_conditions_is_asked_without(spoiled, proxy, size):
    proxy.fault = lambda request: 501 if request.conditional else None
    data = os.urandom(size)
    put(spoiled, "f", data)
    assert b"".join(spoiled.read("f")) == data
    assert any(request.conditional for request in proxy.seen)
    with pytest.raises(StoreError, match="exists already"):
        put(spoiled, "f", data)


@SIZES
def test_a_writer_that_wins_the_race_for_the_name_is_not_overwritten(moto, prefix, size):
    # The condition itself, which moto knows: the name is taken between the look and the publication, by a file of
    # the same size at that.
    winner = S3Store(moto.client(), "exports", prefix)
    with FaultProxy(moto.port) as proxy:
        racer = S3Store(moto.client(port=proxy.port), "exports", prefix)

        def win(request):
            if request.conditional and not winner.exists("f"):
                put(winner, "f", b"w" * size)

        proxy.fault = win
        with pytest.raises(StoreError, match="exists already") as caught:
            put(racer, "f", bytes(size))
    assert classify(caught.value) is Verdict.PERMANENT
    assert b"".join(winner.read("f")) == b"w" * size
    assert winner.clean_uploads("", NEVER_MIND) == 0


def test_case_33_a_failed_overwrite_leaves_the_old_file(spoiled, proxy, s3):
    put(s3, "f", b"old")
    proxy.fault = lambda request: RESET if request.part == 2 else None
    with pytest.raises(StoreError):
        put(spoiled, "f", bytes(LARGE))
    assert b"".join(s3.read("f")) == b"old"


def test_abort_waits_for_parts_that_could_outlive_the_upload(spoiled, proxy):
    proxy.fault = lambda request: time.sleep(0.5) if request.part else None
    upload = spoiled.open_upload("f", "x")
    upload.write(bytes(9 * MIB))
    upload.abort()
    assert [request.method for request in proxy.served] == ["POST", "PUT", "DELETE"]
    assert spoiled.clean_uploads("", NEVER_MIND) == 0


def test_abort_survives_a_dead_server(spoiled, proxy, s3):
    upload = spoiled.open_upload("f", "x")
    upload.write(bytes(9 * MIB))
    proxy.fault = lambda request: RESET if request.method == "DELETE" else None
    upload.abort()
    upload.abort()
    assert list(s3.list()) == []
    assert s3.clean_uploads("", NEVER_MIND) == 1


def test_a_broken_download_is_an_error(spoiled, proxy, s3):
    put(s3, "f", bytes(MIB))
    proxy.fault = lambda request: 500 if request.method == "GET" else None
    with pytest.raises(StoreError, match="could not read 'f'") as caught:
        list(spoiled.read("f"))
    assert caught.value.status == 500


TINY_DISK = """
import os, sys
from datetime import timedelta
from outhaul.errors import StoreError
from outhaul.store import s3_upload
from outhaul.store.files import open_store

store = open_store(sys.argv[1])
s3_upload.MEMORY_PART = 0
upload = store.open_upload("t/f.csv", "text/csv")
try:
    for _ in range(64):
        upload.write(bytes(1 << 20))
    upload.complete()
except StoreError as error:
    print(error.status, error.message)
print(list(store.list()), store.clean_uploads("", timedelta(hours=-1)), os.listdir(sys.argv[2]))
"""


def tiny_disk(url: str, folder, *before: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [*before, sys.executable, "-c", TINY_DISK, url, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="session")
def mounted(tmp_path_factory):
    """A command that runs another one with 4 MiB of disk at a folder, seen by nobody else; and that folder."""
    folder = tmp_path_factory.mktemp("tiny")
    mount = f'mount -t tmpfs -o size=4m tiny {folder} && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody mount a small disk (unshare --user --mount)")
    return command, folder


def test_case_33_a_full_disk(mounted):
    command, folder = mounted
    assert tiny_disk(f"file://{folder}", folder, *command) == [
        "507 The file store could not store 't/f.csv': its disk is full.",
        "[] 0 []",
    ]


def test_case_33_a_full_disk_for_parts_on_their_way(mounted, server, prefix):
    command, folder = mounted
    environment = {**server.environment, "TMPDIR": str(folder)}
    assert tiny_disk(f"s3://exports/{prefix}", folder, *command, **environment) == [
        f"507 The file store could not store '{prefix}/t/f.csv': no room is left for temporary files.",
        "[] 0 []",
    ]


def test_case_33_a_file_size_limit(tmp_path):
    assert tiny_disk(f"file://{tmp_path}", tmp_path, "sh", "-c", 'ulimit -f 4096 && exec "$@"', "sh") == [
        "400 The file store could not store 't/f.csv': the file is larger than a file may be there.",
        "[] 0 []",
    ]
