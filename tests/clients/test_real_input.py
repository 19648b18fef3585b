"""The sources of all that the server is built from on Linux, as a load: thousands of files in deep folders, sent by
`aws s3 sync` to a server that is killed half way and again at the end."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

import odd_keys
import trees
from siltstone import IS_LONG, ROOT, VENV_BIN


# Vendored, since the lock file names them, and built on other systems alone: half of all files.
OTHER_SYSTEMS = ("winapi*", "windows*", "web-sys*")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    root = tmp_path_factory.mktemp("vendor") / "sources"
    command = ["cargo", "vendor", "--quiet", "--locked", "--manifest-path", str(ROOT / "Cargo.toml"), str(root)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for crate in (crate for pattern in OTHER_SYSTEMS for crate in root.glob(pattern)):
        shutil.rmtree(crate)
    if not IS_LONG:
        thin_out(root)
    trees.write(root / "odd", {name: name.encode() for name in odd_keys.FILE_NAMES})
    return root


def thin_out(root):
    """Leaves every seventh crate, small ones and large ones, and further ones up to some more than a thousand files."""
    crates = sorted(root.iterdir())
    files = 0
    for crate in [crate for first in range(7) for crate in crates[first::7]]:
        if files > 1000:
            shutil.rmtree(crate)
        else:
            files += sum(path.is_file() for path in crate.rglob("*"))


def count(client, bucket):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return sum(page["KeyCount"] for page in pages)


def sync_until_killed(server, sources, objects, home):
    """Starts a sync and kills the server as soon as it holds that many objects."""
    command = [VENV_BIN / "aws", "s3", "sync", "--only-show-errors", sources, "s3://sources"]
    client = server.client()
    with open(Path(home) / "sync.log", "wb") as log:
        sync = subprocess.Popen(
            command, env=server.aws_environment(home), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    while (held := count(client, "sources")) < objects:
        assert sync.poll() is None, f"the sync ended at {held} objects"
        time.sleep(0.01)
    server.kill()
    assert sync.poll() is None, "the sync was still running"
    sync.terminate()
    sync.wait(60)
    return held


def test_a_source_tree_survives_two_kills(own_server, sources, tmp_path):
    expected = trees.digests(sources)
    assert len(expected) > 1000
    server = own_server().start()
    server.client().create_bucket(Bucket="sources")

    held = sync_until_killed(server, sources, len(expected) // 2, tmp_path)
    server.start()
    assert held <= count(server.client(), "sources") < len(expected)

    server.aws("s3", "sync", "--only-show-errors", sources, "s3://sources", home=tmp_path)
    server.kill()
    server.start()
    assert count(server.client(), "sources") == len(expected)
    assert server.aws("s3", "sync", sources, "s3://sources", home=tmp_path).stdout == "", "nothing was left to send"

    back = tmp_path / "back"
    server.aws("s3", "sync", "--only-show-errors", "s3://sources", back, home=tmp_path)
    assert trees.digests(back) == expected

    listed = server.aws("s3", "ls", "--recursive", "s3://sources", home=tmp_path).stdout
    assert listed.count("\n") == len(expected) + sum(name.count("\n") for name in odd_keys.FILE_NAMES)
    server.aws("s3", "rm", "--only-show-errors", "--recursive", "s3://sources", home=tmp_path)
    assert count(server.client(), "sources") == 0
    server.aws("s3", "rb", "s3://sources", home=tmp_path)
    server.kill()
    server.start()
    assert server.client().list_buckets()["Buckets"] == []
    server.stop()
