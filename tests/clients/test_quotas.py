"""Writers that race a quota: it is never exceeded, and nothing that fits is refused.

SILTSTONE_QUOTA_SECONDS says for how long (5), SILTSTONE_QUOTA_MIB how large the quota is (64)."""

import os
import random
import subprocess
import threading
import time

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from siltstone import ACCESS_KEY, BINARY, SECRET_KEY, clean_environment

SECONDS = int(os.environ.get("SILTSTONE_QUOTA_SECONDS", "5"))
QUOTA = int(os.environ.get("SILTSTONE_QUOTA_MIB", "64")) << 20
WRITERS = 64
SIZE_MAX = 512 << 10
SIZE_MIN = SIZE_MAX // 2
# Objects of the least size fill the quota, so that it is at its limit from the beginning on, and after every deletion soon again.
KEYS = QUOTA // SIZE_MIN


def command(server, home, *arguments):
    """Runs a command on quotas, which must succeed."""
    environment = clean_environment(home, SILTSTONE_ACCESS_KEY=ACCESS_KEY, SILTSTONE_SECRET_KEY=SECRET_KEY)
    line = [str(BINARY), "quota", *arguments, "--endpoint", server.url]
    return subprocess.run(line, env=environment, check=True, capture_output=True, text=True).stdout


def used(s3):
    return int(s3.head_bucket(Bucket="race")["ResponseMetadata"]["HTTPHeaders"]["x-amz-quota-bytes-used"])


def code_of(error):
    return error.response["Error"]["Code"]


def put(s3, key, body):
    s3.put_object(Bucket="race", Key=key, Body=body)


def copy(s3, key, source):
    s3.copy_object(Bucket="race", Key=key, CopySource={"Bucket": "race", "Key": source})


def upload(s3, key, body):
    there = {"Bucket": "race", "Key": key}
    there["UploadId"] = s3.create_multipart_upload(**there)["UploadId"]
    try:
        part = s3.upload_part(**there, PartNumber=1, Body=body)
        s3.complete_multipart_upload(**there, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    except ClientError:
        s3.abort_multipart_upload(**there)
        raise


def write(s3, seed, until, outcomes):
    draw = random.Random(seed)
    while time.monotonic() < until:
        # A copy of a key onto itself changes nothing, and is refused for that.
        key, other = map(str, draw.sample(range(KEYS), 2))
        body = bytes(draw.randrange(SIZE_MIN, SIZE_MAX))
        step = draw.choices([put, upload, copy, None], [6, 2, 1, 1])[0]
        try:
            if step is None:
                s3.delete_object(Bucket="race", Key=key)
            else:
                step(s3, key, other if step is copy else body)
            outcomes.append("done")
        except ClientError as error:
            outcomes.append(code_of(error))
        except HTTPClientError:
            # A slow machine. The write may have been done, or not.
            outcomes.append("unanswered")


def counted(s3):
    """The bytes of all objects, summed up from a listing."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="race")
    return sum(item["Size"] for page in pages for item in page.get("Contents", []))


def test_writers_that_race_fill_a_quota_and_never_exceed_it(own_server, tmp_path):
    server = own_server().start()
    s3 = server.client(Config(max_pool_connections=WRITERS + 1, retries={"max_attempts": 1}))
    s3.create_bucket(Bucket="race")
    command(server, tmp_path, "set", "bucket", "race", "--bytes", str(QUOTA))
    for key in range(KEYS):
        put(s3, str(key), bytes(QUOTA // KEYS))
    outcomes, most, until = [], 0, time.monotonic() + SECONDS
    writers = [threading.Thread(target=write, args=(s3, seed, until, outcomes)) for seed in range(WRITERS)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        most = max(most, used(s3))
        assert most <= QUOTA
        time.sleep(0.01)
    for writer in writers:
        writer.join()
    # A source of a copy may be missing.
    assert set(outcomes) <= {"done", "QuotaExceeded", "NoSuchKey", "unanswered"}, set(outcomes)
    assert outcomes.count("QuotaExceeded") > 0 and outcomes.count("done") > 0, "the limit was not reached"
    assert most > QUOTA - SIZE_MAX, f"{most} bytes at most"
    uploads = s3.list_multipart_uploads(Bucket="race").get("Uploads", [])
    assert len(uploads) <= outcomes.count("unanswered")
    for left in uploads:
        s3.abort_multipart_upload(Bucket="race", Key=left["Key"], UploadId=left["UploadId"])
    print(f"{len(outcomes)} requests, {outcomes.count('QuotaExceeded')} refused, {most} of {QUOTA} bytes at most")
    free = QUOTA - counted(s3)
    assert used(s3) == QUOTA - free
    put(s3, "last", bytes(free))
    with pytest.raises(ClientError) as refused:
        put(s3, "more", b"x")
    assert code_of(refused.value) == "QuotaExceeded" and used(s3) == QUOTA
    put(s3, "last", bytes(free))
