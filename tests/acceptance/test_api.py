"""The HTTP API as a customer's back end uses it: the examples of docs/api.md, e-mail, and a receiver that is down."""

import csv
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import psycopg
import pytest
from conftest import until
from mailbox_server import Mailbox, mail_server
from receivers import receiver
from standardwebhooks import Webhook

DOCS = Path(__file__).parents[2] / "docs"
UNITED = 58_665
REFUSED = "nobody@lab.test"


@pytest.fixture(scope="module")
def box():
    return Mailbox(refusals={REFUSED: "550 no such user"})


@pytest.fixture(scope="module")
def stack_env(box):
    with mail_server(box) as mail:
        yield {"OUTHAUL_WEBHOOK_ALLOW": "127.0.0.1/32", "OUTHAUL_MAIL_URL": f"smtp://{mail.host}:{mail.port}"}


@pytest.fixture(scope="module")
def api(stack):
    key = stack.run("keys", "add", "test", "--tenant", "UA").stdout.strip()
    with httpx.Client(base_url=stack.api_url, headers={"Authorization": f"Bearer {key}"}) as client:
        yield client


def deliveries(api, job_id):
    """The export's notices, once each was tried."""

    def tried():
        found = api.get(f"/v1/exports/{job_id}/deliveries").json()
        return found if found and all(one["tries"] for one in found) else None

    return until(tried)


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


def test_a_recipient_that_the_mail_server_refuses_stops_no_other(api, box):
    body = {"dataset": "weather", "query": {"limit": 5}, "recipients": f"{REFUSED}, data@lab.test"}
    job_id = api.post("/v1/exports", json=body).raise_for_status().json()["id"]
    told = {one["recipient"]: one for one in deliveries(api, job_id)}
    assert {name: one["status"] for name, one in told.items()} == {REFUSED: "dead", "data@lab.test": "delivered"}
    assert told[REFUSED]["tries"][0]["answer"] == 550
    (message,) = [message for message in box.messages if message["To"] == "data@lab.test"]
    text = message.get_body(("plain",)).get_content()
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
        until(lambda: up.seen)
        got = up.seen[0]
    document = Webhook(hook["secret"]).verify(got.body, got.headers)
    assert (document["type"], document["data"]["id"]) == ("export.completed", job_id)
    until(lambda: deliveries(api, job_id)[0]["status"] == "delivered")
    api.delete(f"/v1/webhooks/{hook['id']}")
