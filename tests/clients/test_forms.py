"""Uploads by forms: the fields that botocore signs, sent by requests and by curl's reading of multipart/form-data."""

import hashlib
import os
import subprocess
import urllib.parse

import pytest
import requests
from botocore.config import Config

TAGGING = "<Tagging><TagSet><Tag><Key>a</Key><Value>b c</Value></Tag></TagSet></Tagging>"


@pytest.fixture(params=["v4", "v2"])
def presigner(request, server):
    """Clients that sign forms by either version."""
    version = {"v4": "s3v4", "v2": "s3"}[request.param]
    return server.client(config=Config(signature_version=version))


def send(post, file, fields={}, **more):
    """Sends the form; fields precede the file."""
    fields = {**post["fields"], **fields}
    return requests.post(post["url"], data=fields, files={"file": file}, allow_redirects=False, timeout=60, **more)


def code(answer):
    return answer.status_code, answer.text.partition("<Code>")[2].partition("</Code>")[0]


def test_a_form_of_botocore_uploads_a_file(presigner, s3, bucket):
    post = presigner.generate_presigned_post(bucket, "dir/${filename}")
    answer = send(post, ("naïve photo.txt", b"content"))
    assert (answer.status_code, answer.text) == (204, "")
    key = "dir/naïve photo.txt"
    assert answer.headers["ETag"] == f'"{hashlib.md5(b"content").hexdigest()}"'
    assert answer.headers["Location"] == f"{post['url']}/{urllib.parse.quote(key, safe='')}"
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"content"


def test_fields_are_properties_of_the_object(presigner, s3, bucket):
    fields = {
        "acl": "private",
        "Content-Type": "text/plain",
        "Cache-Control": "no-store",
        "tagging": TAGGING,
        "x-amz-meta-mood": "good day",
        "success_action_status": "201",
    }
    conditions = [{name: value} for name, value in fields.items()] + [["content-length-range", 1, 10]]
    post = presigner.generate_presigned_post(bucket, "k", Fields=dict(fields), Conditions=conditions)
    answer = send(post, ("f", b"0123456789"))
    assert (answer.status_code, "<Key>k</Key>" in answer.text) == (201, True)
    head = s3.head_object(Bucket=bucket, Key="k")
    stored = head["ContentType"], head["CacheControl"], head["Metadata"]
    assert stored == ("text/plain", "no-store", {"mood": "good day"})
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "a", "Value": "b c"}]
    assert code(send(post, ("f", b"0123456789a"))) == (400, "EntityTooLarge")
    assert code(send(post, ("f", b""))) == (400, "EntityTooSmall")
    assert code(send(post, ("f", b"x"), {"acl": "public-read"})) == (403, "AccessDenied")
    assert code(send(post, ("f", b"x"), {"x-amz-meta-more": "1"})) == (403, "AccessDenied")
    assert code(send(post, ("f", b"x"), {"policy": post["fields"]["policy"][:-4]})) == (403, "SignatureDoesNotMatch")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"0123456789"


def test_a_form_leads_to_the_next_page(presigner, bucket):
    fields = {"success_action_redirect": "https://example.com/done?a=b"}
    conditions = [["starts-with", "$success_action_redirect", "https://example.com/"]]
    post = presigner.generate_presigned_post(bucket, "a/b", Fields=fields, Conditions=conditions)
    answer = send(post, ("f", b"x"))
    assert answer.status_code == 303
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(answer.headers["Location"]).query))
    etag = f'"{hashlib.md5(b"x").hexdigest()}"'
    assert asked == {"a": "b", "bucket": bucket, "key": "a/b", "etag": etag}


def test_a_large_file_streams_through_a_form(presigner, s3, bucket, tmp_path):
    path = tmp_path / "large"
    digest = hashlib.md5()
    with open(path, "wb") as file:
        for _ in range(40):
            block = os.urandom(1 << 20)
            digest.update(block)
            file.write(block)
    post = presigner.generate_presigned_post(bucket, "large")
    fields = [argument for item in post["fields"].items() for argument in ("-F", "=".join(item))]
    for more in [[], ["-H", "Transfer-Encoding: chunked"], ["-H", "Expect: 100-continue"]]:
        command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *more, *fields, "-F", f"file=@{path}"]
        answer = subprocess.run([*command, post["url"]], capture_output=True, text=True, timeout=120, check=True)
        assert answer.stdout == "204", more
        assert s3.head_object(Bucket=bucket, Key="large")["ETag"] == f'"{digest.hexdigest()}"'
        s3.delete_object(Bucket=bucket, Key="large")


def test_an_expired_form_and_one_of_nobody_are_refused(presigner, server, bucket):
    post = presigner.generate_presigned_post(bucket, "k", ExpiresIn=-1)
    answer = send(post, ("f", b"x"))
    assert (code(answer), "Policy expired" in answer.text) == ((403, "AccessDenied"), True)
    nobody = server.client(access_key="nobody").generate_presigned_post(bucket, "k")
    assert code(send(nobody, ("f", b"x"))) == (403, "InvalidAccessKeyId")
    unsigned = {"url": post["url"], "fields": {"key": "k"}}
    assert code(send(unsigned, ("f", b"x"))) == (403, "AccessDenied")


def test_forms_of_version_2_are_switched_off_with_its_urls(own_server):
    server = own_server("--sigv2-presigned", "false").start()
    server.client().create_bucket(Bucket="switched")
    post = server.client(config=Config(signature_version="s3")).generate_presigned_post("switched", "k")
    assert code(send(post, ("f", b"x"))) == (400, "InvalidRequest")
    post = server.client().generate_presigned_post("switched", "k")
    assert send(post, ("f", b"x")).status_code == 204
