"""A standby: what promote says of it, and what it answers to reads."""

import json
import random
import time
import urllib.request

import pytest
from botocore.exceptions import ClientError

from siltstone import BINARY
from takeovers import ONE_TRY, SOON, UNANSWERED, marked, promote, run, section_of, shipping_writer, takes_writes, write_section

STALE = "x-amz-siltstone-stale"


def test_promote_on_a_standby_that_waits_for_a_first_log_says_so(own_server, tmp_path):
    remote = own_server("--bucket", "cold").start()
    config = write_section(tmp_path / "remote.toml", section_of(remote.url))
    writer = own_server("--bucket", "data").start()
    writer.stop()
    standby = own_server("standby", "--config", str(config), "--ship", "sync").start()

    def refused():
        """The answer of promote once the standby has looked at the remote."""
        for _ in range(SOON * 10):
            done = run(BINARY, standby, "promote")
            if "no standby runs" not in done.stderr:
                return done
            assert standby.is_running(), standby.log.read_text()
            time.sleep(0.1)
        raise AssertionError(standby.log.read_text())

    done = refused()
    assert done.returncode == 1 and "waits for a first log" in done.stderr, done.stdout + done.stderr
    marked(writer, config)
    done = refused()
    assert done.returncode == 1 and "waits for a first log" in done.stderr, done.stdout + done.stderr
    writer.arguments += ["--config", str(config), "--ship", "sync"]
    writer.start()
    takes_writes(writer)
    promote(standby)
    takes_writes(standby)


def reads_of(s3, anonymous):
    """Every kind of read of the bucket data, by name. An answer holds what the server says of the bucket and nothing of the host."""
    versions = s3.list_object_versions(Bucket="data")
    old = [version["VersionId"] for version in versions["Versions"] if not version["IsLatest"]]
    upload = s3.list_multipart_uploads(Bucket="data")["Uploads"][0]["UploadId"]
    at = {"Bucket": "data", "Key": "key"}
    link = s3.generate_presigned_url("get_object", Params=at)
    answers = {
        "buckets": s3.list_buckets(),
        "bucket": s3.head_bucket(Bucket="data"),
        "objects": s3.list_objects_v2(Bucket="data"),
        "old objects": s3.list_objects(Bucket="data", Delimiter="/"),
        "versions": versions,
        "object": s3.get_object(**at),
        "range": s3.get_object(**at, Range="bytes=3-70000"),
        "old version": s3.get_object(**at, VersionId=old[0]),
        "head": s3.head_object(**at),
        "attributes": s3.get_object_attributes(**at, ObjectAttributes=["ETag", "ObjectSize", "Checksum"]),
        "tags": s3.get_object_tagging(**at),
        "acl": s3.get_object_acl(**at),
        "policy": s3.get_bucket_policy(Bucket="data"),
        "versioning": s3.get_bucket_versioning(Bucket="data"),
        "uploads": s3.list_multipart_uploads(Bucket="data"),
        "parts": s3.list_parts(Bucket="data", Key="large", UploadId=upload),
        "public": anonymous.get_object(**at),
    }
    stale = {name: answer.pop("ResponseMetadata")["HTTPHeaders"].get(STALE) for name, answer in answers.items()}
    for answer in answers.values():
        if "Body" in answer:
            answer["Body"] = answer["Body"].read()
    with urllib.request.urlopen(link) as answer:
        answers["presigned"], stale["presigned"] = answer.read(), answer.headers[STALE]
    return answers, stale


def writes_to(s3):
    """Writes of several kinds, each a function."""
    at = {"Bucket": "data", "Key": "key"}
    upload = s3.list_multipart_uploads(Bucket="data")["Uploads"][0]["UploadId"]
    yield lambda: s3.put_object(**at, Body=b"other")
    yield lambda: s3.delete_object(**at)
    yield lambda: s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": "key"}]})
    yield lambda: s3.copy_object(Bucket="data", Key="copy", CopySource=at)
    yield lambda: s3.put_object_tagging(**at, Tagging={"TagSet": []})
    yield lambda: s3.create_bucket(Bucket="other")
    yield lambda: s3.create_multipart_upload(**at)
    yield lambda: s3.upload_part(Bucket="data", Key="large", UploadId=upload, PartNumber=2, Body=b"part")
    yield lambda: s3.abort_multipart_upload(Bucket="data", Key="large", UploadId=upload)


def test_a_standby_answers_every_kind_of_read_as_the_writer_and_no_write(own_server, tmp_path):
    writer, _, _ = shipping_writer(own_server, tmp_path, "async", "--ship-every", "500ms")
    standby = own_server("standby", *writer.arguments[2:], "--standby-reads", "true").start()
    s3 = writer.client(config=ONE_TRY)
    s3.put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Enabled"})
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*"}
    s3.put_bucket_policy(Bucket="data", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    s3.put_object(Bucket="data", Key="key", Body=b"first")
    s3.put_object(Bucket="data", Key="key", Body=random.Random(1).randbytes(300_000), Tagging="a=b", Metadata={"nth": "2"})
    upload = s3.create_multipart_upload(Bucket="data", Key="large")["UploadId"]
    s3.upload_part(Bucket="data", Key="large", UploadId=upload, PartNumber=1, Body=bytes(5 << 20))
    s3.put_object(Bucket="data", Key="last", Body=b"")

    read = standby.client(config=ONE_TRY)
    for _ in range(SOON * 10):
        try:
            read.head_object(Bucket="data", Key="last")
            break
        except (ClientError, *UNANSWERED):
            time.sleep(0.1)
    theirs, marks = reads_of(read, standby.anonymous())
    ours, none = reads_of(s3, writer.anonymous())
    assert theirs == ours
    assert all(mark is not None and int(mark) < SOON for mark in marks.values()), marks
    assert set(none.values()) == {None}
    for write in writes_to(read):
        with pytest.raises(ClientError) as refused:
            write()
        answer = refused.value.response
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 503 and "standby" in answer["Error"]["Message"], answer
        assert answer["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "10"
    assert reads_of(read, standby.anonymous())[0] == ours
