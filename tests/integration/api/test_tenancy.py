"""Two tenants, one API: nothing of the one exists for the other."""

import httpx
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


def test_case_52_a_tenant_that_was_disabled_gets_nothing_more_and_is_revived_as_a_whole(client, oh, done, url):
    job = done("UA")
    link = oh.links.of_file(job, 0).replace(oh.api_url, url)
    admitted, _ = oh.exports.request({"dataset": "flights"}, tenant="UA", requested_by="test")
    while (admitted := oh.jobs.get(admitted.id)).prefect_flow_run_id is None:
        oh.dispatcher.dispatch(actor="test")

    def claim():
        run = admitted.prefect_flow_run_id
        return oh.worker.claim(admitted.id, admitted.generation, owner="r/1", flow_run_id=run)

    oh.tenants.set("UA", export_enabled=False)
    assert httpx.get(link).status_code == 409, "rights are looked at when a link is opened"
    assert "exports are disabled for 'UA'" in client("UA").get(f"/v1/exports/{job.id}/files/0").json()["detail"]
    assert client("UA").post("/v1/exports", json={"dataset": "flights"}).status_code == 409
    assert claim() is None, "and when a worker begins"
    oh.tenants.set("UA", export_enabled=True)
    assert httpx.get(link).status_code == 200
    assert claim() is not None
