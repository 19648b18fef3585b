"""Server-side encryption through unmodified clients, and what the disk and the log have of it."""

import base64
import hashlib
import io
import subprocess

import pytest
import urllib3
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from minio import Minio
from minio.commonconfig import ComposeSource, CopySource
from minio.sse import SseCustomerKey, SseKMS, SseS3
from minio.sseconfig import Rule, SSEConfig

from siltstone import ACCESS_KEY, BINARY, REGION, SECRET_KEY, clean_environment
from test_other_clients import installed, rclone_for
from test_tls import Authority

KEY = b"the key of a customer, 32 bytes."
OTHER = b"another key of that customer, ok"
PLANTED = b"the words that nobody may find on this disk"
SIZES = [0, 1, 65_519, 65_520, 65_521, 65_536, 65_537, 1_000_000]
KINDS = {
    "s3": {"ServerSideEncryption": "AES256"},
    "kms": {"ServerSideEncryption": "aws:kms"},
    "customer": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": KEY},
}


def customer(key=KEY, prefix=""):
    return {f"{prefix}SSECustomerAlgorithm": "AES256", f"{prefix}SSECustomerKey": key}


def reading(kind):
    return KINDS["customer"] if kind == "customer" else {}


def shows(answer, kind):
    if kind == "customer":
        assert answer["SSECustomerAlgorithm"] == "AES256"
        assert answer["SSECustomerKeyMD5"] == base64.b64encode(hashlib.md5(KEY).digest()).decode()
        assert "ServerSideEncryption" not in answer
    else:
        assert answer.get("ServerSideEncryption") == KINDS[kind]["ServerSideEncryption"]


def refusal(call, **arguments):
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("kind", KINDS)
def test_objects_of_all_sizes_come_back(s3, bucket, kind):
    for size in SIZES:
        body = bytes(hashlib.shake_256(str(size).encode()).digest(size))
        shows(s3.put_object(Bucket=bucket, Key="k", Body=body, **KINDS[kind]), kind)
        got = s3.get_object(Bucket=bucket, Key="k", **reading(kind))
        shows(got, kind)
        assert got["Body"].read() == body and got["ContentLength"] == size
        shows(s3.head_object(Bucket=bucket, Key="k", **reading(kind)), kind)
        if size > 65_521:
            part = s3.get_object(Bucket=bucket, Key="k", Range="bytes=65519-65521", **reading(kind))
            assert part["Body"].read() == body[65_519:65_522]


@pytest.mark.parametrize("kind", KINDS)
def test_an_upload_in_parts_comes_back(s3, bucket, tmp_path, kind):
    body = bytes(hashlib.shake_256(b"parts").digest(12_345_678))
    (tmp_path / "file").write_bytes(body)
    in_parts = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
    s3.upload_file(str(tmp_path / "file"), bucket, "k", ExtraArgs=KINDS[kind], Config=in_parts)
    s3.download_file(bucket, "k", str(tmp_path / "back"), ExtraArgs=reading(kind), Config=in_parts)
    assert (tmp_path / "back").read_bytes() == body
    shows(s3.head_object(Bucket=bucket, Key="k", **reading(kind)), kind)


def test_copies_between_all_kinds_come_back(s3, bucket):
    body = bytes(hashlib.shake_256(b"copies").digest(300_001))
    for source in KINDS:
        s3.put_object(Bucket=bucket, Key="source", Body=body, **KINDS[source])
        of_source = customer(prefix="CopySource") if source == "customer" else {}
        for target in KINDS:
            copied = s3.copy_object(
                Bucket=bucket, Key="target", CopySource={"Bucket": bucket, "Key": "source"},
                **of_source, **KINDS[target],
            )
            shows(copied, target)
            assert s3.get_object(Bucket=bucket, Key="target", **reading(target))["Body"].read() == body


def test_a_key_is_asked_for_and_compared(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"secret", **customer())
    assert refusal(s3.get_object, Bucket=bucket, Key="k") == ("InvalidRequest", 400)
    assert refusal(s3.get_object, Bucket=bucket, Key="k", **customer(OTHER)) == ("AccessDenied", 403)
    assert refusal(s3.head_object, Bucket=bucket, Key="k")[1] == 400
    s3.put_object(Bucket=bucket, Key="plain", Body=b"x")
    assert refusal(s3.get_object, Bucket=bucket, Key="plain", **customer()) == ("InvalidRequest", 400)


def test_the_default_of_a_bucket_holds(s3, bucket):
    assert refusal(s3.get_bucket_encryption, Bucket=bucket)[0] == "ServerSideEncryptionConfigurationNotFoundError"
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": False}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    assert s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"] == [rule]
    shows(s3.put_object(Bucket=bucket, Key="k", Body=b"x"), "s3")
    s3.delete_bucket_encryption(Bucket=bucket)
    assert "ServerSideEncryption" not in s3.put_object(Bucket=bucket, Key="k", Body=b"x")


def test_a_bucket_of_terraform_is_encrypted_on_a_fresh_install(own_server, tmp_path):
    """The first start makes a ring, so that `encrypt = true` works at once; the ring outlives a restart."""
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="state")
    s3.put_object(Bucket="state", Key="terraform.tfstate", Body=b"{}", ServerSideEncryption="AES256")
    ring = server.data_dir / "keys.toml"
    assert ring.stat().st_mode & 0o777 == 0o600
    server.stop()
    server.start()
    assert server.client().get_object(Bucket="state", Key="terraform.tfstate")["Body"].read() == b"{}"


def test_without_its_ring_a_store_is_not_damaged(own_server):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="own")
    s3.put_object(Bucket="own", Key="k", Body=b"kept", ServerSideEncryption="AES256")
    server.stop()
    ring = server.data_dir / "keys.toml"
    aside = ring.rename(server.data_dir / "aside.toml")
    server.start()
    s3 = server.client()
    assert not ring.exists(), "no new ring hides that the old one is missing"
    assert refusal(s3.get_object, Bucket="own", Key="k") == ("KMS.NotFoundException", 400)
    assert refusal(s3.put_object, Bucket="own", Key="new", Body=b"x", ServerSideEncryption="AES256") == ("InvalidRequest", 400)
    s3.put_object(Bucket="own", Key="plain", Body=b"x")
    server.stop()
    aside.rename(ring)
    server.start()
    assert server.client().get_object(Bucket="own", Key="k")["Body"].read() == b"kept"


def test_nothing_of_it_is_on_the_disk_or_in_the_log(own_server):
    server = own_server("--log-level", "debug").start()
    s3 = server.client()
    s3.create_bucket(Bucket="own")
    for kind, asked in KINDS.items():
        s3.put_object(Bucket="own", Key=f"{kind}-small", Body=PLANTED, **asked)
        s3.put_object(Bucket="own", Key=f"{kind}-large", Body=PLANTED * 20_000, **asked)
        s3.get_object(Bucket="own", Key=f"{kind}-large", **reading(kind))["Body"].read()
    refusal(s3.get_object, Bucket="own", Key="customer-small", **customer(OTHER))
    server.stop()
    keys = [KEY, OTHER, base64.b64encode(KEY), base64.b64encode(OTHER)]
    ring = (server.data_dir / "keys.toml").read_text()
    secrets = [line.split('"')[1].encode() for line in ring.splitlines() if line.startswith("secret")]
    secrets += [base64.b64decode(secret) for secret in secrets]
    assert len(secrets) == 2
    found = [
        (path.name, what)
        for path in [server.log, *server.data_dir.rglob("*")]
        if path.is_file() and path.name != "keys.toml"
        for what in [PLANTED, *keys, *secrets]
        if what in path.read_bytes()
    ]
    assert found == []


def test_an_export_names_what_is_encrypted_with_the_key_of_a_client(own_server, tmp_path):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="own")
    s3.put_object(Bucket="own", Key="ring", Body=b"kept", ServerSideEncryption="AES256")
    s3.put_object(Bucket="own", Key="own-key", Body=b"not kept", **customer())
    tools = BINARY.with_name("siltstone-tools")
    exported = subprocess.run(
        [str(tools), "export", "s3://own", str(tmp_path / "out"), "--server", server.url, "--access-key", ACCESS_KEY,
         "--secret-key", SECRET_KEY, "--region", REGION],
        env=clean_environment(tmp_path), capture_output=True, text=True, timeout=120,
    )
    assert exported.returncode == 1, exported.stdout + exported.stderr
    failures = [line for line in exported.stdout.splitlines() if line.startswith("failed")]
    assert len(failures) == 1 and "own-key" in failures[0] and "SSE-C" in failures[0], exported.stdout
    assert (tmp_path / "out" / "ring").read_bytes() == b"kept"


def test_the_command_line_sends_each_kind(server, bucket, tmp_path):
    (tmp_path / "file").write_bytes(b"of the command line" * 500_000)
    (tmp_path / "key").write_bytes(KEY)
    kinds = [
        (["--sse", "AES256"], []),
        (["--sse", "aws:kms"], []),
        (["--sse-c", "AES256", "--sse-c-key", f"fileb://{tmp_path}/key"],) * 2,
    ]
    for number, (sending, receiving) in enumerate(kinds):
        place = f"s3://{bucket}/{number}"
        server.aws("s3", "cp", tmp_path / "file", place, *sending, home=tmp_path)
        server.aws("s3", "cp", place, tmp_path / "back", *receiving, home=tmp_path)
        assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()


def test_rclone_keeps_its_own_key(own_server, tmp_path):
    """rclone sends keys over HTTPS alone, and none when it completes an upload."""
    installed("openssl")
    authority = Authority(tmp_path)
    tls = ["--tls-cert", str(authority.certificate), "--tls-key", str(authority.key)]
    server = own_server(*tls, scheme="https").start()
    server.client(verify=str(authority.path)).create_bucket(Bucket="own")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "small").write_bytes(b"a few bytes")
    (tree / "large").write_bytes(bytes(hashlib.shake_256(b"rclone").digest(11_000_000)))
    rclone = rclone_for(server, tmp_path)
    key = ["--ca-cert", str(authority.path), "--s3-sse-customer-algorithm", "AES256", "--s3-sse-customer-key", KEY.decode(),
           "--s3-upload-cutoff", "5M"]
    rclone("copy", str(tree), "s:own/tree", *key)
    rclone("copy", "s:own/tree", str(tmp_path / "back"), *key)
    for name in ["small", "large"]:
        assert (tmp_path / "back" / name).read_bytes() == (tree / name).read_bytes()


def test_minio_py_sends_each_kind(own_server, tmp_path):
    """minio-py sends keys over HTTPS alone: objects whole and in parts, copies between all kinds, and objects made of others."""
    installed("openssl")
    authority = Authority(tmp_path)
    tls = ["--tls-cert", str(authority.certificate), "--tls-key", str(authority.key)]
    server = own_server(*tls, scheme="https").start()
    pool = urllib3.PoolManager(ca_certs=str(authority.path))
    minio = Minio(server.url.removeprefix("https://"), access_key=ACCESS_KEY, secret_key=SECRET_KEY, http_client=pool)
    minio.make_bucket("own")
    large = bytes(hashlib.shake_256(b"minio-py").digest(11_000_000))
    kinds = {"s3": SseS3(), "kms": SseKMS("alias/aws/s3", {"team": "blue"}), "customer": SseCustomerKey(KEY)}

    def read(name, kind, **part):
        key = {"ssec": kinds["customer"]} if kind == "customer" else {}
        return minio.get_object("own", name, **key, **part).data

    for kind, sse in kinds.items():
        for name, body in ((f"{kind}/small", PLANTED), (f"{kind}/large", large)):
            minio.put_object("own", name, io.BytesIO(body), len(body), sse=sse, part_size=5 << 20)
            assert read(name, kind) == body
        assert read(f"{kind}/large", kind, offset=65_519, length=3) == large[65_519:65_522]
    for kind in kinds:
        key = {"ssec": kinds["customer"]} if kind == "customer" else {}
        for target, sse in kinds.items():
            minio.copy_object("own", "copy", CopySource("own", f"{kind}/large", **key), sse=sse)
            assert read("copy", target) == large
            sources = [ComposeSource("own", f"{kind}/large", **key) for _ in range(2)]
            minio.compose_object("own", "composed", sources, sse=sse)
            assert read("composed", target) == large + large
    minio.set_bucket_encryption("own", SSEConfig(Rule.new_sse_s3_rule()))
    assert minio.get_bucket_encryption("own").rule.sse_algorithm == "AES256"
    minio.delete_bucket_encryption("own")
    assert minio.get_bucket_encryption("own") is None
