"""A small disk that is full: everything can be deleted, room comes back, and nobody restarts the server.

SILTSTONE_SPACE_KEYS says with how many keys (1000), SILTSTONE_SPACE_MIB how large the disk is (400)."""

import os
import shutil
import subprocess
import time
from collections import Counter

import pytest

from flood import allow_anybody, delete, flood, put
from siltstone import Server

KEYS = [int(n) for n in os.environ.get("SILTSTONE_SPACE_KEYS", "1000").split(",")]
DISK_MIB = int(os.environ.get("SILTSTONE_SPACE_MIB", "400"))
# The longest wait for room.
SECONDS_MAX = 120


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", disk], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize("mib, is_small", [(80, True), (DISK_MIB, False)])
def test_a_disk_that_is_mostly_reserve_is_told_at_the_start(tmp_path, mib, is_small):
    """Below the reserve no put succeeds, so the log tells of it at the start."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("only root can mount a small disk")
    server = Server(disk / "data")
    try:
        server.start()
        warned = f"the file system has {mib}.0 MiB in all, of which 64.0 MiB stay free" in server.log.read_text()
        assert warned == is_small, server.log.read_text()
    finally:
        server.kill()
        subprocess.run(["umount", "-l", disk], check=True)


def fill(server, round, count, body):
    """Puts until the disk is full, at most `count`; gives the numbers of those that were acknowledged."""
    found = flood(server.port, count, lambda n: put(f"keys/{round}/{n:07}", body), until=507)
    assert set(found.values()) <= {200, 507}, Counter(found.values())
    return sorted(n for n, status in found.items() if status == 200)


@pytest.mark.parametrize("keys", KEYS)
def test_all_keys_can_be_deleted_from_a_full_disk_and_then_it_takes_as_many_again(small_disk, keys):
    server = Server(small_disk / "data")
    allow_anybody(server)
    server.start()
    try:
        server.client().create_bucket(Bucket="keys")
        # What is kept free at the least, and what a small object costs beside its bytes, which is made up for below.
        body = bytes(max(0, (DISK_MIB - 64 << 20) // keys - 600))
        start = time.monotonic()
        first = fill(server, "first", 4 * keys, body)
        filled = time.monotonic()
        free = shutil.disk_usage(small_disk).free
        print(f"{keys} keys wanted, {len(first)} of {len(body)} bytes put until 507 in {filled - start:.0f} s, {free >> 20} MiB free")
        found = flood(server.port, len(first), lambda n: delete(f"keys/first/{first[n]:07}"))
        assert Counter(found.values()) == {204: len(first)}, Counter(found.values())
        deleted = time.monotonic()
        print(f"all deleted in {deleted - filled:.0f} s, {shutil.disk_usage(small_disk).free >> 20} MiB free")
        again, rounds, progressed = [], 0, deleted
        while len(again) < len(first) * 9 // 10:
            rounds += 1
            put_now = fill(server, f"again-{rounds}", len(first) - len(again), body)
            again += put_now
            if put_now:
                progressed = time.monotonic()
            assert time.monotonic() - progressed < SECONDS_MAX, f"only {len(again)} could be put again"
            time.sleep(0.2)
        print(f"{len(again)} put again after {time.monotonic() - deleted:.0f} s, in {rounds} attempts")
        log = server.log.read_text()
        assert "panicked" not in log and server.is_running(), log
    finally:
        server.kill()
