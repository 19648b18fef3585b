"""A mirror on two file systems of different kinds and sizes, of which one fails under load with real errors of its disk."""

import re
import subprocess
import time
import urllib.request

import pytest
from needs import needs, needs_root
from siltstone import BINARY, clean_environment
from writers import Writer, read_back

TOOLS = BINARY.with_name("siltstone-tools")


def command(*words, check=True):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=check)


class Disk:
    """A file system on a device whose bytes are in a smaller one, in memory: once that is full, writes fail with EIO."""

    def __init__(self, home):
        self.home, self.store, self.place = home, home / "backing", home / "disk"
        self.image = self.store / "image"
        self.store.mkdir(parents=True)
        self.place.mkdir()
        mounted = command("mount", "-t", "tmpfs", "-o", "size=700m", "tmpfs", self.store, check=False)
        if mounted.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {mounted.stderr}")
        command("truncate", "-s", "600M", self.image)
        command("mkfs.ext4", "-q", self.image)
        self.mount()

    def mount(self):
        mounted = command("mount", "-o", "loop", self.image, self.place, check=False)
        if mounted.returncode != 0:
            self.close()
            pytest.skip(f"no device can be made here: {mounted.stderr}")

    def fail(self):
        """Has every write to bytes that were never written fail."""
        used = int(command("du", "-m", self.store).stdout.split()[0])
        command("mount", "-o", f"remount,size={used + 1}m", self.store)

    def take_out(self):
        command("umount", "-l", self.place, check=False)

    def mend(self):
        command("mount", "-o", "remount,size=700m", self.store)
        command("e2fsck", "-fy", self.image, check=False)
        self.mount()

    def close(self):
        self.take_out()
        command("umount", "-l", self.store, check=False)


@pytest.fixture
def disk(tmp_path):
    needs_root()
    needs("mkfs.ext4", "losetup")
    disk = Disk(tmp_path / "second")
    yield disk
    disk.close()


def metric(server, name):
    with urllib.request.urlopen(f"{server.url}/-/metrics") as page:
        return float(re.search(rf"^{name} (\S+)$", page.read().decode(), re.MULTILINE)[1])


def until(condition, told, seconds=90):
    """Waits for a condition that comes in its own time; the bound only ends a test that would never end."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, told()
        time.sleep(0.1)


def is_degraded(server):
    return metric(server, "siltstone_disk_degraded") == 1


def written(server, first_number, until_then):
    """What three clients were answered until a condition holds, and some more objects after it."""
    writers = [Writer(server, first_number + number) for number in range(3)]
    for writer in writers:
        writer.start()
    until(until_then, server.log.read_text)
    counts = [len(writer.acknowledged) for writer in writers]
    until(lambda: all(len(w.acknowledged) > n + 5 for w, n in zip(writers, counts, strict=True)), server.log.read_text)
    acknowledged = {}
    for writer in writers:
        acknowledged |= writer.end()
    return acknowledged


def hook(home):
    """A program for --disk-hook, and the events that it was told of so far."""
    told, program = home / "told", home / "hook"
    program.write_text(f'#!/bin/sh\necho "$SILTSTONE_DISK_EVENT $SILTSTONE_DISK_PATH: $SILTSTONE_DISK_REASON" >> {told}\n')
    program.chmod(0o755)
    return program, lambda: told.read_text().splitlines() if told.exists() else []


def test_a_dead_ssd_is_reported_by_the_hook(own_server, disk, tmp_path):
    program, told = hook(tmp_path)
    server = own_server("--fast-dir", str(disk.place / "fast"), "--disk-hook", str(program), "--bucket", "data").start()
    writer = Writer(server, 0)
    writer.start()
    disk.fail()
    until(told, server.log.read_text)
    writer.end()
    assert told()[0].startswith("read-only : a "), told()


def test_a_disk_that_fails_under_load_is_dropped_and_filled_when_it_is_back(own_server, disk, tmp_path):
    program, told = hook(tmp_path)
    server = own_server("--segment-size", "4MiB", "--bucket", "data", "--disk-hook", str(program))
    other = disk.place / "store"
    server.arguments += ["--mirror", f"{server.data_dir}={other}"]
    server.start()
    acknowledged = written(server, 0, lambda: True)
    assert not is_degraded(server)
    disk.fail()
    acknowledged |= written(server, 10, lambda: is_degraded(server))
    read_back(server, acknowledged)
    until(told, server.log.read_text)
    # By the error of the disk, or by another thread that has heard of the failed sync first.
    assert re.match(rf"dropped {re.escape(str(other))}: .*(error|failed)", told()[0]), told()
    server.kill()
    # In its place is an empty directory, of the file system below.
    disk.take_out()
    server.start()
    read_back(server, acknowledged)
    acknowledged |= written(server, 20, lambda: True)
    assert is_degraded(server)
    assert not other.exists()
    server.kill()

    disk.mend()
    server.start()
    acknowledged |= written(server, 30, lambda: not is_degraded(server))
    until(lambda: told()[-2:] == [f"filling {other}: ", f"filled {other}: "], lambda: str(told()))
    server.kill()
    server.start()
    assert not is_degraded(server)
    read_back(server, acknowledged)
    server.stop()
    mirror = ["--mirror", f"{server.data_dir}={other}"]
    verified = subprocess.run([TOOLS, *mirror, "verify"], env=clean_environment(tmp_path), capture_output=True, text=True)
    assert verified.stdout.endswith("nothing is wrong\n"), verified.stdout + verified.stderr

    # The first disk is lost: all is on the one that was filled.
    server.data_dir.rename(server.data_dir.with_name("lost"))
    server.arguments += ["--accept-degraded", "true"]
    server.start()
    read_back(server, acknowledged)
