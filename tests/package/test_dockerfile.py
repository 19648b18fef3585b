"""The Dockerfile, built by buildah on a base of this host: its image is that of build.sh. Nothing is compiled: `cargo` of the base gives
the programs that are built."""

import json
import os
import shutil
from pathlib import Path

import pytest

from needs import needs, needs_root
from packages import PACKAGES, ROOT, SOURCES, run
from siltstone import BINARY
from test_release import copy_of_sources

# Stands for cargo: it takes the flags of a build, and lays the programs where that would.
CARGO = """#!/bin/sh
set -eu
while [ $# -gt 0 ]; do
    case $1 in --target) target=$2; shift ;; esac
    shift
done
mkdir -p "target/$target/release"
cp /programs/* "target/$target/release"
"""
RUSTC = """#!/bin/sh
echo "host: $(uname -m)-unknown-linux-gnu"
"""


@pytest.fixture
def buildah(tmp_path):
    needs("buildah", "mmdebstrap")
    needs_root()
    storage = ["buildah", "--root", tmp_path / "images", "--runroot", tmp_path / "run", "--storage-driver", "vfs"]
    yield lambda *arguments: run(*storage, *arguments, cwd=tmp_path)
    run(*storage, "rm", "--all")
    run(*storage, "rmi", "--all", "--force")


def base(tmp_path):
    """A Debian with what build.sh calls, besides a compiler."""
    root = PACKAGES / "builder-root"
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        run("mmdebstrap", "--quiet", "--variant=minbase", "--include=binutils", "bookworm", root)
        (root / "complete").touch()
    added = tmp_path / "added"
    (added / "programs").mkdir(parents=True)
    for name in ("siltstone", "siltstone-tools"):
        shutil.copy(BINARY.with_name(name), added / "programs" / name)
    (added / "usr/local/bin").mkdir(parents=True)
    for name, text in (("cargo", CARGO), ("rustc", RUSTC)):
        path = added / "usr/local/bin" / name
        path.write_text(text)
        path.chmod(0o755)
    return root, added


def test_the_dockerfile_makes_the_image_of_the_packages(image, buildah, tmp_path):
    root, added = base(tmp_path)
    container = buildah("from", "scratch").strip()
    buildah("copy", "--quiet", container, root, "/")
    buildah("copy", "--quiet", container, added, "/")
    buildah("commit", "--quiet", container, "localhost/base")
    context = copy_of_sources(tmp_path / "context")
    shutil.copy(ROOT / ".dockerignore", context)
    (context / "target").mkdir()
    (context / "target/large").write_bytes(b"not in the context")
    buildah(
        "bud", "--isolation", "chroot", "--format", "docker", "--quiet", "--build-arg", "BASE=localhost/base",
        "--tag", "made", "-f", context / "tools/package/Dockerfile", context,
    )
    told = json.loads(buildah("inspect", "--type", "image", "made"))["Docker"]["config"]
    for name in ("Entrypoint", "Cmd", "ExposedPorts", "Volumes", "Healthcheck", "WorkingDir", "User"):
        assert told.get(name) == image.config.get(name), name
    assert "PATH=/bin" in told["Env"]
    made = buildah("from", "made").strip()
    mounted = Path(buildah("mount", made).strip())
    assert listed(mounted, mounted.rglob("*")) == listed(image.root, image.entries)
    assert run(mounted / "bin/siltstone", "--version") == run(BINARY, "--version")


def listed(root, paths):
    """Each entry with its mode, and where it leads."""
    return sorted((str(path.relative_to(root)), path.lstat().st_mode, os.readlink(path) if path.is_symlink() else "") for path in paths)


def test_the_tags_of_the_dockerfile_are_those_of_this_version():
    version = run(BINARY, "--version").split()[1]
    assert f"-t siltstone:{version} ." in (SOURCES / "Dockerfile").read_text()
