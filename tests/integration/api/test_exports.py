"""Asking for exports over HTTP, and looking at them."""

import time
from uuid import uuid4

import httpx
import pytest

from outhaul.domain.job import Status


def test_a_request_is_stored_and_can_be_looked_at(client, oh):
    ua = client()
    answer = ua.post("/v1/exports", json={"dataset": "flights", "format": "parquet", "priority": "high"})
    assert answer.status_code == 202
    assert ua.get(answer.headers["Location"]).json()["id"] == answer.json()["id"]
    job = oh.exports.job(answer.json()["id"])
    assert (job.tenant, job.requested_by, job.format, job.priority) == ("UA", "key UA's", "parquet", "high")
    assert next(event.actor for event in oh.exports.events(job)) == "key UA's"


def test_it_is_admitted_without_the_asker_waiting_for_prefect(client, oh):
    oh.orchestrator.down = True
    answer = client().post("/v1/exports", json={"dataset": "flights"})
    assert answer.status_code == 202
    oh.orchestrator.down = False
    oh.dispatcher.sweep()
    assert oh.exports.job(answer.json()["id"]).status is Status.QUEUED


def test_the_same_key_and_body_make_one_export_and_another_body_is_refused(client):
    ua, body = client(), {"dataset": "flights", "query": {"columns": ["flight"], "limit": 3}}
    first = ua.post("/v1/exports", json=body, headers={"Idempotency-Key": "k1"})
    again = ua.post("/v1/exports", json=body, headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json()["id"] == again.json()["id"]
    other = ua.post("/v1/exports", json={**body, "format": "json"}, headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["code"]) == (409, "refused")
    assert "idempotency_key: 'k1' was used for job" in other.json()["detail"]
    foreign = client("DL").post("/v1/exports", json=body, headers={"Idempotency-Key": "k1"})
    assert foreign.status_code == 202, "another tenant's keys are its own"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "dataset"),
        ({"dataset": "flihgts"}, "dataset"),
        ({"dataset": "flights", "formt": "csv"}, "formt"),
        ({"dataset": "flights", "format": "xls"}, "format"),
        ({"dataset": "flights", "query": {"columns": ["nope"]}}, "columns[0]"),
        ({"dataset": "flights", "query": {"limit": -1}}, "limit"),
        ({"dataset": "flights", "query": {"limit": 2**63}}, "limit"),
        ({"dataset": "flights", "query": {"filters": {"column": "flight", "op": "~", "value": 1}}}, "filters.op"),
        ({"dataset": "flights", "query": []}, "query"),
        ({"dataset": "flights", "options": "x"}, "options"),
        ({"dataset": ["flights"]}, "dataset"),
        ({"dataset": "flights", "query": {"columns": ["a\x00b"]}}, "columns[0]"),
        ({"dataset": "flights", "recipients": "a@example.com"}, "recipients"),
        ({"dataset": "flights", "idempotency_key": "k"}, "idempotency_key"),
        ({"dataset": "flights", "priority": None}, "priority"),
    ],
)
def test_bad_input_names_the_field(client, body, field):
    answer = client().post("/v1/exports", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["code"], problem["field"]) == ("invalid_request", field)
    assert field in problem["detail"]


def test_half_a_character_is_named(client):
    answer = client().post(
        "/v1/exports",
        content=b'{"dataset": "flights", "options": {"null": "\\ud800"}}',
        headers={"Content-Type": "application/json"},
    )
    assert (answer.status_code, answer.json()["field"]) == (422, "options.null")


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "null", '{"dataset": NaN}', "[" * 100_000, '{"query":' * 20_000])
def test_what_is_no_json_object_is_refused_in_plain_words(client, text):
    answer = client().post("/v1/exports", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code in {400, 422}, answer.text
    assert answer.json()["detail"]


def test_filters_nested_without_end_are_refused(client):
    node = {"column": "flight", "op": "=", "value": 1}
    for _ in range(400):
        node = {"not": node}
    answer = client().post("/v1/exports", json={"dataset": "flights", "query": {"filters": node}})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_a_body_without_end_is_not_read(client):
    def endless():
        for _ in range(100):
            yield b"x" * 65_536

    assert client().post("/v1/exports", content=endless()).status_code == 413
    assert client().post("/v1/exports", content=b"x" * 1_100_000).status_code == 413


def test_pages_hold_each_export_once(client):
    ua = client()
    ids = [ua.post("/v1/exports", json={"dataset": "flights"}).json()["id"] for _ in range(7)]
    client("DL").post("/v1/exports", json={"dataset": "flights"})
    seen, cursor = [], None
    while True:
        page = ua.get("/v1/exports", params={"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        seen += [one["id"] for one in page["exports"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ids[::-1]
    assert len(client(None).get("/v1/exports").json()["exports"]) == 8, "an admin sees all"
    for wrong in ("x", "====", "MjAyNg=="):
        assert ua.get("/v1/exports", params={"cursor": wrong}).json()["field"] == "cursor"
    assert ua.get("/v1/exports", params={"status": "dead"}).json()["exports"] == []
    assert ua.get("/v1/exports", params={"since": "2026-01-01T00:00:00"}).json()["field"] == "since"


def test_it_says_why_an_export_waits(client, oh):
    ua = client()
    oh.pausing.pause("tenant", "UA", actor="ann", reason="being moved")
    job_id = ua.post("/v1/exports", json={"dataset": "flights"}).json()["id"]
    wait = ua.get(f"/v1/exports/{job_id}").json()["wait"]
    assert (wait["limit"], wait["reason"], wait["position"]) == ("pause", "tenant UA is paused: being moved", 1)


def test_cancel_and_retry(client):
    ua = client()
    job_id = ua.post("/v1/exports", json={"dataset": "flights"}).json()["id"]
    assert ua.post(f"/v1/exports/{job_id}/cancel").json()["status"] == "cancelled"
    refused = ua.post(f"/v1/exports/{job_id}/cancel")
    assert (refused.status_code, refused.json()["code"]) == (409, "refused")
    assert ua.post(f"/v1/exports/{job_id}/retry").json()["status"] in {"enqueued", "queued"}
    assert ua.post(f"/v1/exports/{job_id}/retry").status_code == 409
    events = [event["event"] for event in ua.get(f"/v1/exports/{job_id}/events").json()]
    assert [event for event in events if event not in {"admit", "return"}] == ["enqueue", "cancel", "requeue"]


@pytest.mark.parametrize("settings", [{"max_waiting_jobs": 3, "max_active_jobs": 1}])
def test_a_full_line_is_refused_but_a_known_key_is_not(client, oh):
    oh.pausing.pause("queue", "", actor="ann")
    ua = client()
    for n in range(3):
        assert (
            ua.post("/v1/exports", json={"dataset": "flights"}, headers={"Idempotency-Key": f"{n}"}).status_code == 202
        )
    full = ua.post("/v1/exports", json={"dataset": "flights"})
    assert (full.status_code, full.json()["code"]) == (429, "too_many")
    assert int(full.headers["Retry-After"]) > 0
    assert ua.post("/v1/exports", json={"dataset": "flights"}, headers={"Idempotency-Key": "1"}).status_code == 200
    assert client("DL").post("/v1/exports", json={"dataset": "flights"}).status_code == 202


def test_a_missing_wrong_revoked_or_ended_key_is_told_apart_from_a_weak_one(client, oh, url):
    for header in ({}, {"Authorization": "Bearer outhaul_x"}, {"Authorization": "Basic eDp5"}):
        answer = httpx.get(f"{url}/v1/exports", headers=header)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert answer.json()["code"] == "unauthorized"
    reader = client(scopes=["read"])
    assert reader.get("/v1/exports").status_code == 200
    assert reader.post("/v1/exports", json={"dataset": "flights"}).status_code == 403
    with oh.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE api_keys SET expires_at = now() - interval '1 s'")
    late = client()
    key = oh.access.all()[-1]
    oh.access.revoke(str(key.id)[:8])
    assert late.get("/v1/exports").status_code == 401


@pytest.fixture
def short_memory(monkeypatch):
    monkeypatch.setattr("api.access.KNOWN_FOR_S", 0.2)


def test_a_revoked_key_ends_also_for_a_client_that_never_stops_asking(short_memory, client, oh):
    ua = client()
    assert ua.get("/v1/exports").status_code == 200
    oh.access.revoke(str(oh.access.all()[-1].id))
    end = time.monotonic() + 10
    while ua.get("/v1/exports").status_code == 200:
        assert time.monotonic() < end, "each request made the key good for another while"


@pytest.mark.parametrize("path", ["/v1/exports/{id}", "/v1/exports/{id}/events", "/v1/exports/{id}/files"])
def test_what_is_not_there_is_404(client, path):
    answer = client().get(path.format(id=uuid4()))
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_an_admin_names_the_tenant(client):
    admin = client(None)
    assert admin.post("/v1/exports", json={"dataset": "flights"}).json()["field"] == "Outhaul-Tenant"
    made = admin.post("/v1/exports", json={"dataset": "flights"}, headers={"Outhaul-Tenant": "DL"})
    assert made.json()["tenant"] == "DL"
    assert client("DL").get(f"/v1/exports/{made.json()['id']}").status_code == 200
    assert admin.get("/v1/exports", headers={"Outhaul-Tenant": "XX"}).status_code == 404
    assert client("UA").get("/v1/exports", headers={"Outhaul-Tenant": "DL"}).status_code == 404


def test_datasets_say_which_operators_fit(client):
    flights = next(one for one in client().get("/v1/datasets").json() if one["name"] == "flights")
    delay = next(column for column in flights["columns"] if column["name"] == "dep_delay")
    assert delay["nullable"]
    assert "between" in delay["operators"]
    assert "starts_with" not in delay["operators"]


def test_health_needs_no_key(url):
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
    assert httpx.get(f"{url}/readyz").json() == {"status": "ok"}
    assert httpx.get(f"{url}/nothing").json()["code"] == "not_found"
    assert httpx.delete(f"{url}/healthz").status_code == 405
