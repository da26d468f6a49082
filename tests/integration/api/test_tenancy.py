"""Two tenants, one API: nothing of the one exists for the other."""

import pytest

from api.app import app


def routes():
    document = app.openapi()
    return [
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if "{" in path and path.startswith("/v1")
    ]


def test_every_route_that_names_something_is_walked():
    assert len(routes()) >= 12
    assert {"/v1/exports/{job_id}", "/v1/webhooks/{webhook_id}"} <= {path for _, path in routes()}


@pytest.fixture
def theirs(client, oh, done):
    """What belongs to UA: an export with a file and a notice, and a webhook."""
    ua = client("UA")
    hook = ua.post("/v1/webhooks", json={"url": "https://127.0.0.1:1/x"}).json()["id"]
    job = done("UA")
    (delivery,) = oh.deliveries.of_job(job)
    return {"job_id": job.id, "part": 0, "webhook_id": hook, "delivery_id": delivery.id}


@pytest.mark.parametrize(("method", "path"), routes())
def test_another_tenants_ids_are_not_there(client, theirs, method, path):
    body = {"json": {}} if method in {"PATCH", "POST", "PUT"} else {}
    foreign = client("DL").request(method, path.format(**theirs), **body)
    assert (foreign.status_code, foreign.json()["code"]) == (404, "not_found"), foreign.text
    own = client("UA").request(method, path.format(**theirs), **body)
    assert own.status_code != 404, "with its own key the same request finds it"


@pytest.mark.parametrize("path", ["/v1/exports", "/v1/webhooks"])
def test_lists_hold_ones_own_only(client, theirs, path):
    other = client("DL").get(path).json()
    assert other in ([], {"exports": [], "next_cursor": None})
    assert str(theirs["job_id"]) in client("UA").get(path).text or path == "/v1/webhooks"
    assert client(None).get("/v1/webhooks").status_code == 422
