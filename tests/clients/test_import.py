"""Import from another S3 server: moto, which keeps versions, tags, grants and parts."""

import json
import subprocess

import boto3
from moto.server import ThreadedMotoServer

from siltstone import ACCESS_KEY, BINARY, REGION, SECRET_KEY, clean_environment

TOOLS = BINARY.with_name("siltstone-tools")
ODD = "a b/ä+ü%2F&?=~'\"<>.txt"


def run_import(home, *arguments):
    done = subprocess.run(
        [str(TOOLS), "--json", "import", *arguments, "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY,
         "--source-access-key", "key", "--source-secret-key", "secret", "--region", REGION],
        env=clean_environment(home), stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def fill(source):
    source.create_bucket(Bucket="old", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    source.put_bucket_versioning(Bucket="old", VersioningConfiguration={"Status": "Enabled"})
    source.put_object(Bucket="old", Key=ODD, Body=b"first")
    source.delete_object(Bucket="old", Key=ODD)
    source.put_object(
        Bucket="old", Key=ODD, Body=b"second", ContentType="text/x-odd", CacheControl="no-store",
        Metadata={"who": "me"}, Tagging="a%20b=c%2Bd&e=",
    )
    source.put_object(Bucket="old", Key="granted", Body=b"", ACL="public-read")
    upload = source.create_multipart_upload(Bucket="old", Key="film", Metadata={"kind": "film"})["UploadId"]
    parts = []
    for number, body in enumerate([b"x" * (5 << 20), b"y" * (6 << 20), b"z"], 1):
        part = source.upload_part(Bucket="old", Key="film", UploadId=upload, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    source.complete_multipart_upload(
        Bucket="old", Key="film", UploadId=upload, MultipartUpload={"Parts": parts}
    )


def history(client, bucket):
    """The versions and delete markers without ids and times."""
    page = client.list_object_versions(Bucket=bucket)
    versions = [(v["Key"], v["ETag"], v["Size"], v["IsLatest"]) for v in page["Versions"]]
    return versions, [(m["Key"], m["IsLatest"]) for m in page["DeleteMarkers"]]


def test_versions_tags_and_parts_come_from_moto(own_server, tmp_path):
    server = own_server().start()
    target = server.client()
    target.create_bucket(Bucket="new")
    target.put_bucket_versioning(Bucket="new", VersioningConfiguration={"Status": "Enabled"})
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    moto.start()
    try:
        url = "http://{}:{}".format(*moto.get_host_and_port())
        source = boto3.client(
            "s3", endpoint_url=url, region_name="eu-west-1", aws_access_key_id="key", aws_secret_access_key="secret"
        )
        fill(source)
        arguments = ("s3://old", "new", "--endpoint", url, "--server", server.url)
        report = run_import(tmp_path, *arguments)
        assert (report["stored"], report["failed"]) == (3, 0), report["failures"]
        assert history(target, "new") == history(source, "old")
        assert any("grants" in loss["what"] and loss["count"] == 1 for loss in report["not_kept"]), report
        for name in ("ContentType", "CacheControl", "Metadata"):
            assert target.head_object(Bucket="new", Key=ODD)[name] == source.head_object(Bucket="old", Key=ODD)[name]
        tags = [client.get_object_tagging(Bucket=bucket, Key=ODD)["TagSet"]
                for client, bucket in ((source, "old"), (target, "new"))]
        assert tags[0] == tags[1] and len(tags[0]) == 2
        again = run_import(tmp_path, *arguments)
        assert (again["stored"], again["present"], again["failed"]) == (0, 3, 0), again
    finally:
        moto.stop()
