"""The access logs of buckets: boto3 and the aws client configure them, and read what is delivered."""

import json
import shlex
import time

import pytest
from botocore.exceptions import ClientError

NAMES = """owner bucket time remote requester id operation key request status error sent size total turnaround
referer agent version host_id signature cipher authentication host tls access_point acl""".split()


def until(condition, seconds=60):
    """Waits for a condition that comes in its own time; the bound only ends a test that would never end."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)


def records(s3, bucket, prefix=""):
    """All records that were delivered, in the order of their arrival."""
    found = []
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            text = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read().decode()
            for line in text.splitlines():
                fields = shlex.split(line.replace("[", '"').replace("]", '"'))
                assert len(fields) == len(NAMES), line
                found.append(dict(zip(NAMES, fields)))
    return found


def served(own_server, *options):
    server = own_server("--bucket-log-interval", "1s", *options).start()
    s3 = server.client()
    for name in ["photos", "logs"]:
        s3.create_bucket(Bucket=name)
    return server, s3


def enable(s3, prefix="of photos/", bucket="photos", target="logs"):
    status = {"LoggingEnabled": {"TargetBucket": target, "TargetPrefix": prefix}}
    s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus=status)


def test_requests_of_boto3_are_delivered_in_the_format_of_s3(own_server):
    _, s3 = served(own_server)
    enable(s3)
    got = s3.get_bucket_logging(Bucket="photos")["LoggingEnabled"]
    assert got == {"TargetBucket": "logs", "TargetPrefix": "of photos/"}
    s3.put_object(Bucket="photos", Key="a key", Body=b"hello")
    s3.get_object(Bucket="photos", Key="a key", Range="bytes=1-2")
    with pytest.raises(ClientError):
        s3.get_object(Bucket="photos", Key="absent")
    s3.delete_objects(Bucket="photos", Delete={"Objects": [{"Key": "a key"}, {"Key": "b"}]})
    until(lambda: len(records(s3, "logs", "of photos/")) == 7)
    found = records(s3, "logs", "of photos/")
    outline = [(it["operation"], it["key"], it["status"], it["error"]) for it in found]
    assert sorted(outline) == sorted([
        ("REST.GET.LOGGING_STATUS", "-", "200", "-"),
        ("REST.PUT.OBJECT", "a%20key", "200", "-"),
        ("REST.GET.OBJECT", "a%20key", "206", "-"),
        ("REST.GET.OBJECT", "absent", "404", "NoSuchKey"),
        ("REST.POST.MULTI_OBJECT_DELETE", "-", "200", "-"),
        ("BATCH.DELETE.OBJECT", "a%20key", "204", "-"),
        ("BATCH.DELETE.OBJECT", "b", "204", "-"),
    ])
    part = next(it for it in found if it["status"] == "206")
    assert (part["sent"], part["size"], part["requester"]) == ("2", "5", "arn:aws:iam::000000000000:user/admin")
    assert part["agent"].startswith("Boto3/") and part["signature"] == "SigV4"


def test_the_aws_client_sets_both_formats_of_keys(own_server, tmp_path):
    server, s3 = served(own_server)
    by_day = {"PartitionedPrefix": {"PartitionDateSource": "EventTime"}}
    for form, pattern in [({"SimplePrefix": {}}, "p/20"), (by_day, "p/000000000000/eu/photos/20")]:
        target = {"TargetBucket": "logs", "TargetPrefix": "p/", "TargetObjectKeyFormat": form}
        status = json.dumps({"LoggingEnabled": target})
        server.aws("s3api", "put-bucket-logging", "--bucket", "photos", "--bucket-logging-status", status, home=tmp_path)
        assert s3.get_bucket_logging(Bucket="photos")["LoggingEnabled"] == target
        until(lambda: s3.list_objects_v2(Bucket="logs", Prefix=pattern).get("Contents"))
    s3.put_bucket_logging(Bucket="photos", BucketLoggingStatus={})
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="photos")


def test_what_was_delivered_survives_a_kill_and_an_orderly_end_delivers_the_rest(own_server):
    server, s3 = served(own_server)
    enable(s3)
    for number in range(20):
        s3.put_object(Bucket="photos", Key=f"first/{number}", Body=b"x")
    until(lambda: len(records(s3, "logs")) == 20)
    server.kill()
    server.start()
    s3 = server.client()
    assert {it["key"] for it in records(s3, "logs")} == {f"first/{number}" for number in range(20)}
    s3.put_object(Bucket="photos", Key="last", Body=b"x")
    server.stop()
    server.start()
    keys = [it["key"] for it in records(server.client(), "logs")]
    assert len(keys) == 21 and keys.count("last") == 1
