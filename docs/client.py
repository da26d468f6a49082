"""Export a dataset over HTTP: ask, wait for the webhook, download every file, check every file.

    OUTHAUL_URL=http://127.0.0.1:8000 OUTHAUL_KEY=outhaul_... python docs/client.py flights folder

It needs httpx and nothing else; the signature is checked with the standard library. The webhook is received on
loopback, so Outhaul must run on the same machine with OUTHAUL_WEBHOOK_ALLOW=127.0.0.1/32. Exit status: 0 when all files
are there and right, else 1.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import json
import os
import sys
import time
from base64 import b64decode, b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any
from uuid import uuid4

import httpx

PATIENCE_S = 600
CLOCKS_DIFFER_S = 300
ENDS = ["export.completed", "export.dead", "export.cancelled"]


def verify(secret: str, headers: Any, body: bytes) -> None:
    """Check a webhook as Standard Webhooks 1.0 has it. Raises ValueError for one that Outhaul did not just sign."""
    if abs(time.time() - int(headers["webhook-timestamp"])) > CLOCKS_DIFFER_S:
        raise ValueError("the webhook is too old, or a clock is wrong")
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = b64decode(secret.removeprefix("whsec_"))
    wanted = "v1," + b64encode(hmac.digest(key, signed, "sha256")).decode()
    # There are two signatures while a secret is being replaced.
    if not any(hmac.compare_digest(wanted, given) for given in headers["webhook-signature"].split()):
        raise ValueError("the webhook is not signed with our secret")


class Receiver(HTTPServer):
    """Takes webhooks on a free port of loopback; ``told`` holds those with a good signature."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.secret = ""
        self.told: SimpleQueue[dict[str, Any]] = SimpleQueue()
        Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    """Answers 204 to what is good, at once: Outhaul waits 15 seconds and then tries again."""

    server: Receiver

    def do_POST(self) -> None:
        """One webhook."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            verify(self.server.secret, self.headers, body)
        except (KeyError, TypeError, ValueError):
            self.send_error(401)
            return
        self.send_response(204)
        self.end_headers()
        self.server.told.put(json.loads(body))

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def export(api: httpx.Client, dataset: str, folder: Path) -> bool:
    """Carry out one export; returns whether all is right. Raises httpx.HTTPError."""
    receiver = Receiver()
    hook = post(api, "/v1/webhooks", url=f"http://127.0.0.1:{receiver.server_port}/outhaul", events=ENDS)
    receiver.secret = hook["secret"]
    try:
        job = post(api, "/v1/exports", {"Idempotency-Key": str(uuid4())}, dataset=dataset, format="csv")
        print(f"export {job['id']} is {job['status']}")
        told = wait(receiver, job["id"])
        print(f"the webhook says {told['type']}")
        if told["type"] != "export.completed":
            print(told["data"].get("message", ""))
            return False
        # The webhook lists the first hundred files with their links, too; the API lists all.
        files = api.get(f"/v1/exports/{job['id']}/files").raise_for_status().json()["files"]
        found = [download(file, folder / f"{dataset}-{file['part']:05}.csv") for file in files]
        return all(found) and sum(file["rows"] for file in files) == told["data"]["rows"]
    finally:
        api.delete(f"/v1/webhooks/{hook['id']}")


def post(api: httpx.Client, path: str, headers: dict[str, str] | None = None, **body: Any) -> Any:
    """Post JSON and return the answer; an error is said in Outhaul's own words. Raises httpx.HTTPError."""
    answer = api.post(path, headers=headers, json=body)
    if answer.is_error:
        print(f"{answer.status_code}: {answer.json()['detail']}")
    return answer.raise_for_status().json()


def wait(receiver: Receiver, job_id: str) -> dict[str, Any]:
    """The webhook about the job. Raises TimeoutError."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            told = receiver.told.get(timeout=max(0.0, end - time.monotonic()))
        except Empty:
            raise TimeoutError("no webhook came") from None
        if told["data"].get("id") == job_id:
            return told


def download(file: dict[str, Any], path: Path) -> bool:
    """Stream one file to disk; whether its bytes and rows are those that Outhaul has counted."""
    digest = hashlib.sha256()
    # The link needs no key, and leads to the object store where there is one: it gets no header of ours.
    with httpx.stream("GET", file["url"], follow_redirects=True) as answer, path.open("wb") as out:
        answer.raise_for_status()
        for piece in answer.iter_raw():
            digest.update(piece)
            out.write(piece)
    with path.open(newline="") as text:
        rows = sum(1 for _ in csv.reader(text)) - 1
    right = (digest.hexdigest(), rows) == (file["sha256"], file["rows"])
    print(f"{path}: {rows} rows, SHA-256 {digest.hexdigest()}, {'right' if right else 'WRONG'}")
    return right


def main() -> int:
    """Run the command line."""
    dataset, folder = sys.argv[1:]
    key = {"Authorization": f"Bearer {os.environ['OUTHAUL_KEY']}"}
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        with httpx.Client(base_url=os.environ["OUTHAUL_URL"], headers=key, timeout=30) as api:
            return 0 if export(api, dataset, Path(folder)) else 1
    except (httpx.HTTPError, TimeoutError) as error:
        print(f"failed: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
