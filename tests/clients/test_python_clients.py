"""boto3, minio-py and pyarrow at their defaults, with objects above the size from which each sends in parts."""

import hashlib
import io
import urllib.request

import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest
from minio import Minio
from minio.deleteobjects import DeleteObject
from minio.error import S3Error

from siltstone import ACCESS_KEY, SECRET_KEY
from test_other_clients import keys

# Above the 8 MiB of boto3, the 5 MiB of minio-py and the 10 MiB of pyarrow.
LARGE = hashlib.shake_256(b"large").digest(25_000_000)


def put(address, body):
    with urllib.request.urlopen(urllib.request.Request(address, body, method="PUT")) as answer:
        assert answer.status == 200


def in_parts(s3, bucket, key):
    return "-" in s3.head_object(Bucket=bucket, Key=key)["ETag"]


def test_boto3(s3, bucket, tmp_path):
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(LARGE)
    s3.put_object(Bucket=bucket, Key="small", Body=b"small")
    s3.upload_file(str(source), bucket, "large")
    assert in_parts(s3, bucket, "large") and keys(s3, bucket) == ["large", "small"]
    s3.download_file(bucket, "large", str(back))
    assert back.read_bytes() == LARGE
    put(s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "signed"}), b"signed")
    address = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "signed"})
    assert urllib.request.urlopen(address).read() == b"signed"
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys(s3, bucket)]})
    s3.delete_bucket(Bucket=bucket)


@pytest.fixture
def minio(server):
    return Minio(server.url.removeprefix("http://"), access_key=ACCESS_KEY, secret_key=SECRET_KEY, secure=False)


def test_minio_py(minio, s3, bucket):
    made = f"{bucket}-minio"
    minio.make_bucket(made)
    minio.put_object(made, "a/small", io.BytesIO(b"small"), 5, metadata={"colour": "green"})
    minio.put_object(made, "a/large", io.BytesIO(LARGE), len(LARGE))
    assert in_parts(s3, made, "a/large")
    assert [item.object_name for item in minio.list_objects(made)] == ["a/"]
    assert [item.object_name for item in minio.list_objects(made, recursive=True)] == ["a/large", "a/small"]
    assert minio.stat_object(made, "a/small").metadata["x-amz-meta-colour"] == "green"
    assert minio.get_object(made, "a/large").data == LARGE
    assert minio.get_object(made, "a/large", offset=1, length=3).data == LARGE[1:4]
    put(minio.presigned_put_object(made, "signed"), b"signed")
    assert urllib.request.urlopen(minio.presigned_get_object(made, "signed")).read() == b"signed"
    assert list(minio.remove_objects(made, [DeleteObject(key) for key in ("a/small", "a/large")])) == []
    minio.remove_object(made, "signed")
    with pytest.raises(S3Error) as missing:
        minio.stat_object(made, "signed")
    assert missing.value.code == "NoSuchKey"
    minio.remove_bucket(made)
    assert not minio.bucket_exists(made)


def arrow(server, **more):
    return pyarrow.fs.S3FileSystem(access_key=ACCESS_KEY, secret_key=SECRET_KEY, endpoint_override=server.url, **more)


def test_pyarrow(server, s3, bucket):
    """Besides the defaults, the option that lets it create and delete buckets."""
    made = f"{bucket}-arrow"
    files = arrow(server, allow_bucket_creation=True, allow_bucket_deletion=True)
    files.create_dir(made)
    table = pyarrow.table({"number": range(1000), "word": [str(n) for n in range(1000)]})
    pyarrow.parquet.write_table(table, f"{made}/tables/one.parquet", filesystem=files)
    assert pyarrow.parquet.read_table(f"{made}/tables", filesystem=files).equals(table)
    column = pyarrow.parquet.read_table(f"{made}/tables/one.parquet", columns=["word"], filesystem=files)
    assert column.equals(table.select(["word"]))
    with files.open_output_stream(f"{made}/large") as stream:
        stream.write(LARGE)
    assert in_parts(s3, made, "large")
    with files.open_input_stream(f"{made}/large") as stream:
        assert stream.read() == LARGE
    found = files.get_file_info(pyarrow.fs.FileSelector(made, recursive=True))
    assert sorted(item.path for item in found if item.is_file) == [f"{made}/large", f"{made}/tables/one.parquet"]
    files.delete_file(f"{made}/large")
    assert files.get_file_info(f"{made}/large").type == pyarrow.fs.FileType.NotFound
    files.delete_dir(made)
    assert made not in [item["Name"] for item in s3.list_buckets()["Buckets"]]
