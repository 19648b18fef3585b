"""Measures what the page "Appliances" tells: tests/clients/.venv/bin/python tests/clients/wear.py, as root, on a quiet machine.

SILTSTONE_BIN names the program. Prints the bytes that reach a block device for each put, the time of a start, how often an idle server
wakes, its resident memory, and the least partition that takes puts."""

import os
import subprocess
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from botocore.exceptions import ClientError

from flood import Connection, allow_anybody, put
from siltstone import Server

MIB = 1 << 20
# Name, bytes of an object, objects, connections.
LOADS = [("4 KiB, one after the other", 4096, 500, 1), ("4 KiB, 32 at a time", 4096, 3200, 32), ("64 KiB, one after the other", 65536, 200, 1), ("1 MiB, one after the other", MIB, 60, 1)]
IDLE_SECONDS = 300


class Disk:
    """A file with ext4 as a block device, mounted, without the inode tables that ext4 writes later by itself."""

    def __init__(self, folder, mib):
        self.image = folder / "disk"
        with open(self.image, "wb") as image:
            image.truncate(mib * MIB)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.image], check=True)
        self.path = folder / "mnt"
        self.path.mkdir()
        self.device = subprocess.run(["losetup", "--find", "--show", self.image], check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run(["mount", "-o", "noatime", self.device, self.path], check=True)

    def written(self):
        """Bytes that the device was given to write, after all of the file system's."""
        os.sync()
        return int(Path("/sys/block", Path(self.device).name, "stat").read_text().split()[6]) * 512

    def end(self):
        subprocess.run(["umount", self.path], check=True)
        subprocess.run(["losetup", "--detach", self.device], check=True)
        self.image.unlink()
        self.path.rmdir()


def metric(server, name):
    page = urllib.request.urlopen(f"{server.url}/-/metrics").read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.split("{")[0].split(" ")[0] == name)


def started(data_dir, *arguments):
    server = Server(data_dir, "--log-level", "warn", *arguments)
    allow_anybody(server)
    return server.start()


def load(port, size, count, connections):
    """Puts from several connections, each of which waits for its answers."""
    def work(of):
        connection = Connection(port)
        for n in range(of, count, connections):
            assert connection.statuses([put(f"keys/{n:06}", os.urandom(size))]) == [200]

    with ThreadPoolExecutor(connections) as threads:
        list(threads.map(work, range(connections)))


def wear(folder):
    for name, size, count, connections in LOADS:
        disk = Disk(folder, 512)
        server = started(disk.path / "data", "--segment-size", "16MiB")
        server.client().create_bucket(Bucket="keys")
        before, told = disk.written(), metric(server, "siltstone_written_bytes_total")
        load(server.port, size, count, connections)
        device, handed = disk.written() - before, metric(server, "siltstone_written_bytes_total") - told
        print(f"{name}: handed {handed / count:.0f} bytes a put ({handed / count / size:.2f}), device {device / count:.0f} ({device / count / size:.2f})")
        server.stop()
        disk.end()


def starts_and_idles(folder):
    times = []
    for n in range(11):
        begin = time.monotonic()
        server = Server(folder / "idle", "--log-level", "warn", "--memory-max", "64MiB", "--index-max", "16MiB").start()
        times.append(time.monotonic() - begin)
        if n < 10:
            server.stop()
    print(f"start: {sorted(times)[5] * 1000:.0f} ms in the middle of {len(times)}")
    tasks = Path(f"/proc/{server.process.pid}/task")

    def switches():
        found = [line for task in tasks.iterdir() for line in (task / "status").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in found if line.startswith("voluntary_ctxt_switches"))

    time.sleep(5)
    before = switches()
    time.sleep(IDLE_SECONDS)
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    kept = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(("VmRSS:", "RssAnon:"))}
    print(f"idle: {(switches() - before) * 60 / IDLE_SECONDS:.1f} wakeups a minute, {kept['VmRSS']:.1f} MiB resident, {kept['RssAnon']:.1f} of its own, {len(list(tasks.iterdir()))} threads")
    server.stop()


def least_partition(folder):
    for mib in range(64, 160, 4):
        disk = Disk(folder, mib)
        free = os.statvfs(disk.path)
        server = started(disk.path / "data")
        try:
            client = server.client()
            client.create_bucket(Bucket="keys")
            client.put_object(Bucket="keys", Key="a", Body=bytes(4096))
            print(f"{mib} MiB takes puts: {free.f_blocks * free.f_frsize / MIB:.1f} MiB in the file system, {free.f_bavail * free.f_frsize / MIB:.1f} free")
            return
        except ClientError as error:
            print(f"{mib} MiB: {error.response['Error']['Code']} ({free.f_bavail * free.f_frsize / MIB:.1f} MiB free before)")
        finally:
            server.kill()
            disk.end()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        starts_and_idles(Path(folder))
        least_partition(Path(folder))
        wear(Path(folder))
