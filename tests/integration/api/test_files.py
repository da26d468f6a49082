"""Files over HTTP: stable links, parts of a file, names, ends."""

import hashlib
from base64 import b64decode
from datetime import timedelta

import httpx
import pytest
from s3_server import BUCKET

CONTENT = b"".join(b"%d,%d\n" % (n, n * n) for n in range(5000))


def link_of(client, job):
    (file,) = client.get(f"/v1/exports/{job.id}/files").json()["files"]
    return file


def test_a_link_needs_no_key_and_streams_with_ranges(client, done):
    job = done(content=CONTENT)
    file = link_of(client(), job)
    whole = httpx.get(file["url"].replace("http://127.0.0.1:8000", str(client().base_url).rstrip("/")))
    assert whole.content == CONTENT
    assert file["sha256"] == hashlib.sha256(whole.content).hexdigest()
    assert b64decode(whole.headers["Repr-Digest"].removeprefix("sha-256=:").rstrip(":")).hex() == file["sha256"]
    assert whole.headers["Content-Disposition"].startswith('attachment; filename="flights-00000.csv"')
    assert whole.headers["X-Content-Type-Options"] == "nosniff"
    address = str(whole.url)
    part = httpx.get(address, headers={"Range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, CONTENT[100:200])
    assert httpx.get(address, headers={"Range": "bytes=-10"}).content == CONTENT[-10:]
    assert httpx.get(address, headers={"Range": f"bytes={len(CONTENT)}-"}).status_code == 416
    assert httpx.get(address, headers={"Range": "bytes=9-1"}).status_code < 500
    assert httpx.head(address).status_code in {200, 405}


def test_a_key_does_as_well_and_another_tenants_does_not(client, done):
    job = done(content=b"x\n")
    path = f"/v1/exports/{job.id}/files/0"
    assert client().get(path).content == b"x\n"
    assert client(None).get(path).content == b"x\n"
    assert client("DL").get(path).status_code == 404
    assert client().get(f"/v1/exports/{job.id}/files/1").status_code == 404
    assert client().get(f"/v1/exports/{job.id}/files/-1").status_code == 422


@pytest.mark.parametrize("token", ["", "1", "99999999999.0", "x.y", "9" * 40 + ".z", "٣.a", "%00", "1767225600.é"])
def test_a_link_that_is_not_ours_opens_nothing(client, done, url, token):
    job = done()
    answer = httpx.get(f"{url}/v1/exports/{job.id}/files/0", params={"token": token})
    assert (answer.status_code, answer.json()["detail"]) == (404, "this link is not valid")


def test_a_links_signature_is_for_one_file_and_one_end(client, done, url, oh):
    job, other = done(), done("DL")
    token = httpx.URL(oh.links.of_file(job, 0)).params["token"]
    end, _, signature = token.partition(".")
    for path, changed in (
        (f"{job.id}/files/1", token),
        (f"{other.id}/files/0", token),
        (f"{job.id}/files/0", f"{int(end) + 1}.{signature}"),
        (f"{job.id}/files/0", f"{end}.{signature[:-1]}"),
    ):
        assert httpx.get(f"{url}/v1/exports/{path}", params={"token": changed}).status_code == 404
    assert httpx.get(f"{url}/v1/exports/{job.id}/files/0", params={"token": token}).status_code == 200


def test_case_44_a_link_past_its_end_and_a_file_that_is_gone_say_so_plainly(client, done, url, oh):
    job = done()
    link = oh.links.of_file(job, 0).replace(oh.api_url, url)
    with oh.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE export_jobs SET finished_at = now() - interval '7 days 1 s'")
    late = oh.links.of_file(oh.exports.job(str(job.id)), 0).replace(oh.api_url, url)
    answer = httpx.get(late)
    assert (answer.status_code, answer.json()["code"]) == (410, "gone")
    assert "ask for a new one with GET /v1/exports/ID/files" in answer.json()["detail"]
    oh.files.delete(f"UA/{job.id}/1-1/flights-00000.csv")
    for answer in (httpx.get(link), client().get(f"/v1/exports/{job.id}/files/0")):
        assert (answer.status_code, answer.json()["code"]) == (410, "gone")
        assert "has been deleted" in answer.json()["detail"]
    with oh.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE export_files SET deleted_at = now()")
    assert client().get(f"/v1/exports/{job.id}/files/0").status_code == 410
    assert link_of(client(), job)["deleted_at"] is not None


def test_an_export_that_has_not_ended_has_no_files(client):
    ua = client()
    job_id = ua.post("/v1/exports", json={"dataset": "flights"}).json()["id"]
    answer = ua.get(f"/v1/exports/{job_id}/files")
    assert (answer.status_code, answer.json()["code"]) == (409, "refused")
    assert ua.get(f"/v1/exports/{job_id}/files/0").status_code == 409


def test_case_43_a_name_that_needs_care_reaches_the_browser_whole(client, done):
    name = 'a b+c%20d&é=#?"q".csv'
    job = done(name=name, content=b"1\n")
    answer = client().get(f"/v1/exports/{job.id}/files/0")
    assert answer.content == b"1\n"
    header = answer.headers["Content-Disposition"]
    assert header == (
        "attachment; filename=\"a b+c_20d&e=#?_q_.csv\"; filename*=UTF-8''a%20b+c%2520d&%C3%A9%3D#%3F%22q%22.csv"
    )


@pytest.fixture
def on_s3(moto, oh):
    """The same Outhaul with its files in a bucket."""
    from outhaul.store.s3 import S3Store

    client = moto.client()
    oh.__dict__["files"] = S3Store(client, BUCKET, "api")
    return client


def test_cases_43_and_44_a_bucket_hands_the_file_out_by_a_link_signed_now(client, done, on_s3):
    name = "a b+c%20d&é=#?.csv"
    job = done(name=name, content=CONTENT)
    answer = client().get(f"/v1/exports/{job.id}/files/0")
    assert answer.status_code == 302
    signed = answer.headers["Location"]
    assert "/a%20b%2Bc%2520d%26%C3%A9%3D%23%3F.csv?" in signed
    assert httpx.URL(signed).params["X-Amz-Expires"] == "900"
    got = httpx.get(signed)
    assert got.content == CONTENT
    assert "filename*=UTF-8''" in got.headers["Content-Disposition"]
    again = httpx.get(str(answer.url), follow_redirects=True, headers=client().headers)
    assert again.content == CONTENT
    on_s3.delete_object(Bucket=BUCKET, Key=f"api/UA/{job.id}/1-1/{name}")
    assert client().get(f"/v1/exports/{job.id}/files/0").status_code == 410


def test_links_live_as_long_as_the_setting_says(done, oh):
    job = done()
    assert oh.links.end(job) == job.finished_at + timedelta(days=7)
    assert oh.links.of_file(job, 0) == oh.links.of_file(oh.exports.job(str(job.id)), 0), "a retry sends the same bytes"
