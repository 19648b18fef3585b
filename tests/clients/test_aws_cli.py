"""The aws command line, unmodified, with nothing but an endpoint, keys and a region in its environment."""

import json
import urllib.request

import pytest

import trees

FILES = {
    "readme.txt": b"hello\n",
    "empty": b"",
    "deep/er/and/deep/er/file": b"deep",
    "with space/and+plus & more.txt": b"odd",
    "grün/Straße.txt": "größer".encode(),
    "a/b": b"1",
    "a/b.txt": b"2",
    "megabytes": b"0123456789abcdef" * 400_000,
}


@pytest.fixture
def aws(server, tmp_path):
    return lambda *arguments, **more: server.aws(*arguments, home=tmp_path, **more)


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    trees.write(root, FILES)
    return root


def test_a_bucket_is_made_listed_and_removed(aws):
    assert "make_bucket: cli-bucket" in aws("s3", "mb", "s3://cli-bucket").stdout
    assert "cli-bucket" in aws("s3", "ls").stdout
    assert "remove_bucket: cli-bucket" in aws("s3", "rb", "s3://cli-bucket").stdout
    assert "cli-bucket" not in aws("s3", "ls").stdout


def test_a_file_goes_up_and_comes_down(aws, bucket, tree, tmp_path):
    aws("s3", "cp", tree / "megabytes", f"s3://{bucket}/some/where")
    aws("s3", "cp", f"s3://{bucket}/some/where", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == FILES["megabytes"]
    assert aws("s3", "cp", f"s3://{bucket}/some/where", "-").stdout.encode() == FILES["megabytes"]
    assert "PRE some/" in aws("s3", "ls", f"s3://{bucket}").stdout
    assert "6400000 where" in aws("s3", "ls", f"s3://{bucket}/some/").stdout


def test_a_tree_is_synchronised_both_ways(aws, bucket, tree, tmp_path):
    aws("s3", "sync", tree, f"s3://{bucket}/tree")
    assert aws("s3", "sync", tree, f"s3://{bucket}/tree").stdout == "", "nothing had changed"
    back = tmp_path / "back"
    aws("s3", "sync", f"s3://{bucket}/tree", back)
    assert trees.digests(back) == trees.digests(tree)
    (tree / "empty").unlink()
    (tree / "readme.txt").write_bytes(b"another length\n")
    told = aws("s3", "sync", "--no-progress", "--delete", tree, f"s3://{bucket}/tree").stdout
    assert sorted(line.split(":")[0] for line in told.splitlines()) == ["delete", "upload"]
    aws("s3", "sync", "--delete", f"s3://{bucket}/tree", back)
    assert trees.digests(back) == trees.digests(tree)


def test_objects_are_copied_and_moved(aws, bucket, tree):
    aws("s3", "cp", tree / "readme.txt", f"s3://{bucket}/with space/k+1")
    aws("s3", "cp", f"s3://{bucket}/with space/k+1", f"s3://{bucket}/copy")
    aws("s3", "mv", f"s3://{bucket}/copy", f"s3://{bucket}/moved")
    assert aws("s3", "cp", f"s3://{bucket}/moved", "-").stdout.encode() == FILES["readme.txt"]
    listed = aws("s3", "ls", "--recursive", f"s3://{bucket}").stdout
    assert [line.split(maxsplit=3)[3] for line in listed.splitlines()] == ["moved", "with space/k+1"]


def test_files_follow_each_other_on_one_connection(aws, bucket, tmp_path):
    """The client waits to be asked for a file, even for an empty one. Where it was not asked, it misreads the response
    to the next file on that connection, and waits for a minute."""
    (tmp_path / "aws-config").write_text("[default]\nmax_attempts = 1\ns3 =\n  max_concurrent_requests = 1\n")
    trees.write(tmp_path / "tree", {"1": b"", "2": b"x", "3": b"", "4": b"", "5": b"x" * 100_000})
    aws("s3", "cp", "--recursive", "--cli-read-timeout", "10", tmp_path / "tree", f"s3://{bucket}")


def test_everything_is_removed(aws, bucket, tree):
    aws("s3", "cp", "--recursive", tree, f"s3://{bucket}")
    summary = aws("s3", "ls", "--recursive", "--summarize", f"s3://{bucket}").stdout
    assert f"Total Objects: {len(FILES)}" in summary
    assert aws("s3", "rb", f"s3://{bucket}", check=False).returncode != 0
    aws("s3", "rm", "--recursive", f"s3://{bucket}")
    assert aws("s3", "ls", "--recursive", f"s3://{bucket}").stdout == ""
    aws("s3", "rb", f"s3://{bucket}")


def test_a_bucket_is_removed_by_force(aws, bucket, tree):
    aws("s3", "cp", "--recursive", tree, f"s3://{bucket}")
    aws("s3", "rb", "--force", f"s3://{bucket}")
    assert bucket not in aws("s3", "ls").stdout


def test_a_presigned_url_is_good_for_anyone(aws, bucket, tree):
    aws("s3", "cp", tree / "readme.txt", f"s3://{bucket}/with space/k+1")
    url = aws("s3", "presign", f"s3://{bucket}/with space/k+1", "--expires-in", "60").stdout.strip()
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == FILES["readme.txt"]


def test_the_calls_of_s3api_work(aws, bucket, tree, tmp_path):
    def api(*arguments):
        output = aws("s3api", *arguments, "--bucket", bucket).stdout
        return json.loads(output) if output else None

    put = api("put-object", "--key", "k", "--body", tree / "readme.txt", "--metadata", "a=1,b=2",
              "--content-type", "text/plain")
    head = api("head-object", "--key", "k", "--checksum-mode", "ENABLED")
    assert (head["ETag"], head["ContentLength"], head["ContentType"]) == (put["ETag"], 6, "text/plain")
    assert head["Metadata"] == {"a": "1", "b": "2"}
    assert head["ChecksumCRC32"] == put["ChecksumCRC32"]
    got = api("get-object", "--key", "k", "--range", "bytes=1-3", tmp_path / "part")
    assert got["ContentRange"] == "bytes 1-3/6"
    assert (tmp_path / "part").read_bytes() == b"ell"
    listed = api("list-objects-v2", "--prefix", "k")
    assert [item["Key"] for item in listed["Contents"]] == ["k"]
    assert api("get-bucket-location") == {"LocationConstraint": "eu"}
    deleted = api("delete-objects", "--delete", json.dumps({"Objects": [{"Key": "k"}, {"Key": "absent"}]}))
    assert [item["Key"] for item in deleted["Deleted"]] == ["k", "absent"]
    api("delete-bucket")
    refused = aws("s3api", "head-bucket", "--bucket", bucket, check=False)
    assert refused.returncode != 0 and "404" in refused.stderr


def test_a_deleted_object_is_restored_from_its_version(aws, bucket, tree):
    def api(*arguments):
        output = aws("s3api", *arguments, "--bucket", bucket).stdout
        return json.loads(output) if output else None

    api("put-bucket-versioning", "--versioning-configuration", "Status=Enabled")
    aws("s3", "cp", tree / "readme.txt", f"s3://{bucket}/a b/k+1")
    aws("s3", "rm", f"s3://{bucket}/a b/k+1")
    assert aws("s3", "cp", f"s3://{bucket}/a b/k+1", "-", check=False).returncode != 0
    listed = api("list-object-versions", "--prefix", "a b/")
    assert [marker["IsLatest"] for marker in listed["DeleteMarkers"]] == [True]
    version = listed["Versions"][0]["VersionId"]
    source = f"{bucket}/a b/k+1?versionId={version}"
    assert api("copy-object", "--key", "a b/k+1", "--copy-source", source)["CopySourceVersionId"] == version
    assert aws("s3", "cp", f"s3://{bucket}/a b/k+1", "-").stdout.encode() == FILES["readme.txt"]
