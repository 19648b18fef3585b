"""A store on two file systems of different kinds and sizes: killed under load, filled, and drained, against what was acknowledged."""

import os
import re
import subprocess
import time
import urllib.request

import pytest
from siltstone import BINARY, clean_environment
from writers import Writer, read_back

TOOLS = BINARY.with_name("siltstone-tools")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 100 MiB in memory, most of which is kept for the log."""
    place = tmp_path / "ssd"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", place], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def until(condition, told, seconds=90):
    """Waits for a condition that comes in its own time; the bound only ends a test that would never end."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, told()
        time.sleep(0.1)


def moved_bytes(server):
    with urllib.request.urlopen(f"{server.url}/-/metrics") as page:
        return float(re.search(r"^siltstone_fast_disk_moved_bytes_total (\S+)$", page.read().decode(), re.MULTILINE)[1])


def tool(home, *words):
    return subprocess.run([TOOLS, *words], env=clean_environment(home), capture_output=True, text=True)


def test_nothing_that_was_answered_is_lost_on_two_disks(own_server, small_disk, tmp_path):
    options = ["--fast-dir", str(small_disk / "fast"), "--segment-size", "4MiB", "--bucket", "data"]
    server = own_server(*options).start()
    acknowledged = {}
    for _ in range(3):
        writers = [Writer(server, len(acknowledged) + number) for number in range(3)]
        for writer in writers:
            writer.start()
        while sum(len(writer.acknowledged) for writer in writers) < 300:
            assert all(writer.is_alive() for writer in writers), server.log.read_text()[-3000:]
        server.kill()
        for writer in writers:
            acknowledged |= writer.end()
        server.start()
        read_back(server, acknowledged)
    # What is sealed moves, at intervals of its own.
    until(lambda: moved_bytes(server) > 0, server.log.read_text)
    read_back(server, acknowledged)
    server.stop()
    both = ["--data-dir", str(server.data_dir), "--fast-dir", str(small_disk / "fast")]
    verified = tool(tmp_path, *both, "verify")
    assert verified.stdout.endswith("nothing is wrong\n"), verified.stdout + verified.stderr
    drained = tool(tmp_path, *both, "disk", "drain")
    assert drained.returncode == 0, drained.stderr
    assert not [name for _, _, names in os.walk(small_disk) for name in names if name != "LOCK"]
    server.arguments = []
    read_back(server.start(), acknowledged)
