"""Objects through an unmodified boto3 with its default settings."""

import base64
import datetime
import email.header
import hashlib
import io

import pytest
import requests
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

import odd_keys


def refusal(call, **arguments):
    """The code and the HTTP status with which a call is refused, as botocore reads them."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1_000_000, 20_000_000])
def test_what_is_put_comes_back_with_its_md5_as_etag(s3, bucket, size):
    body = bytes(hashlib.shake_256(str(size).encode()).digest(size))
    put = s3.put_object(Bucket=bucket, Key="k", Body=body)
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == body
    assert got["ContentLength"] == size
    assert put["ETag"] == got["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    assert got["ContentType"] == "binary/octet-stream"
    assert got["AcceptRanges"] == "bytes"
    assert "VersionId" not in put


def test_the_last_put_wins(s3, bucket):
    for text in (b"first", b"second, and longer", b"3"):
        s3.put_object(Bucket=bucket, Key="k", Body=text)
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == text


def test_headers_and_metadata_are_kept(s3, bucket):
    headers = {
        "ContentType": "text/plain; charset=utf-8",
        "CacheControl": "max-age=60",
        "ContentDisposition": 'attachment; filename="x y.txt"',
        "ContentEncoding": "gzip",
        "ContentLanguage": "de, en",
    }
    expires = datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    metadata = {
        "plain": "value",
        "spaces": "a  b   c",
        "odd": "~!@#$%^&*()_+-={}|[]:\";'<>?,./`",
        "with-dash_and.dot": "=?utf-8?q?gr=C3=BCn?=",
        "empty": "",
    }
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Expires=expires, Metadata=metadata, **headers)
    for answer in (s3.head_object(Bucket=bucket, Key="k"), s3.get_object(Bucket=bucket, Key="k")):
        assert {name: answer[name] for name in headers} == headers
        assert answer["Expires"] == expires
        assert answer["Metadata"] == metadata


def test_a_head_says_what_a_get_says(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"12345", Metadata={"a": "b"})
    got, head = s3.get_object(Bucket=bucket, Key="k"), s3.head_object(Bucket=bucket, Key="k")
    names = {"ETag", "ContentLength", "ContentType", "LastModified", "Metadata", "AcceptRanges"}
    assert {n: got[n] for n in names} == {n: head[n] for n in names}
    age = datetime.datetime.now(datetime.timezone.utc) - head["LastModified"]
    assert datetime.timedelta(seconds=-2) < age < datetime.timedelta(minutes=10)


def test_response_headers_can_be_overridden(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", CacheControl="no-store")
    got = s3.get_object(
        Bucket=bucket, Key="k", ResponseCacheControl="max-age=5", ResponseContentType="text/csv",
        ResponseContentDisposition="inline", ResponseContentLanguage="fr", ResponseContentEncoding="br",
    )
    assert (got["CacheControl"], got["ContentType"]) == ("max-age=5", "text/csv")
    assert (got["ContentDisposition"], got["ContentLanguage"], got["ContentEncoding"]) == ("inline", "fr", "br")


@pytest.mark.parametrize(
    "range_, first, last",
    [("bytes=0-0", 0, 0), ("bytes=0-3", 0, 3), ("bytes=199990-", 199_990, 199_999), ("bytes=-5", 199_995, 199_999),
     ("bytes=65535-65536", 65_535, 65_536), ("bytes=100-900000", 100, 199_999), ("bytes=-900000", 0, 199_999)],
)
def test_a_range_is_served_exactly(s3, bucket, range_, first, last):
    body = hashlib.shake_256(b"range").digest(200_000)
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    got = s3.get_object(Bucket=bucket, Key="k", Range=range_)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["ContentRange"] == f"bytes {first}-{last}/200000"
    assert got["Body"].read() == body[first : last + 1]
    assert s3.head_object(Bucket=bucket, Key="k", Range=range_)["ContentLength"] == last + 1 - first


def test_ranges_that_cannot_be_served(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"12345")
    assert refusal(s3.get_object, Bucket=bucket, Key="k", Range="bytes=5-") == ("InvalidRange", 416)
    assert refusal(s3.head_object, Bucket=bucket, Key="k", Range="bytes=5-") == ("416", 416)
    assert s3.get_object(Bucket=bucket, Key="k", Range="bytes=3-1")["Body"].read() == b"12345"
    assert s3.get_object(Bucket=bucket, Key="k", Range="bytes=0-1,3-4")["Body"].read() == b"12345"


def test_conditions_on_reads(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    before = modified - datetime.timedelta(hours=1)
    name = {"Bucket": bucket, "Key": "k"}
    assert s3.get_object(**name, IfMatch=etag)["Body"].read() == b"x"
    assert s3.get_object(**name, IfModifiedSince=before)["Body"].read() == b"x"
    assert s3.get_object(**name, IfMatch=etag, IfUnmodifiedSince=before)["Body"].read() == b"x"
    assert refusal(s3.get_object, **name, IfMatch='"other"') == ("PreconditionFailed", 412)
    assert refusal(s3.get_object, **name, IfUnmodifiedSince=before) == ("PreconditionFailed", 412)
    assert refusal(s3.get_object, **name, IfNoneMatch=etag) == ("304", 304)
    assert refusal(s3.head_object, **name, IfModifiedSince=modified) == ("304", 304)


def test_conditions_on_writes(s3, bucket):
    name = {"Bucket": bucket, "Key": "k"}
    assert refusal(s3.put_object, **name, Body=b"0", IfMatch='"any"') == ("NoSuchKey", 404)
    etag = s3.put_object(**name, Body=b"1", IfNoneMatch="*")["ETag"]
    assert refusal(s3.put_object, **name, Body=b"2", IfNoneMatch="*") == ("PreconditionFailed", 412)
    assert refusal(s3.put_object, **name, Body=b"2", IfMatch='"other"') == ("PreconditionFailed", 412)
    s3.put_object(**name, Body=b"3", IfMatch=etag)
    assert s3.get_object(**name)["Body"].read() == b"3"


def test_conditional_deletions(s3, bucket):
    name = {"Bucket": bucket, "Key": "k"}
    s3.put_object(**name, Body=b"1234")
    head = s3.head_object(**name)
    earlier = head["LastModified"] - datetime.timedelta(seconds=1)
    for wrong in ({"IfMatch": '"other"'}, {"IfMatchSize": 5}, {"IfMatchLastModifiedTime": earlier}):
        assert refusal(s3.delete_object, **name, **wrong) == ("PreconditionFailed", 412), wrong
    several = {"Objects": [{"Key": "k", "Size": 5}, {"Key": "absent", "ETag": '"other"'}]}
    answer = s3.delete_objects(Bucket=bucket, Delete=several)
    assert [error["Code"] for error in answer["Errors"]] == ["PreconditionFailed"]
    assert [deleted["Key"] for deleted in answer["Deleted"]] == ["absent"]
    right = {"IfMatch": head["ETag"], "IfMatchSize": 4, "IfMatchLastModifiedTime": head["LastModified"]}
    s3.delete_object(**name, **right)
    assert refusal(s3.head_object, **name) == ("404", 404)
    s3.delete_object(**name, **right)


@pytest.mark.parametrize("algorithm, digest", [("SHA1", hashlib.sha1), ("SHA256", hashlib.sha256)])
def test_the_checksum_that_was_sent_is_verified_and_returned(s3, bucket, algorithm, digest):
    body = b"checked" * 1000
    value = base64.b64encode(digest(body).digest()).decode()
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, ChecksumAlgorithm=algorithm)
    assert put[f"Checksum{algorithm}"] == value
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (got[f"Checksum{algorithm}"], got["ChecksumType"]) == (value, "FULL_OBJECT")
    assert got["Body"].read() == body
    assert f"Checksum{algorithm}" not in s3.head_object(Bucket=bucket, Key="k")
    wrong = {f"Checksum{algorithm}": base64.b64encode(digest(b"other").digest()).decode()}
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=body, **wrong) == ("BadDigest", 400)


def test_the_default_checksum_is_crc32(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"123456789")
    assert (put["ChecksumCRC32"], put["ChecksumType"]) == ("y/Q5Jg==", "FULL_OBJECT")
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (head["ChecksumCRC32"], head["ChecksumType"]) == ("y/Q5Jg==", "FULL_OBJECT")


def test_a_wrong_md5_is_refused_and_nothing_is_stored(s3, bucket):
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    name = {"Bucket": bucket, "Key": "k"}
    assert refusal(s3.put_object, **name, Body=b"x", ContentMD5=wrong) == ("BadDigest", 400)
    assert refusal(s3.put_object, **name, Body=b"x", ContentMD5="no digest") == ("InvalidDigest", 400)
    assert refusal(s3.head_object, **name) == ("404", 404)


def test_odd_keys_are_plain_keys(s3, bucket):
    """Each is put, read, listed and deleted by itself: no two of them are the same, and none is a path."""
    for key in odd_keys.ALL:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in odd_keys.ALL:
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode(), repr(key)
    listed = [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert listed == sorted(odd_keys.ALL, key=lambda key: key.encode())
    for key in odd_keys.NOT_IN_XML:
        s3.delete_object(Bucket=bucket, Key=key)
    objects = [{"Key": key} for key in odd_keys.XML_SAFE]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    assert "Errors" not in answer
    assert [item["Key"] for item in answer["Deleted"]] == odd_keys.XML_SAFE
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_key_is_at_most_1024_bytes_long(s3, bucket):
    assert refusal(s3.put_object, Bucket=bucket, Key="k" * 1025) == ("KeyTooLongError", 400)


def test_a_delete_is_quiet_about_what_is_not_there(s3, bucket):
    assert s3.delete_object(Bucket=bucket, Key="absent")["ResponseMetadata"]["HTTPStatusCode"] == 204
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.delete_object(Bucket=bucket, Key="k")
    assert refusal(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


def test_a_thousand_objects_go_in_one_request(s3, bucket):
    s3.put_object(Bucket=bucket, Key="key-7", Body=b"x")
    objects = [{"Key": f"key-{n}"} for n in range(1000)]
    loud = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    assert len(loud["Deleted"]) == 1000
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
    assert "Deleted" not in quiet and "Errors" not in quiet
    too_many = {"Objects": [*objects, {"Key": "one more"}]}
    assert refusal(s3.delete_objects, Bucket=bucket, Delete=too_many) == ("MalformedXML", 400)


def test_text_beyond_ascii_comes_back_as_encoded_words(s3, bucket):
    """boto3 sends no such text itself; forms do."""
    texts = {"city": "Zürich", "sign": "日本 ☂ " * 40 + "end", "plain": "plain", "word": "=?UTF-8?B?w7w=?="}
    fields = {f"x-amz-meta-{name}": text for name, text in texts.items()}
    fields["Content-Disposition"] = 'attachment; filename="ü b.txt"'
    form = s3.generate_presigned_post(bucket, "k", fields, [{name: text} for name, text in fields.items()])
    assert requests.post(form["url"], data=form["fields"], files={"file": b"x"}).status_code == 204

    def read(value):
        return str(email.header.make_header(email.header.decode_header(value)))

    for answer in (s3.get_object(Bucket=bucket, Key="k"), s3.head_object(Bucket=bucket, Key="k")):
        assert {name: read(value) for name, value in answer["Metadata"].items()} == {**texts, "word": "ü"}
        assert answer["Metadata"]["plain"] == "plain" and answer["Metadata"]["word"] == texts["word"]
        assert answer["ContentDisposition"] == 'attachment; filename="=?UTF-8?B?w7wgYi50eHQ=?="'
    named = {"Bucket": bucket, "Key": "k", "ResponseContentDisposition": 'attachment; filename="ü"'}
    with requests.get(s3.generate_presigned_url("get_object", Params=named)) as answer:
        assert answer.status_code == 200 and all(value.isascii() for value in answer.headers.values())
        assert answer.headers["Content-Disposition"] == 'attachment; filename="=?UTF-8?B?w7w=?="'
    named["ResponseContentDisposition"] = "attachment; filename=日"
    assert requests.get(s3.generate_presigned_url("get_object", Params=named)).status_code == 400


def test_metadata_over_two_kibibytes_is_refused(s3, bucket):
    metadata = {"a": "x" * 2048}
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Metadata=metadata) == ("MetadataTooLarge", 400)


def test_files_go_up_and_down(s3, bucket, tmp_path):
    """Just below boto3's multipart threshold of 8 MiB."""
    small = tmp_path / "small"
    small.write_bytes(hashlib.shake_256(b"small").digest(8 * 1024 * 1024 - 1))
    s3.upload_file(str(small), bucket, "small", ExtraArgs={"Metadata": {"a": "b"}})
    s3.download_file(bucket, "small", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == small.read_bytes()


def test_a_large_file_goes_up_in_one_piece_and_down_in_ranges(s3, bucket):
    large = hashlib.shake_256(b"large").digest(20_000_000)
    one_piece = TransferConfig(multipart_threshold=len(large) + 1)
    s3.upload_fileobj(io.BytesIO(large), bucket, "large", Config=one_piece)
    back = io.BytesIO()
    s3.download_fileobj(bucket, "large", back)
    assert back.getvalue() == large


def test_a_stream_of_unknown_length_goes_up(s3, bucket):
    class Stream(io.RawIOBase):
        left = 300_000

        def readable(self):
            return True

        def read(self, size=-1):
            size = self.left if size < 0 else min(size, self.left)
            self.left -= size
            return b"s" * size

    s3.upload_fileobj(Stream(), bucket, "k")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"s" * 300_000


def test_the_resource_interface_works(server, bucket):
    resource = server.resource()
    thing = resource.Object(bucket, "k")
    thing.put(Body=b"through the resource", Metadata={"a": "b"})
    assert thing.get()["Body"].read() == b"through the resource"
    thing.reload()
    assert (thing.content_length, thing.metadata) == (20, {"a": "b"})
    assert [item.key for item in resource.Bucket(bucket).objects.all()] == ["k"]
    resource.Bucket(bucket).objects.all().delete()
    assert list(resource.Bucket(bucket).objects.all()) == []
    assert bucket in [b.name for b in resource.buckets.all()]
    resource.Bucket(bucket).delete()


def test_waiters_see_what_is_there_and_what_is_not(s3, bucket):
    once = {"Delay": 1, "MaxAttempts": 2}
    s3.get_waiter("bucket_exists").wait(Bucket=bucket, WaiterConfig=once)
    s3.get_waiter("object_not_exists").wait(Bucket=bucket, Key="k", WaiterConfig=once)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.get_waiter("object_exists").wait(Bucket=bucket, Key="k", WaiterConfig=once)
    s3.get_waiter("bucket_not_exists").wait(Bucket="no-such-bucket", WaiterConfig=once)
