"""The tar file: programs that run anywhere."""

import subprocess
import tarfile

import pytest

from packages import SOURCES, needs, package, run

PROGRAMS = ["siltstone", "siltstone-tools"]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Where the tar file is installed, as its help says."""
    prefix = tmp_path_factory.mktemp("usr-local")
    run("tar", "-xzf", package("*.tar.gz"), "-C", prefix, "--strip-components=1")
    return prefix


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_static_and_says_its_version(prefix, name):
    program = prefix / "bin" / name
    assert "INTERP" not in run("readelf", "--program-headers", "--wide", program)
    assert "NEEDED" not in run("readelf", "--dynamic", "--wide", program)
    loaded = subprocess.run(["ldd", program], capture_output=True, text=True)
    assert "statically linked" in loaded.stdout + loaded.stderr
    # The same name and version as in the name of the file.
    version = run("env", "-i", program, "--version").strip()
    assert package("*.tar.gz").name.startswith(version.replace(f"{name} ", "siltstone-") + "-")
    assert version.startswith(f"{name} ")


def test_nothing_but_programs_can_be_executed_and_the_licence_is_there(prefix):
    with tarfile.open(package("*.tar.gz")) as tar:
        for member in tar:
            is_program = member.name.split("/")[-2:-1] == ["bin"]
            assert member.mode == (0o755 if is_program or member.isdir() else 0o644), member.name
            assert (member.uid, member.gid) == (0, 0)
    assert "Apache License" in (prefix / "share/doc/siltstone/LICENSE").read_text()


def test_a_static_server_finds_a_host_by_its_name(prefix, server):
    """Static programs resolve names by libc's own code, without the host's modules."""
    environment = {"SILTSTONE_ACCESS_KEY": "suite", "SILTSTONE_SECRET_KEY": "suite/secret+key=="}
    told = run(
        prefix / "bin/siltstone-tools", "bench", "--endpoint", f"http://localhost:{server.port}",
        "--duration", "20ms", "--objects", "10", env=environment,
    )
    assert "put" in told


@pytest.mark.parametrize("part, pattern", [("tar", "*.tar.gz"), ("deb", "*.deb")])
def test_the_same_programs_give_the_same_package(part, pattern):
    if part == "deb":
        needs("dpkg-deb")
    before = package(pattern).read_bytes()
    run(SOURCES / "build.sh", part)
    assert package(pattern).read_bytes() == before
