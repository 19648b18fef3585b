"""Whatever is asked of it, the server stays within its memory: what does not fit is refused, and what is accepted is right."""

import resource
import shutil
import tempfile
from pathlib import Path

import pytest

import siege
from siege import MIB, Siege
from siltstone import Server

CEILING_MIB = 64
KEYS = 100_000
# A file system without a disk, on Linux.
MEMORY = Path("/dev/shm")
SECONDS = 20


@pytest.fixture(autouse=True)
def descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def peak_bytes(server):
    """The most memory that the process has had."""
    with open(f"/proc/{server.process.pid}/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory):
    """A stopped server with many objects. They are put in memory, where no put waits for a disk."""
    home = tmp_path_factory.mktemp("filled")
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else home) as quick:
        yield fill(Path(quick))


def fill(home):
    users = home / "users.toml"
    users.write_text(siege.ANYTHING)
    common = ["--users", str(users), "--log-level", "warn"]
    server = Server(home / "data", *common, "--memory-max", f"{CEILING_MIB}MiB").start()
    server.client().create_bucket(Bucket=siege.BUCKET.strip("/"))
    siege.fill(server.port, KEYS)
    server.stop()
    server.arguments = common
    return server


@pytest.fixture
def filled(own_server, filled_once):
    """A server on a copy of that data directory."""
    server = own_server(*filled_once.arguments)
    shutil.copytree(filled_once.data_dir, server.data_dir)
    return server


def besiege(server, *arguments):
    """The most memory beside the index, and what was answered."""
    common = list(server.arguments)
    server.arguments += arguments
    server.start()
    load = Siege(server.port, SECONDS)
    load.run()
    load.check_served()
    load.check_kept()
    told = siege.pages(server.port)
    beside = peak_bytes(server) - told["siltstone_memory_index_bytes"]
    print(f"{' '.join(arguments)}: {beside / MIB:.1f} MiB beside {told['siltstone_memory_index_bytes'] / MIB:.1f} of the index")
    print(f"  refused: {told['siltstone_memory_refused_total']:.0f}, {dict(sorted(load.answers.items()))}")
    server.stop()
    server.arguments = common
    return beside, load.answers, told


def test_a_siege_stays_within_the_ceiling(filled):
    beside, answers, told = besiege(filled, "--memory-max", f"{CEILING_MIB}MiB")
    assert told["siltstone_memory_max_bytes"] == CEILING_MIB * MIB
    assert beside <= CEILING_MIB * MIB
    refused = sum(count for (_, status), count in answers.items() if status == 503)
    assert told["siltstone_memory_refused_total"] > 0 and refused > 0


def test_the_same_siege_takes_more_where_it_may(filled):
    """What keeps the server small is the ceiling, not the siege."""
    beside, _, _ = besiege(filled, "--memory-max", "1GiB")
    assert beside > CEILING_MIB * MIB
