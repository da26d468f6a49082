"""Two independent S3 servers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

USER, PASSWORD, REGION, BUCKET = "outhaul", "outhaul-secret", "us-east-1", "exports"


@dataclass(frozen=True)
class S3Server:
    """A running server with an empty bucket."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": USER,
            "AWS_SECRET_ACCESS_KEY": PASSWORD,
            "AWS_DEFAULT_REGION": REGION,
        }

    def client(self, *, port: int | None = None, password: str = PASSWORD, user: str = USER, tries: int = 2):
        """A client of this server, or of a proxy in front of it; few tries, so that faults show soon."""
        import boto3
        from botocore.config import Config

        from outhaul.store.s3 import s3_config

        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port or self.port}",
            aws_access_key_id=user,
            aws_secret_access_key=password,
            region_name=REGION,
            config=s3_config().merge(Config(retries={"mode": "standard", "total_max_attempts": tries})),
        )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _running(command: list[str], port: int, health: str, folder: Path, **environment: str) -> Iterator[S3Server]:
    log = folder / "server.log"
    # setpriv ends the server with this process, should that be killed and never come to the end of the fixture.
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *command],
            cwd=folder,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
        )
    try:
        server = S3Server(port)
        _wait_until(server.url + health, process, log)
        server.client().create_bucket(Bucket=BUCKET)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until(url: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{process.args[0]} did not start:\n{log.read_text()}")
            time.sleep(0.1)


@pytest.fixture(scope="session")
def moto(tmp_path_factory) -> Iterator[S3Server]:
    """A moto server, which knows conditional requests and enforces part sizes."""
    folder, port = tmp_path_factory.mktemp("moto"), free_port()
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    yield from _running(command, port, "/moto-api/", folder, MOTO_PORT=str(port))


@pytest.fixture(scope="session")
def juicefs(tmp_path_factory) -> Iterator[S3Server]:
    """A JuiceFS gateway, which checks signatures but ignores conditions, and drops content types."""
    folder, port = tmp_path_factory.mktemp("juicefs"), free_port()
    program, meta = str(Path(sys.executable).with_name("juicefs")), f"sqlite3://{folder}/meta.db"
    data = ["--storage", "file", "--bucket", f"{folder}/data/", "--trash-days", "0"]
    made = subprocess.run(
        [program, "format", "--no-agent", *data, meta, "outhaul"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    command = [program, "gateway", "--no-agent", "--no-usage-report", "--no-banner", "--multi-buckets", "--object-meta"]
    command += ["--log", f"{folder}/gateway.log", "--cache-dir", f"{folder}/cache", "--metrics", "127.0.0.1:0"]
    command += [meta, f"127.0.0.1:{port}"]
    yield from _running(command, port, "/minio/health/live", folder, MINIO_ROOT_USER=USER, MINIO_ROOT_PASSWORD=PASSWORD)
