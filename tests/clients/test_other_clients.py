"""rclone and s3cmd, unmodified, with trees that hold a file above the size from which they send in parts."""

import hashlib
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

import trees
from siltstone import ACCESS_KEY, REGION, SECRET_KEY, clean_environment

FILES = {
    "readme.txt": b"hello\n",
    "empty": b"",
    "deep/er/and/deep/er/file": b"deep",
    "with space/and+plus & more.txt": b"odd",
    "grün/Straße.txt": "größer".encode(),
    "large": hashlib.shake_256(b"large").digest(12_000_000),
}
PARTS_OF_LARGE = 3


def installed(name):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed (apt-get install {name})")
    return name


def run(home, *command, check=True, **more):
    """The finished client, with what it said as text; one that hangs is ended."""
    done = subprocess.run(
        [str(word) for word in command], env=clean_environment(home, LC_ALL="C.UTF-8", **more),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
    )
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture
def rclone(server, tmp_path):
    return rclone_for(server, tmp_path)


def rclone_for(server, tmp_path):
    """What runs rclone, which knows the server as the remote `s:`."""
    settings = {"TYPE": "s3", "PROVIDER": "Other", "ENDPOINT": server.url, "REGION": REGION,
                "ACCESS_KEY_ID": ACCESS_KEY, "SECRET_ACCESS_KEY": SECRET_KEY}
    environment = {f"RCLONE_CONFIG_S_{name}": value for name, value in settings.items()}
    options = ["--config", tmp_path / "none", "--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M", "--retries", "1"]
    program = installed("rclone")
    return lambda *arguments, **more: run(tmp_path, program, *options, *arguments, **environment, **more)


@pytest.fixture
def s3cmd(server, tmp_path):
    return s3cmd_for(server, tmp_path)


def s3cmd_for(server, tmp_path):
    config = tmp_path / "s3cfg"
    address = server.url.removeprefix("http://")
    config.write_text(
        f"[default]\naccess_key = {ACCESS_KEY}\nsecret_key = {SECRET_KEY}\nhost_base = {address}\n"
        f"host_bucket = {address}\nbucket_location = {REGION}\nuse_https = False\n"
    )
    options = ["--config", config, "--multipart-chunk-size-mb=5", "--no-progress"]
    program = installed("s3cmd")
    return lambda *arguments, **more: run(tmp_path, program, *options, *arguments, **more)


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    trees.write(root, FILES)
    return root


def change(tree):
    (tree / "empty").unlink()
    (tree / "readme.txt").write_bytes(b"another length\n")


def keys(s3, bucket):
    return sorted(item["Key"] for item in s3.list_objects_v2(Bucket=bucket).get("Contents", []))


def assert_in_parts(s3, bucket, key):
    head = s3.head_object(Bucket=bucket, Key=key)
    assert (head["ContentLength"], head["ETag"][-3:]) == (len(FILES["large"]), f'-{PARTS_OF_LARGE}"')


def test_rclone_copies_a_tree_checks_it_and_brings_it_back(rclone, s3, bucket, tree, tmp_path):
    rclone("copy", tree, f"s:{bucket}/tree")
    assert keys(s3, bucket) == sorted(f"tree/{name}" for name in FILES)
    assert_in_parts(s3, bucket, "tree/large")
    assert f"{len(FILES)} matching files" in rclone("check", tree, f"s:{bucket}/tree").stderr
    assert f"{len(FILES)} matching files" in rclone("check", "--download", tree, f"s:{bucket}/tree").stderr
    rclone("copy", f"s:{bucket}/tree", tmp_path / "back")
    assert trees.digests(tmp_path / "back") == trees.digests(tree)


def test_rclone_synchronises_what_changed(rclone, s3, bucket, tree):
    rclone("sync", tree, f"s:{bucket}")
    unchanged = rclone("sync", "-v", tree, f"s:{bucket}").stderr
    assert "There was nothing to transfer" in unchanged
    change(tree)
    rclone("sync", tree, f"s:{bucket}")
    rclone("check", tree, f"s:{bucket}")
    assert keys(s3, bucket) == sorted(set(FILES) - {"empty"})


def test_rclone_copies_on_the_server_moves_and_removes(rclone, s3, bucket, tree):
    rclone("mkdir", f"s:{bucket}-2")
    rclone("copy", tree, f"s:{bucket}")
    rclone("copy", "--s3-copy-cutoff", "5M", f"s:{bucket}", f"s:{bucket}-2/copy")
    rclone("check", "--download", f"s:{bucket}", f"s:{bucket}-2/copy")
    assert_in_parts(s3, f"{bucket}-2", "copy/large")
    rclone("moveto", f"s:{bucket}-2/copy/large", f"s:{bucket}-2/moved")
    assert rclone("lsf", f"s:{bucket}-2").stdout == "copy/\nmoved\n"
    assert rclone("cat", f"s:{bucket}/with space/and+plus & more.txt").stdout == "odd"
    rclone("delete", f"s:{bucket}")
    assert keys(s3, bucket) == []
    rclone("purge", f"s:{bucket}-2")
    assert f"{bucket}-2/" not in rclone("lsf", "s:").stdout


def test_s3cmd_puts_gets_and_removes(s3cmd, s3, bucket, tree, tmp_path):
    s3cmd("mb", f"s3://{bucket}-2")
    s3cmd("put", tree / "large", tree / "with space/and+plus & more.txt", f"s3://{bucket}-2/some where/")
    assert keys(s3, f"{bucket}-2") == ["some where/and+plus & more.txt", "some where/large"]
    assert_in_parts(s3, f"{bucket}-2", "some where/large")
    s3cmd("get", f"s3://{bucket}-2/some where/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == FILES["large"]
    assert "12000000" in s3cmd("info", f"s3://{bucket}-2/some where/large").stdout
    s3cmd("cp", f"s3://{bucket}-2/some where/and+plus & more.txt", f"s3://{bucket}-2/copy")
    s3cmd("mv", f"s3://{bucket}-2/copy", f"s3://{bucket}-2/moved")
    s3cmd("del", f"s3://{bucket}-2/some where/large")
    assert keys(s3, f"{bucket}-2") == ["moved", "some where/and+plus & more.txt"]
    s3.put_object(Bucket=f"{bucket}-2", Key="a b", Body=b"space")
    s3.put_object(Bucket=f"{bucket}-2", Key="a+b", Body=b"plus")
    for key, body in (("a b", b"space"), ("a+b", b"plus")):
        s3cmd("cp", f"s3://{bucket}-2/{key}", f"s3://{bucket}-2/copied")
        assert s3.get_object(Bucket=f"{bucket}-2", Key="copied")["Body"].read() == body
    told = s3cmd("info", f"s3://{bucket}-2").stdout
    assert "Payer:     BucketOwner" in told and "Location:  eu" in told, told
    s3cmd("rb", "--recursive", f"s3://{bucket}-2")
    assert f"{bucket}-2" not in s3cmd("ls").stdout


def test_s3cmd_synchronises_a_tree_both_ways(s3cmd, s3, bucket, tree, tmp_path):
    s3cmd("sync", f"{tree}/", f"s3://{bucket}/tree/")
    assert keys(s3, bucket) == sorted(f"tree/{name}" for name in FILES)
    assert s3cmd("sync", f"{tree}/", f"s3://{bucket}/tree/").stdout == "", "nothing had changed"
    back = tmp_path / "back"
    back.mkdir()
    s3cmd("sync", f"s3://{bucket}/tree/", f"{back}/")
    assert trees.digests(back) == trees.digests(tree)
    change(tree)
    s3cmd("sync", "--delete-removed", f"{tree}/", f"s3://{bucket}/tree/")
    s3cmd("sync", "--delete-removed", f"s3://{bucket}/tree/", f"{back}/")
    assert trees.digests(back) == trees.digests(tree)
    s3cmd("del", "--recursive", "--force", f"s3://{bucket}")
    assert keys(s3, bucket) == []


def test_s3cmd_gives_an_upload_up(s3cmd, s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"part")
    assert upload in s3cmd("multipart", f"s3://{bucket}").stdout
    assert "4" in s3cmd("listmp", f"s3://{bucket}/k", upload).stdout
    s3cmd("abortmp", f"s3://{bucket}/k", upload)
    assert upload not in s3cmd("multipart", f"s3://{bucket}").stdout


def test_s3cmd_signs_addresses(s3cmd, s3, bucket):
    """It does so by signature version 2."""
    s3.put_object(Bucket=bucket, Key="some where/a+b", Body=b"signed")
    address = s3cmd("signurl", f"s3://{bucket}/some where/a+b", "+3600").stdout.strip()
    assert "AWSAccessKeyId=" in address
    assert urllib.request.urlopen(address).read() == b"signed"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(address.replace("a%2Bb", "another"))
    assert refused.value.code == 403


def test_clients_that_compare_md5s_get_along_with_tags_that_are_none(own_server, tree, tmp_path):
    """`--etag crc`: puts in one piece have no MD5 for an ETag."""
    server = own_server("--etag", "crc").start()
    s3, rclone, s3cmd = server.client(), rclone_for(server, tmp_path), s3cmd_for(server, tmp_path)
    s3.create_bucket(Bucket="tagged")
    rclone("copy", tree, "s:tagged/rclone")
    rclone("check", "--download", tree, "s:tagged/rclone")
    s3cmd("sync", f"{tree}/", "s3://tagged/s3cmd/")
    back = tmp_path / "back"
    back.mkdir()
    s3cmd("sync", "s3://tagged/s3cmd/", f"{back}/")
    assert trees.digests(back) == trees.digests(tree)
    for client in ("rclone", "s3cmd"):
        assert s3.head_object(Bucket="tagged", Key=f"{client}/readme.txt")["ETag"] == '"363a3020-1"'
        assert_in_parts(s3, "tagged", f"{client}/large")
