"""A page of another origin, in headless Chromium, uploads and downloads without a key of its own."""

import json
import urllib.parse

import pytest

from browser import Pages
from test_other_clients import installed


@pytest.fixture
def pages(tmp_path):
    installed("chromium")
    home = tmp_path / "browser"
    home.mkdir()
    made = Pages(home)
    yield made
    made.close()


def rules(origin, methods, **more):
    rule = {"AllowedOrigins": [origin], "AllowedMethods": methods, "AllowedHeaders": ["*"], **more}
    return {"CORSRules": [rule]}


def presigned(s3, operation, bucket, key):
    return s3.generate_presigned_url(operation, Params={"Bucket": bucket, "Key": key})


def requests_of(log):
    return [(line["method"], line["operation"], line["status"]) for line in map(json.loads, log.read_text().splitlines())]


def test_a_page_uploads_by_preflighted_put_and_reads_the_tag(own_server, pages, tmp_path):
    log = tmp_path / "access.log"
    server = own_server("--access-log", log).start()
    s3 = server.client()
    s3.create_bucket(Bucket="site")
    s3.put_bucket_cors(
        Bucket="site", CORSConfiguration=rules(pages.origin, ["GET", "PUT"], ExposeHeaders=["ETag", "Content-Range"])
    )
    work = """
        const put = await fetch(given.put, {method: "PUT", body: "from a page", headers: {"Content-Type": "text/x-page"}});
        const part = await fetch(given.get, {headers: {Range: "bytes=5-8"}});
        const absent = await fetch(given.absent);
        return {
            put: [put.status, put.headers.get("ETag")],
            part: [part.status, part.headers.get("Content-Range"), await part.text()],
            absent: [absent.status, (await absent.text()).includes("NoSuchKey")],
            hidden: part.headers.get("x-amz-request-id"),
        };"""
    urls = {
        "put": presigned(s3, "put_object", "site", "upload"),
        "get": presigned(s3, "get_object", "site", "upload"),
        "absent": presigned(s3, "get_object", "site", "absent"),
    }
    report = pages.run(work, **urls)
    stored = s3.get_object(Bucket="site", Key="upload")
    assert stored["Body"].read() == b"from a page"
    assert stored["ContentType"] == "text/x-page"
    assert report == {
        "put": [200, stored["ETag"]],
        "part": [206, "bytes 5-8/11", "a pa"],
        "absent": [404, True],
        "hidden": None,
    }
    server.stop()
    served = requests_of(log)
    assert served.index(("OPTIONS", "Preflight", 200)) < served.index(("PUT", "PutObject", 200))


def test_a_page_of_an_origin_that_is_not_allowed_reads_and_writes_nothing(own_server, pages):
    server = own_server().start()
    s3 = server.client()
    for bucket in ["other", "without"]:
        s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=bucket, Key="there", Body=b"secret")
    s3.put_bucket_cors(Bucket="other", CORSConfiguration=rules("https://app.example", ["GET", "PUT"]))
    work = """
        const outcome = (request) => request.then((response) => response.status, (error) => error.name);
        const all = {};
        for (const [name, method, url] of given.requests) {
            all[name] = await outcome(fetch(url, {method, body: method == "PUT" ? "x" : undefined}));
        }
        return all;"""
    requests = []
    for bucket in ["other", "without"]:
        requests.append((f"put to {bucket}", "PUT", presigned(s3, "put_object", bucket, "new")))
        requests.append((f"get from {bucket}", "GET", presigned(s3, "get_object", bucket, "there")))
    report = pages.run(work, requests=requests)
    assert report == {name: "TypeError" for name, _, _ in requests}
    for bucket in ["other", "without"]:
        assert [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["there"]


def test_the_origins_of_the_server_let_a_page_read_every_header(own_server, pages):
    server = own_server("--cors-allow-origin", pages.origin).start()
    s3 = server.client()
    s3.create_bucket(Bucket="plain")
    s3.put_bucket_versioning(Bucket="plain", VersioningConfiguration={"Status": "Enabled"})
    work = """
        const put = await fetch(given.put, {method: "PUT", body: "x", headers: {"x-amz-meta-colour": "red"}});
        const got = await fetch(given.get);
        return {put: headers(put), got: headers(got)};"""
    put = s3.generate_presigned_url("put_object", Params={"Bucket": "plain", "Key": "k", "Metadata": {"colour": "red"}})
    report = pages.run(work, put=put, get=presigned(s3, "get_object", "plain", "k"))
    stored = s3.head_object(Bucket="plain", Key="k")
    for seen in [report["put"], report["got"]]:
        assert seen["etag"] == stored["ETag"]
        assert seen["x-amz-version-id"] == stored["VersionId"]
        assert seen["x-amz-request-id"]
    assert report["got"]["x-amz-meta-colour"] == "red"


def form_for(s3, bucket, key, *conditions, **fields):
    named = [{name: value} for name, value in fields.items()]
    return s3.generate_presigned_post(bucket, key, Fields=dict(fields), Conditions=[*named, *conditions])


def test_a_page_uploads_by_a_form(own_server, pages):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="forms")
    landing = f"{pages.origin}/landed"
    form = form_for(s3, "forms", "in/${filename}", ["content-length-range", 1, 100], success_action_redirect=landing)
    work = """
        const form = document.body.appendChild(document.createElement("form"));
        Object.assign(form, {action: given.url, method: "post", enctype: "multipart/form-data"});
        const input = (attributes) => form.appendChild(Object.assign(document.createElement("input"), attributes));
        for (const [name, value] of Object.entries(given.fields)) input({type: "hidden", name, value});
        const chosen = new DataTransfer();
        chosen.items.add(new File(["from a form"], "notes.txt", {type: "text/plain"}));
        input({type: "file", name: "file"}).files = chosen.files;
        form.submit();"""
    landed = urllib.parse.parse_qs(pages.run(work, **form))
    stored = s3.get_object(Bucket="forms", Key="in/notes.txt")
    assert stored["Body"].read() == b"from a form"
    assert landed == {"bucket": ["forms"], "key": ["in/notes.txt"], "etag": [stored["ETag"]]}


def test_a_script_uploads_by_a_form_and_reads_the_tag(own_server, pages):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="forms")
    s3.put_bucket_cors(Bucket="forms", CORSConfiguration=rules(pages.origin, ["POST"], ExposeHeaders=["ETag"]))
    form = form_for(s3, "forms", "k", ["content-length-range", 1, 20])
    work = """
        const send = async (text) => {
            const data = new FormData();
            for (const [name, value] of Object.entries(given.fields)) data.append(name, value);
            data.append("file", new Blob([text]), "any");
            const response = await fetch(given.url, {method: "POST", body: data});
            return [response.status, response.headers.get("ETag"), await response.text()];
        };
        return {fits: await send("short"), tooLarge: await send("x".repeat(21))};"""
    report = pages.run(work, **form)
    stored = s3.get_object(Bucket="forms", Key="k")
    assert stored["Body"].read() == b"short"
    assert report["fits"] == [204, stored["ETag"], ""]
    assert report["tooLarge"][0] == 400 and "EntityTooLarge" in report["tooLarge"][2]
