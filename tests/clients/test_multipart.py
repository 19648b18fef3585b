"""Files that clients send in parts by their defaults, and the calls that such uploads are made of."""

import hashlib
import json

import pytest

from test_objects import refusal

LARGE = hashlib.shake_256(b"large").digest(20_000_000)
PART = b"p" * (5 * 1024 * 1024)
# boto3 and the aws command line send parts of 8 MiB.
PARTS_OF_LARGE = 3


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    return path


def assert_in_parts(s3, bucket, key):
    head = s3.head_object(Bucket=bucket, Key=key)
    assert (head["ContentLength"], head["ETag"][-3:]) == (len(LARGE), f'-{PARTS_OF_LARGE}"')


def test_boto3_sends_a_large_file_in_parts_and_brings_it_back(s3, bucket, large, tmp_path):
    s3.upload_file(str(large), bucket, "k", ExtraArgs={"Metadata": {"a": "b"}, "ContentType": "text/plain"})
    assert_in_parts(s3, bucket, "k")
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["Metadata"], head["ContentType"]) == ({"a": "b"}, "text/plain")
    s3.download_file(bucket, "k", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == LARGE


def test_boto3_copies_a_large_object_in_parts(s3, bucket, large):
    s3.upload_file(str(large), bucket, "k")
    s3.copy({"Bucket": bucket, "Key": "k"}, bucket, "copy")
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == LARGE


def test_the_aws_command_line_sends_a_large_file_in_parts_and_brings_it_back(server, s3, bucket, large, tmp_path):
    server.aws("s3", "cp", large, f"s3://{bucket}/k", home=tmp_path)
    assert_in_parts(s3, bucket, "k")
    server.aws("s3", "cp", f"s3://{bucket}/k", f"s3://{bucket}/copy", home=tmp_path)
    server.aws("s3", "cp", f"s3://{bucket}/copy", tmp_path / "back", home=tmp_path)
    assert (tmp_path / "back").read_bytes() == LARGE


def test_the_aws_command_line_makes_an_object_of_parts_by_hand(server, s3, bucket, tmp_path):
    def api(*arguments):
        output = server.aws("s3api", *arguments, "--bucket", bucket, "--key", "k", home=tmp_path).stdout
        return json.loads(output) if output else None

    upload = api("create-multipart-upload")["UploadId"]
    etags = []
    for number, body in enumerate([PART, b"end"], 1):
        (tmp_path / "part").write_bytes(body)
        part = ["upload-part", "--upload-id", upload, "--part-number", number, "--body", tmp_path / "part"]
        etags.append(api(*part)["ETag"])
    listed = api("list-parts", "--upload-id", upload)["Parts"]
    assert [(part["PartNumber"], part["Size"], part["ETag"]) for part in listed] == [
        (1, len(PART), etags[0]), (2, 3, etags[1]),
    ]
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
    api("complete-multipart-upload", "--upload-id", upload, "--multipart-upload", json.dumps({"Parts": parts}))
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == PART + b"end"


def test_uploads_and_parts_are_listed_until_the_upload_is_given_up(s3, bucket):
    ids = {key: s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"] for key in ["a", "b/c"]}
    listed = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [(upload["Key"], upload["UploadId"]) for upload in listed] == list(ids.items())
    one = {"Bucket": bucket, "Key": "a", "UploadId": ids["a"]}
    sent = s3.upload_part(PartNumber=7, Body=b"part", **one)
    part = s3.list_parts(**one)["Parts"][0]
    assert (part["PartNumber"], part["Size"], part["ETag"]) == (7, 4, sent["ETag"])
    s3.abort_multipart_upload(**one)
    assert refusal(s3.list_parts, **one) == ("NoSuchUpload", 404)
    assert refusal(s3.upload_part, PartNumber=8, Body=b"late", **one) == ("NoSuchUpload", 404)
    assert [upload["Key"] for upload in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == ["b/c"]
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
