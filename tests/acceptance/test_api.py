"""The HTTP API as a customer's back end uses it: the examples of docs/api.md, e-mail, and a receiver that is down."""

import csv
import os
import re
import socket
import subprocess
import sys
import time
from email import message_from_bytes, policy
from pathlib import Path

import httpx
import psycopg
import pytest
from aiosmtpd.controller import Controller
from receivers import receiver
from standardwebhooks import Webhook

DOCS = Path(__file__).parents[2] / "docs"
UNITED = 58_665
REFUSED = "nobody@lab.test"
PATIENCE_S = 120


class Mailbox:
    """Takes mail for all but one."""

    def __init__(self):
        self.got = {}

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802
        if address == REFUSED:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        for address in envelope.rcpt_tos:
            self.got[address] = message_from_bytes(envelope.content, policy=policy.default)
        return "250 OK"


@pytest.fixture(scope="module")
def mailbox():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    controller = Controller(Mailbox(), hostname="127.0.0.1", port=port)
    controller.start()
    yield controller
    controller.stop()


@pytest.fixture(scope="module")
def stack_env(mailbox):
    return {"OUTHAUL_WEBHOOK_ALLOW": "127.0.0.1/32", "OUTHAUL_MAIL_URL": f"smtp://127.0.0.1:{mailbox.port}"}


@pytest.fixture(scope="module")
def api(stack):
    key = stack.run("keys", "add", "test", "--tenant", "UA").stdout.strip()
    with httpx.Client(base_url=stack.api_url, headers={"Authorization": f"Bearer {key}"}) as client:
        yield client


def until(ask, what):
    """Ask until there is an answer."""
    end = time.monotonic() + PATIENCE_S
    while not (answer := ask()):
        assert time.monotonic() < end, what
        time.sleep(0.2)
    return answer


def deliveries(api, job_id):
    """The export's notices, once each was tried."""

    def tried():
        found = api.get(f"/v1/exports/{job_id}/deliveries").json()
        return found if found and all(one["tries"] for one in found) else None

    return until(tried, "no notice was tried")


def test_the_examples_of_the_manual_run_and_the_file_equals_the_table(stack, tmp_path):
    page = (DOCS / "api.md").read_text()
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    assert "python docs/client.py flights exported" in script
    (tmp_path / "docs").symlink_to(DOCS)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with receiver() as hook:
        script = script.replace("http://127.0.0.1:8000", stack.api_url)
        script = script.replace("https://hooks.example.com/outhaul", hook.url)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=stack._environment({"PATH": path}),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the webhook says export.completed" in done.stdout
    assert f"exported/flights-00000.csv: {UNITED} rows" in done.stdout
    assert "exported/weather-0.csv: OK" in done.stdout
    with (tmp_path / "delayed.csv").open() as file:
        assert len(list(csv.reader(file))) == 1001
    with psycopg.connect(stack.url.replace("/outhaul?", "/demo?")) as connection:
        connection.execute("SET timezone = 'UTC'")
        statement = "COPY (SELECT * FROM flights WHERE carrier = 'UA') TO STDOUT (FORMAT csv, HEADER)"
        with connection.cursor().copy(statement) as copy:
            expected = b"".join(bytes(piece) for piece in copy).splitlines(keepends=True)
    found = (tmp_path / "exported" / "flights-00000.csv").read_bytes().splitlines(keepends=True)
    assert found[0] == expected[0]
    assert sorted(found[1:]) == sorted(expected[1:])


def test_a_recipient_that_the_mail_server_refuses_stops_no_other(api, mailbox):
    body = {"dataset": "weather", "query": {"limit": 5}, "recipients": f"{REFUSED}, data@lab.test"}
    job_id = api.post("/v1/exports", json=body).raise_for_status().json()["id"]
    told = {one["recipient"]: one for one in deliveries(api, job_id)}
    assert {name: one["status"] for name, one in told.items()} == {REFUSED: "dead", "data@lab.test": "delivered"}
    assert told[REFUSED]["tries"][0]["answer"] == 550
    (text,) = (
        part.get_content()
        for part in mailbox.handler.got["data@lab.test"].walk()
        if part.get_content_type() == "text/plain"
    )
    link = re.search(r"http://\S+", text)[0]
    assert len(httpx.get(link).raise_for_status().text.splitlines()) == 6, "needs no key"


def test_a_receiver_that_is_down_gets_its_webhook_later(api, stack):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        port = nobody.getsockname()[1]
        hook = api.post("/v1/webhooks", json={"url": f"http://127.0.0.1:{port}/hook"}).raise_for_status().json()
        job_id = api.post("/v1/exports", json={"dataset": "weather", "query": {"limit": 5}}).json()["id"]
        (told,) = deliveries(api, job_id)
    assert (told["status"], told["tries"][0]["note"]) == ("pending", "the receiver refuses connections")
    assert api.get(f"/v1/exports/{job_id}").json()["status"] == "completed"
    with receiver(port=port) as up:
        deployment = stack.prefect("deployments/name/deliver/deliver")["id"]
        stack.prefect(
            f"deployments/{deployment}/create_flow_run", name="at once"
        )  # it may be early; one comes each minute
        until(lambda: up.seen, "no webhook came")
        got = up.seen[0]
    document = Webhook(hook["secret"]).verify(got.body, got.headers)
    assert (document["type"], document["data"]["id"]) == ("export.completed", job_id)
    assert until(lambda: deliveries(api, job_id)[0]["status"] == "delivered", "it is not in the log")
    api.delete(f"/v1/webhooks/{hook['id']}")
