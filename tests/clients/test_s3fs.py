"""s3fs-fuse, unmodified: a bucket mounted as a directory. It needs /dev/fuse, which containers often lack."""

import base64
import contextlib
import os
import shutil
import subprocess
import time

import pytest

import trees
from siltstone import ACCESS_KEY, REGION, SECRET_KEY, clean_environment
from test_other_clients import FILES, installed, keys

MOUNT_SECONDS_MAX = 60


def can_mount():
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError:
        return False
    return shutil.which("fusermount") is not None


@pytest.fixture
def mounted(server, bucket, tmp_path):
    with mounted_with(server, bucket, tmp_path) as place:
        yield place


@contextlib.contextmanager
def mounted_with(server, bucket, tmp_path, *more):
    """The bucket as a directory. s3fs names buckets in the host by default, which needs DNS: the option lets it use paths."""
    program = installed("s3fs")
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount is missing")
    place, secret, log = tmp_path / "mounted", tmp_path / "secret", tmp_path / "log"
    place.mkdir(exist_ok=True)
    secret.write_text(f"{ACCESS_KEY}:{SECRET_KEY}")
    secret.chmod(0o600)
    options = ",".join([f"passwd_file={secret},url={server.url},endpoint={REGION},use_path_request_style", *more])
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [program, bucket, str(place), "-f", "-o", options],
            env=clean_environment(tmp_path), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )
    try:
        wait_until_mounted(place, process, log)
        yield place
    finally:
        subprocess.run(["fusermount", "-u", "-z", str(place)], capture_output=True)
        process.terminate()
        process.wait(MOUNT_SECONDS_MAX)


def wait_until_mounted(place, process, log):
    end = time.monotonic() + MOUNT_SECONDS_MAX
    while not os.path.ismount(place):
        assert process.poll() is None and time.monotonic() < end, log.read_text()
        time.sleep(0.05)


def test_s3fs_keeps_a_tree(mounted, s3, bucket, tmp_path):
    trees.write(tmp_path / "tree", FILES)
    shutil.copytree(tmp_path / "tree", mounted / "tree")
    stored = [key for key in keys(s3, bucket) if not key.endswith("/")]
    assert stored == sorted(f"tree/{name}" for name in FILES)
    s3.put_object(Bucket=bucket, Key="from elsewhere", Body=b"elsewhere")
    assert (mounted / "from elsewhere").read_bytes() == b"elsewhere"
    assert trees.digests(mounted / "tree") == trees.digests(tmp_path / "tree")


def test_s3fs_appends_renames_and_removes(mounted, s3, bucket):
    (mounted / "one").write_bytes(b"one")
    with open(mounted / "one", "ab") as file:
        file.write(b", two")
    assert s3.get_object(Bucket=bucket, Key="one")["Body"].read() == b"one, two"
    (mounted / "one").rename(mounted / "two")
    (mounted / "two").chmod(0o640)
    assert (mounted / "two").stat().st_mode & 0o777 == 0o640
    assert keys(s3, bucket) == ["two"]
    (mounted / "folder").mkdir()
    assert sorted(os.listdir(mounted)) == ["folder", "two"]
    (mounted / "two").unlink()
    (mounted / "folder").rmdir()
    assert keys(s3, bucket) == []


KEY = b"the key of a customer, 32 bytes."
CUSTOMER = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": KEY}


@pytest.mark.parametrize("kind", ["s3", "kms", "customer"])
def test_s3fs_encrypts_as_it_is_told(server, s3, bucket, tmp_path, kind):
    """Files whole and in parts, a change of the metadata, which is a copy onto itself, and a rename. Its mixed uploads, and its copies in
    parts from 512 MiB on, ask for no encryption, anywhere."""
    keys_file = tmp_path / "customer.keys"
    keys_file.write_text(base64.b64encode(KEY).decode() + "\n")
    keys_file.chmod(0o600)
    # The ring's current key by the alias that S3 has for it.
    options = {"s3": ["use_sse"], "kms": ["use_sse=kmsid:alias/aws/s3"], "customer": [f"use_sse=custom:{keys_file}"]}[kind]
    reading = CUSTOMER if kind == "customer" else {}
    shown = {"s3": "AES256", "kms": "aws:kms", "customer": None}[kind]
    large = FILES["large"]
    with mounted_with(server, bucket, tmp_path, *options, "multipart_size=5", "nomixupload") as place:
        (place / "small").write_bytes(b"a few bytes")
        (place / "large").write_bytes(large)
        (place / "large").chmod(0o640)
        (place / "large").rename(place / "moved")
        assert (place / "moved").stat().st_mode & 0o777 == 0o640
    with mounted_with(server, bucket, tmp_path, *options) as place:
        assert (place / "small").read_bytes() == b"a few bytes"
        assert (place / "moved").read_bytes() == large
    for key in ("small", "moved"):
        head = s3.head_object(Bucket=bucket, Key=key, **reading)
        assert head.get("ServerSideEncryption") == shown and ("SSECustomerAlgorithm" in head) == (kind == "customer")
