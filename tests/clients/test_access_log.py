"""The access log as an operator reads and rotates it, and what no log may hold."""

import json
import re
import signal
import time
import urllib.request

from botocore.config import Config
from siltstone import ACCESS_KEY, SECRET_KEY


def entries(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def wait_until(holds):
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about")


def signatures_of(s3):
    """Every signature that the client sends in a header from here on."""
    found = []

    def note(request, **_):
        value = request.headers.get("Authorization", b"")
        text = value.decode() if isinstance(value, bytes) else value
        found.extend(re.findall(r"Signature=(\w+)", text))

    s3.meta.events.register("before-send.s3", note)
    return found


def test_each_request_has_its_line_and_none_a_secret(own_server, tmp_path):
    path = tmp_path / "access.log"
    server = own_server("--access-log", str(path), "--log-level", "trace").start()
    s3 = server.client(Config(signature_version="s3v4"))
    secrets = signatures_of(s3)
    s3.create_bucket(Bucket="logged")
    s3.put_object(Bucket="logged", Key="a key", Body=b"hello")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "logged", "Key": "a key", "VersionId": "null"})
    secrets += re.findall(r"Signature=(\w+)", url)
    assert urllib.request.urlopen(url).read() == b"hello"
    try:
        s3.get_object(Bucket="logged", Key="absent")
    except s3.exceptions.NoSuchKey as error:
        request_id = error.response["ResponseMetadata"]["RequestId"]
    server.stop()

    lines = entries(path)
    assert [line["operation"] for line in lines] == ["CreateBucket", "PutObject", "GetObject", "GetObject"]
    assert [line["status"] for line in lines] == [200, 200, 200, 404]
    put, got, absent = lines[1:]
    assert (put["received"], got["sent"], put["user"]) == (5, 5, "admin")
    assert "versionId=null" in got["query"] and "X-Amz-Signature=-" in got["query"]
    assert (absent["error"], absent["id"]) == ("NoSuchKey", request_id)
    assert put["agent"].startswith("Boto3/") and put["peer"].startswith("127.0.0.1:")

    assert len(secrets) >= 4
    said = path.read_text() + server.log.read_text()
    for secret in [*secrets, SECRET_KEY, f"{ACCESS_KEY}/", f"{ACCESS_KEY}%2F"]:
        assert secret not in said, f"{secret} is in a log"


def test_a_log_that_was_renamed_is_left_alone_after_sighup(own_server, tmp_path):
    path, old = tmp_path / "access.log", tmp_path / "access.log.1"
    server = own_server("--access-log", str(path), "--access-log-format", "common").start()
    urllib.request.urlopen(f"{server.url}/-/metrics?before").read()
    path.rename(old)
    server.process.send_signal(signal.SIGHUP)
    wait_until(path.exists)
    wait_until(lambda: "reopened the access log" in server.log.read_text())
    urllib.request.urlopen(f"{server.url}/-/metrics?after").read()
    server.stop()
    for file, query in [(old, "before"), (path, "after")]:
        pattern = rf'127\.0\.0\.1 - - \[\d\d/\w{{3}}/\d{{4}}:\d\d:\d\d:\d\d \+0000\] "GET /-/metrics\?{query} HTTP/1\.1" 200 \d+\n'
        assert re.fullmatch(pattern, file.read_text()), file.read_text()
