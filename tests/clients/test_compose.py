"""Stacks written for other stores: the compose files in `compose` start with another image and nothing else changed, and the
calls of their projects work. A container is not needed: the command, the environment and the checks of each run against the
binary, with the directories and ports of this machine in the place of the container's."""

import io
import json
import os
import re
import shlex
import subprocess
import time
from pathlib import Path

import boto3
import pytest
import urllib3
import yaml
from botocore.config import Config
from botocore.exceptions import ClientError

from siltstone import BINARY, START_SECONDS_MAX, STOP_SECONDS_MAX, clean_environment, free_port

FILES = sorted((Path(__file__).parent / "compose").glob("*.yaml"))
STORES = re.compile(r"(^|/)(minio/minio|bitnami/minio|rustfs/rustfs)(:|$)")
PORT = 9000
PAGE = "https://app.example"
http = urllib3.PoolManager(retries=False)


def interpolated(text):
    """The text with `${NAME:-default}` and `${NAME}` replaced, for an empty environment. `$$` is a dollar sign, still to be read as one."""
    return re.sub(r"(\$\$)|\$\{\w+(?::-([^}]*))?\}", lambda found: found.group(1) or found.group(2) or "", text)


class Stack:
    """The store of a compose file, with what its project says of it under `x-project`."""

    def __init__(self, file, home):
        self.document = yaml.safe_load(interpolated(file.read_text()))
        [self.service] = [one for one in self.document["services"].values() if STORES.search(one["image"])]
        self.project = self.document["x-project"]
        self.home, self.port, self.console_port = home, free_port(), free_port()
        self.process = None

    def environment(self):
        given = self.service.get("environment", {})
        if isinstance(given, list):
            given = dict(pair.split("=", 1) for pair in given)
        return {name: self.on_this_machine(str(value)) for name, value in given.items()}

    def command(self):
        command = self.service.get("command", [])
        words = shlex.split(command) if isinstance(command, str) else command
        words = [self.on_this_machine(word) for word in words]
        for at, word in enumerate(words):
            if word == "--console-address":
                words[at + 1] = f"127.0.0.1:{self.console_port}"
        return words

    def on_this_machine(self, word):
        """The word with the directories and the port of the container replaced by those that stand for them here."""
        if re.fullmatch(r"/(data|export|minio_data|bitnami/minio/data)", word):
            return str(self.home / "volume")
        if word.startswith("/run/secrets/"):
            return str(self.secret(word.rsplit("/", 1)[1]))
        return re.sub(rf"^(0\.0\.0\.0)?:{PORT}$", f"127.0.0.1:{self.port}", word)

    def secret(self, name):
        path = self.home / name
        path.write_text(self.document["secrets"][name]["content"] + "\n")
        return path

    def start(self):
        # The image runs `siltstone server /data` where the file names no command; a container has its port 9000 to itself.
        words = self.command() or ["server", str(self.home / "volume")]
        environment = self.environment()
        if "--address" not in words:
            words += ["--address", f"127.0.0.1:{self.port}"]
        self.log = self.home / "stderr"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(BINARY), *words], env=clean_environment(self.home, **environment),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
            )
        self.wait_until_healthy()
        return self

    def health_path(self):
        """The path that the health check of the file asks for."""
        test = self.service.get("healthcheck", {}).get("test", ["CMD", "mc", "ready", "local"])
        if test[1:] == ["mc", "ready", "local"]:
            return "/minio/health/cluster"
        return re.sub(r"^http://[^/]*", "", test[-1])

    def wait_until_healthy(self):
        last = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < last and self.process.poll() is None:
            try:
                if http.request("GET", f"{self.url}{self.health_path()}").status == 200:
                    return
            except urllib3.exceptions.HTTPError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"it does not become healthy: {self.log.read_text()}")

    def has_console(self):
        return "--console-address" in self.command() or "MINIO_CONSOLE_ADDRESS" in self.environment()

    def console(self):
        """The page of the console at the address that the file gives it."""
        assert http.request("GET", f"{self.url}/-/console/").status == 404
        page = http.request("GET", f"http://127.0.0.1:{self.console_port}/-/console/")
        return page.data.decode()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(STOP_SECONDS_MAX) == 0, self.log.read_text()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def client(self, **config):
        return boto3.session.Session().client(
            "s3", endpoint_url=self.url, region_name=self.project.get("region", "us-east-1"),
            aws_access_key_id=self.project["user"], aws_secret_access_key=self.project["password"],
            config=Config(s3={"addressing_style": "path"}, **config),
        )

    def bucket(self):
        return [*self.project.get("buckets", []), *self.project.get("made", [])][0]

    def initialise(self):
        """What the init container of the file does."""
        s3 = self.client()
        for name in self.project.get("buckets", []):
            s3.create_bucket(Bucket=name)
        for name in self.project.get("versioned", []):
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        for name in self.project.get("public", []):
            allowed = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{name}/*"}
            s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
        for name in self.project.get("cors", []):
            rule = {"AllowedMethods": ["GET"], "AllowedOrigins": [PAGE], "AllowedHeaders": ["*"]}
            s3.put_bucket_cors(Bucket=name, CORSConfiguration={"CORSRules": [rule]})


def public_read(stack):
    s3 = stack.client()
    [bucket, *_] = stack.project["public"]
    s3.put_object(Bucket=bucket, Key="site/image.png", Body=b"pixels", ContentType="image/png")
    found = http.request("GET", f"{stack.url}/{bucket}/site/image.png")
    assert (found.status, found.data, found.headers["content-type"]) == (200, b"pixels", "image/png")
    assert http.request("GET", f"{stack.url}/{bucket}").status == 403, "public reading is not listing"
    assert http.request("PUT", f"{stack.url}/{bucket}/mine", body=b"x").status == 403
    for other in set(stack.project.get("buckets", [])) - set(stack.project["public"]):
        s3.put_object(Bucket=other, Key="k", Body=b"secret")
        assert http.request("GET", f"{stack.url}/{other}/k").status == 403


def public_listing(stack):
    """`download` of the Bitnami image is what `mc anonymous set download` permits: reading and listing."""
    [bucket] = stack.project["readable"]
    stack.client().put_object(Bucket=bucket, Key="chart", Body=b"x")
    assert http.request("GET", f"{stack.url}/{bucket}/chart").data == b"x"
    assert http.request("GET", f"{stack.url}/{bucket}?list-type=2").status == 200
    assert http.request("PUT", f"{stack.url}/{bucket}/mine", body=b"x").status == 403
    assert http.request("GET", f"{stack.url}/{stack.bucket()}?list-type=2").status == 403


def public_acl(stack):
    s3, bucket = stack.client(), stack.bucket()
    s3.put_object(Bucket=bucket, Key="avatar", Body=b"face", ACL="public-read", ContentType="image/jpeg")
    s3.put_object(Bucket=bucket, Key="private", Body=b"secret")
    assert http.request("GET", f"{stack.url}/{bucket}/avatar").data == b"face"
    if bucket not in stack.project.get("public", []):
        assert http.request("GET", f"{stack.url}/{bucket}/private").status == 403
    grants = s3.get_object_acl(Bucket=bucket, Key="avatar")["Grants"]
    assert {grant["Permission"] for grant in grants} == {"FULL_CONTROL", "READ"}


def presigned_put_from_a_page(stack):
    url = stack.client(signature_version="s3v4").generate_presigned_url(
        "put_object", Params={"Bucket": stack.bucket(), "Key": "upload.txt", "ContentType": "text/plain"}
    )
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type"}
    preflight = http.request("OPTIONS", url, headers=asked)
    assert preflight.status in (200, 204), preflight.data
    assert preflight.headers["access-control-allow-origin"] in ("*", PAGE)
    put = http.request("PUT", url, body=b"text", headers={"Origin": PAGE, "Content-Type": "text/plain"})
    assert put.status == 200, put.data
    assert put.headers["access-control-allow-origin"] in ("*", PAGE)
    assert "etag" in put.headers["access-control-expose-headers"].lower()
    assert stack.client().get_object(Bucket=stack.bucket(), Key="upload.txt")["Body"].read() == b"text"


def presigned_get(stack, **config):
    stack.client().put_object(Bucket=stack.bucket(), Key="a file.txt", Body=b"text")
    s3 = stack.client(**config)
    params = {"Bucket": stack.bucket(), "Key": "a file.txt", "ResponseContentDisposition": "attachment"}
    url = s3.generate_presigned_url("get_object", Params=params)
    found = http.request("GET", url)
    assert (found.status, found.data) == (200, b"text"), found.data
    assert found.headers["content-disposition"] == "attachment"
    assert http.request("GET", url.replace("attachment", "inline")).status == 403
    return url


def presigned_get_v2(stack):
    assert "AWSAccessKeyId=" in presigned_get(stack, signature_version="s3")


def presigned_get_from_a_page(stack):
    url = presigned_get(stack)
    found = http.request("GET", url, headers={"Origin": PAGE})
    assert found.headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-origin" not in http.request("GET", url, headers={"Origin": "https://else.example"}).headers


def presigned_parts(stack):
    s3, place = stack.client(), {"Bucket": stack.bucket(), "Key": "image.mha"}
    place["UploadId"] = s3.create_multipart_upload(**place)["UploadId"]
    parts = []
    for number, body in [(1, b"a" * (5 << 20)), (2, b"end")]:
        url = s3.generate_presigned_url("upload_part", Params={**place, "PartNumber": number})
        put = http.request("PUT", url, body=body)
        assert put.status == 200, put.data
        parts.append({"PartNumber": number, "ETag": put.headers["etag"]})
    s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    assert s3.head_object(Bucket=place["Bucket"], Key=place["Key"])["ContentLength"] == (5 << 20) + 3


def form_upload(stack):
    s3 = stack.client()
    conditions = [["content-length-range", 1, 1000], {"Content-Type": "image/png"}]
    form = s3.generate_presigned_post(
        stack.bucket(), "workspace/${filename}", Fields={"Content-Type": "image/png"}, Conditions=conditions
    )
    post = http.request("POST", form["url"], fields={**form["fields"], "file": ("logo.png", b"pixels", "image/png")})
    assert post.status == 204, post.data
    found = s3.get_object(Bucket=stack.bucket(), Key="workspace/logo.png")
    assert (found["Body"].read(), found["ContentType"]) == (b"pixels", "image/png")
    long = http.request("POST", form["url"], fields={**form["fields"], "file": ("l.png", b"x" * 1001, "image/png")})
    assert long.status == 400 and b"EntityTooLarge" in long.data


def versions(stack):
    s3, place = stack.client(), {"Bucket": stack.bucket(), "Key": "document"}
    s3.put_bucket_versioning(Bucket=stack.bucket(), VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(**place, Body=b"first")["VersionId"]
    s3.put_object(**place, Body=b"second")
    s3.delete_object(**place)
    assert s3.get_object(**place, VersionId=first)["Body"].read() == b"first"
    found = s3.list_object_versions(Bucket=stack.bucket(), Prefix="document")
    assert (len(found["Versions"]), len(found["DeleteMarkers"])) == (2, 1)


def tags(stack):
    s3, place = stack.client(), {"Bucket": stack.bucket(), "Key": "tagged"}
    s3.put_object(**place, Body=b"x", Tagging="org=1&kind=media")
    assert s3.get_object_tagging(**place)["TagSet"] == [{"Key": "org", "Value": "1"}, {"Key": "kind", "Value": "media"}]
    s3.put_bucket_tagging(Bucket=stack.bucket(), Tagging={"TagSet": [{"Key": "team", "Value": "a"}]})
    assert s3.get_bucket_tagging(Bucket=stack.bucket())["TagSet"] == [{"Key": "team", "Value": "a"}]


def metadata(stack):
    s3, place = stack.client(), {"Bucket": stack.bucket(), "Key": "with metadata"}
    s3.put_object(**place, Body=b"x", Metadata={"author": "me"}, CacheControl="max-age=60", ContentType="text/csv")
    found = s3.head_object(**place)
    assert (found["Metadata"], found["CacheControl"], found["ContentType"]) == ({"author": "me"}, "max-age=60", "text/csv")


def multipart(stack):
    from boto3.s3.transfer import TransferConfig

    s3, body = stack.client(), os.urandom(12 << 20)
    s3.upload_fileobj(io.BytesIO(body), stack.bucket(), "large", Config=TransferConfig(multipart_threshold=5 << 20))
    assert s3.get_object(Bucket=stack.bucket(), Key="large")["Body"].read() == body


def aborted_multipart(stack):
    s3, place = stack.client(), {"Bucket": stack.bucket(), "Key": "given up"}
    upload = s3.create_multipart_upload(**place)["UploadId"]
    s3.upload_part(**place, UploadId=upload, PartNumber=1, Body=b"x")
    s3.abort_multipart_upload(**place, UploadId=upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=stack.bucket())


def ranges(stack):
    s3, place = stack.client(), {"Bucket": stack.bucket(), "Key": "numbers"}
    s3.put_object(**place, Body=bytes(range(256)))
    assert s3.get_object(**place, Range="bytes=10-19")["Body"].read() == bytes(range(10, 20))
    assert s3.get_object(**place, Range="bytes=-6")["Body"].read() == bytes(range(250, 256))


def listing(stack):
    s3, bucket = stack.client(), stack.bucket()
    for key in ["runs/1/a", "runs/1/b", "runs/2/a", "other"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    page = s3.list_objects_v2(Bucket=bucket, Prefix="runs/", Delimiter="/")
    assert [one["Prefix"] for one in page["CommonPrefixes"]] == ["runs/1/", "runs/2/"]
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="runs/", PaginationConfig={"PageSize": 2})
    assert [one["Key"] for page in pages for one in page["Contents"]] == ["runs/1/a", "runs/1/b", "runs/2/a"]


def copies(stack):
    s3, bucket = stack.client(), stack.bucket()
    s3.put_object(Bucket=bucket, Key="from", Body=b"bytes", Metadata={"a": "b"})
    s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from"})
    found = s3.get_object(Bucket=bucket, Key="to")
    assert (found["Body"].read(), found["Metadata"]) == (b"bytes", {"a": "b"})


def delete_many(stack):
    s3, bucket = stack.client(), stack.bucket()
    keys = [{"Key": f"many/{number}"} for number in range(20)]
    for key in keys:
        s3.put_object(Bucket=bucket, **key, Body=b"x")
    assert len(s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})["Deleted"]) == 20
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket, Prefix="many/")


def head_bucket(stack):
    s3 = stack.client()
    s3.head_bucket(Bucket=stack.bucket())
    with pytest.raises(ClientError, match="404"):
        s3.head_bucket(Bucket="not-there")


CALLS = {
    call.__name__: call
    for call in [
        public_read, public_listing, public_acl, presigned_put_from_a_page, presigned_get, presigned_get_v2,
        presigned_get_from_a_page, presigned_parts, form_upload, versions, tags, metadata, multipart, aborted_multipart,
        ranges, listing, copies, delete_many, head_bucket,
    ]
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_stack_starts_with_another_image_and_its_project_works(file, tmp_path):
    stack = Stack(file, tmp_path).start()
    try:
        stack.initialise()
        if stack.has_console():
            assert "<title>Sign in" in stack.console()
        assert stack.project["calls"]
        for name in stack.project["calls"]:
            CALLS[name](stack)
    finally:
        stack.process.poll() is None and stack.stop()


def test_there_are_twelve_stacks_and_every_call_is_made_by_one():
    projects = [yaml.safe_load(interpolated(file.read_text()))["x-project"] for file in FILES]
    assert len(FILES) >= 12
    assert {call for project in projects for call in project["calls"]} == set(CALLS)
