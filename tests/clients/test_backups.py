"""restic and duplicity, unmodified and at their defaults: backups that are checked, brought back and pruned."""

import os

import pytest

import trees
from pages import blocks, replaced
from siltstone import ACCESS_KEY, REGION, SECRET_KEY
from test_other_clients import FILES, installed, keys, run

# A second generation of the tree, without the one and with the other.
REMOVED, ADDED = "empty", "added"


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    trees.write(root, FILES)
    # duplicity compares whole seconds: a directory that changes in the second of its creation would look unchanged.
    os.utime(root, (1_600_000_000, 1_600_000_000))
    return root


def change(tree):
    (tree / REMOVED).unlink()
    (tree / ADDED).write_bytes(b"new")


@pytest.fixture
def restic(server, bucket, tmp_path):
    """A function that runs restic on a repository in a bucket that it has to create."""
    settings = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "RESTIC_PASSWORD": "password",
                "RESTIC_REPOSITORY": f"s3:{server.url}/{bucket}-restic/backups"}
    program = installed("restic")
    return lambda *arguments, **more: run(tmp_path, program, *arguments, **settings, **more)


def restored(restic, snapshot, tree, target):
    restic("restore", snapshot, "--target", target)
    return trees.digests(target / tree.relative_to("/"))


def test_restic_backs_up_checks_restores_and_prunes(restic, s3, bucket, tree, tmp_path):
    restic("init")
    restic("backup", tree)
    first = trees.digests(tree)
    oldest = restic("snapshots", "--compact").stdout.splitlines()[2].split()[0]
    change(tree)
    restic("backup", tree)
    assert "no errors were found" in restic("check", "--read-data").stdout
    assert restored(restic, oldest, tree, tmp_path / "first") == first
    assert restored(restic, "latest", tree, tmp_path / "second") == trees.digests(tree) != first
    restic("forget", "--keep-last", "1", "--prune")
    assert "no errors were found" in restic("check", "--read-data").stdout
    assert restored(restic, "latest", tree, tmp_path / "third") == trees.digests(tree)
    stored = keys(s3, f"{bucket}-restic")
    assert len([key for key in stored if key.startswith("backups/snapshots/")]) == 1
    assert not [key for key in stored if key.startswith("backups/locks/")]


def test_restic_finds_damage_and_refuses_a_second_repository(restic, s3, bucket, tree):
    restic("init")
    assert restic("init", check=False).returncode != 0
    restic("backup", tree)
    packs = s3.list_objects_v2(Bucket=f"{bucket}-restic", Prefix="backups/data/")["Contents"]
    # One of bytes of files: for one of folders restic asks ten times, a minute and a half long.
    pack = max(packs, key=lambda pack: pack["Size"])
    s3.delete_object(Bucket=f"{bucket}-restic", Key=pack["Key"])
    assert restic("check", check=False).returncode != 0


@pytest.fixture
def duplicity(server, tmp_path):
    """A function that runs duplicity, whose part of a backup is 200 MB: larger than the tree."""
    settings = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    options = ["--no-encryption", "--s3-endpoint-url", server.url, "--s3-region-name", REGION,
               "--archive-dir", tmp_path / "archive"]
    program = installed("duplicity")
    return lambda *arguments, **more: run(tmp_path, program, *arguments, *options, **settings, **more)


def test_duplicity_backs_up_what_changed_verifies_and_restores(duplicity, s3, bucket, tree, tmp_path):
    target = f"boto3+s3://{bucket}/backups"
    duplicity("full", tree, target)
    change(tree)
    assert "NewFiles 2" in duplicity("incremental", tree, target).stdout, "the file and its directory"
    duplicity("verify", "--compare-data", target, tree)
    duplicity("restore", target, tmp_path / "back")
    assert trees.digests(tmp_path / "back") == trees.digests(tree)
    assert len([key for key in keys(s3, bucket) if "difftar" in key]) == 2
    duplicity("full", tree, target)
    duplicity("remove-all-but-n-full", "1", "--force", target)
    assert len([key for key in keys(s3, bucket) if "difftar" in key]) == 1


def test_duplicity_takes_the_address_as_the_guide_says(duplicity, server, s3, bucket, tree):
    [line] = blocks("applications", "Backups of files", "sh")
    places = {"duplicity ": "", "http://127.0.0.1:9000": server.url, "documents": tree, "boto3+s3://duplicity/host": f"boto3+s3://{bucket}/host"}
    duplicity(*replaced(line, places).split())
    assert any(key.startswith("host/") for key in keys(s3, bucket))
