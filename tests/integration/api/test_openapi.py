"""The OpenAPI document is the truth: whatever is sent, no server error and no answer that it does not name."""

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import httpx
import psycopg

EXAMPLES = 25


def test_whatever_is_sent_gets_an_answer_that_is_documented(client, url, done, source_url, tmp_path):
    with psycopg.connect(source_url) as connection:
        connection.execute(files("outhaul.demo").joinpath("schema.sql").read_text())
    done()
    key = client().headers["Authorization"]
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "run", f"{url}/openapi.json",
        "--header", f"Authorization: {key}", "--checks", "all", "--exclude-checks", "positive_data_acceptance",
        "--max-examples", str(EXAMPLES), "--seed", "1", "--workers", "2", "--no-color",
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr


def test_the_document_is_complete(url):
    document = httpx.get(f"{url}/openapi.json").json()
    schemas = document["components"]["schemas"]
    assert "HTTPValidationError" not in schemas
    for name in {part.split('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]}:
        assert name in schemas
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), (method, path)
            if path.startswith("/v1"):
                assert {"401", "403"} <= operation["responses"].keys(), (method, path)
                assert operation["security"], (method, path)
