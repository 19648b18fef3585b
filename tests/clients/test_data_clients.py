"""s5cmd, and libraries that keep tables, arrays and images in buckets: polars, deltalake, tensorstore, TileDB and GDAL."""

import hashlib

import deltalake
import numpy
import polars
import pyarrow
import pytest
import rasterio
import requests
import tensorstore
import tiledb
from rasterio.io import MemoryFile
from rasterio.session import AWSSession
from rasterio.transform import from_origin

from siltstone import ACCESS_KEY, REGION, SECRET_KEY, VENV_BIN
from test_other_clients import installed, keys, run

# Above the 50 MiB from which s5cmd sends in parts at its defaults; its tests ask for parts of 5 MiB instead.
LARGE = hashlib.shake_256(b"large").digest(12_000_000)
NUMBERS = numpy.arange(10_000, dtype="int32").reshape(100, 100)


@pytest.fixture
def options(server):
    """The settings of object_store, the library below polars and deltalake."""
    return {
        "aws_endpoint_url": server.url,
        "aws_region": REGION,
        "aws_access_key_id": ACCESS_KEY,
        "aws_secret_access_key": SECRET_KEY,
        "aws_allow_http": "true",
    }


def post(s3, bucket, key, body, **fields):
    """Puts an object by a form, whose fields are text in UTF-8."""
    conditions = [{name: value} for name, value in fields.items()]
    form = s3.generate_presigned_post(bucket, key, Fields=fields, Conditions=conditions)
    answer = requests.post(form["url"], data=form["fields"], files={"file": body})
    assert answer.status_code == 204, answer.text


def test_s5cmd(server, s3, bucket, tmp_path):
    def s5cmd(*arguments):
        program = installed(str(VENV_BIN / "s5cmd"))
        secrets = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": REGION}
        return run(tmp_path, program, "--endpoint-url", server.url, *arguments, **secrets).stdout

    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(LARGE)
    s5cmd("cp", "--part-size", "5", source, f"s3://{bucket}/large")
    assert s3.head_object(Bucket=bucket, Key="large")["ETag"].endswith('-3"')
    s5cmd("cp", f"s3://{bucket}/large", back)
    assert back.read_bytes() == LARGE

    # Its copies name their source as forms do, with a plus for a space. A key with a plus beside must not be taken.
    s3.put_object(Bucket=bucket, Key="a b/ü&c", Body=b"space")
    s3.put_object(Bucket=bucket, Key="a+b/ü&c", Body=b"plus")
    s5cmd("cp", f"s3://{bucket}/a b/ü&c", f"s3://{bucket}/copy of space")
    s5cmd("cp", f"s3://{bucket}/a+b/ü&c", f"s3://{bucket}/copy+of+plus")
    assert s3.get_object(Bucket=bucket, Key="copy of space")["Body"].read() == b"space"
    assert s3.get_object(Bucket=bucket, Key="copy+of+plus")["Body"].read() == b"plus"
    s5cmd("mv", f"s3://{bucket}/copy of space", f"s3://{bucket}/moved")
    assert keys(s3, bucket) == ["a b/ü&c", "a+b/ü&c", "copy+of+plus", "large", "moved"]
    assert "copy+of+plus" in s5cmd("ls", f"s3://{bucket}/*") and "large" in s5cmd("du", f"s3://{bucket}/large")
    s5cmd("rm", f"s3://{bucket}/*")
    s5cmd("rb", f"s3://{bucket}")


def test_polars(s3, bucket, options):
    table = polars.DataFrame({"number": range(1000), "word": [f"wörd {n}" for n in range(1000)]})
    table.write_parquet(f"s3://{bucket}/a b+c/one.parquet", storage_options=options)
    found = polars.scan_parquet(f"s3://{bucket}/a b+c/*.parquet", storage_options=options)
    assert found.filter(polars.col("number") == 7).collect()["word"].to_list() == ["wörd 7"]
    # object_store takes no header that is not ASCII.
    body = s3.get_object(Bucket=bucket, Key="a b+c/one.parquet")["Body"].read()
    told = {"x-amz-meta-city": "Zürich", "Content-Disposition": 'attachment; filename="ü.parquet"'}
    post(s3, bucket, "named.parquet", body, **told)
    again = polars.read_parquet(f"s3://{bucket}/named.parquet", storage_options=options)
    assert again.equals(table)
    assert s3.head_object(Bucket=bucket, Key="named.parquet")["Metadata"] == {"city": "=?UTF-8?B?WsO8cmljaA==?="}


def test_deltalake(s3, bucket, options):
    address = f"s3://{bucket}/tables/one"
    rows = pyarrow.table({"number": [1, 2, 3]})
    conditional = {**options, "conditional_put": "etag"}
    deltalake.write_deltalake(address, rows, storage_options=conditional)
    deltalake.write_deltalake(address, rows, mode="append", storage_options=conditional)
    table = deltalake.DeltaTable(address, storage_options=conditional)
    assert table.version() == 1 and sorted(table.to_pyarrow_table()["number"].to_pylist()) == [1, 1, 2, 2, 3, 3]
    table.delete("number = 2")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert table.to_pyarrow_table().num_rows == 4
    assert len([key for key in keys(s3, bucket) if "/_delta_log/" in key and key.endswith(".json")]) >= 3


def test_tensorstore(server, s3, bucket, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    place = {"driver": "s3", "bucket": bucket, "path": "array/", "endpoint": server.url, "aws_region": REGION,
             "aws_credentials": {"type": "environment"}}
    spec = {"driver": "zarr", "kvstore": place, "metadata": {"chunks": [50, 50]}}
    made = tensorstore.open(spec, create=True, dtype="int32", shape=NUMBERS.shape).result()
    made.write(NUMBERS).result()
    opened = tensorstore.open({"driver": "zarr", "kvstore": place}).result()
    assert numpy.array_equal(opened.read().result(), NUMBERS)
    assert numpy.array_equal(opened[10:20, 5].read().result(), NUMBERS[10:20, 5])
    assert ".zarray" in " ".join(keys(s3, bucket))


def test_tiledb(server, s3, bucket):
    context = tiledb.Ctx({
        "vfs.s3.endpoint_override": server.url.removeprefix("http://"), "vfs.s3.scheme": "http",
        "vfs.s3.use_virtual_addressing": "false", "vfs.s3.region": REGION,
        "vfs.s3.aws_access_key_id": ACCESS_KEY, "vfs.s3.aws_secret_access_key": SECRET_KEY,
    })
    address = f"s3://{bucket}/array"
    tiledb.from_numpy(address, NUMBERS, ctx=context).close()
    with tiledb.open(address, ctx=context) as array:
        assert numpy.array_equal(array[:], NUMBERS)
        assert numpy.array_equal(array[3:5, 7:9], NUMBERS[3:5, 7:9])
    files = tiledb.VFS(ctx=context)
    assert files.is_dir(address)
    files.remove_dir(address)
    assert keys(s3, bucket) == []


def test_gdal(server, s3, bucket):
    """By rasterio, which reads parts of a tiled image by ranges, and writes one to a bucket."""
    session = AWSSession(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name=REGION,
                         endpoint_url=server.url.removeprefix("http://"))
    settings = {"AWS_HTTPS": "NO", "AWS_VIRTUAL_HOSTING": "FALSE", "CPL_VSIL_USE_TEMP_FILE_FOR_RANDOM_WRITE": "YES"}
    profile = {"driver": "GTiff", "width": 100, "height": 100, "count": 1, "dtype": "int32", "tiled": True,
               "blockxsize": 16, "blockysize": 16, "transform": from_origin(10, 50, 1, 1)}
    with MemoryFile() as memory:
        with memory.open(**profile) as image:
            image.write(NUMBERS, 1)
        s3.put_object(Bucket=bucket, Key="images/a b.tif", Body=memory.read())
    with rasterio.Env(session=session, **settings):
        with rasterio.open(f"/vsis3/{bucket}/images/a b.tif") as image:
            assert numpy.array_equal(image.read(1), NUMBERS)
            window = image.read(1, window=((32, 48), (16, 32)))
            assert numpy.array_equal(window, NUMBERS[32:48, 16:32])
        with rasterio.open(f"/vsis3/{bucket}/images/written.tif", "w", **profile) as image:
            image.write(NUMBERS, 1)
        with rasterio.open(f"/vsis3/{bucket}/images/written.tif") as image:
            assert numpy.array_equal(image.read(1), NUMBERS)
    assert keys(s3, bucket) == ["images/a b.tif", "images/written.tif"]
