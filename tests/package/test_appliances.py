"""The files for small machines: each starts in a control group with that much memory, and is loaded there until it refuses."""

import os
import re
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

from image import contained
from needs import needs_root
from packages import SOURCES, run
from siltstone import BINARY, ROOT, Server

import siege

MIB = 1 << 20
FILES = sorted((SOURCES / "appliance").glob("*.toml"), key=lambda path: int(path.stem))
# What is left to the kernel and the system, at the least.
SYSTEM_MIB = 32
# As many as the siege wants to find.
OBJECTS = 100_000
# The smallest one always, the others with `.ci/run --all`.
LONG = pytest.mark.skipif("SILTSTONE_LONG_TESTS" not in os.environ, reason="takes long: set SILTSTONE_LONG_TESTS, as .ci/run --all does")


class Group:
    """A control group of memory below that of this process, in either version of control groups."""

    def __init__(self, mib):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        first = {line.split(":")[1]: line.split(":")[2].lstrip("/") for line in lines}
        is_old = "memory" in first
        base = Path("/sys/fs/cgroup") / (f"memory/{first['memory']}" if is_old else first.get("", ""))
        self.path = base / f"siltstone-test-{os.getpid()}-{mib}"
        self.limit, self.peak = ("memory.limit_in_bytes", "memory.max_usage_in_bytes") if is_old else ("memory.max", "memory.peak")
        try:
            self.path.mkdir()
            (self.path / self.limit).write_text(str(mib * MIB))
        except OSError as error:
            if self.path.exists():
                self.path.rmdir()
            pytest.skip(f"no control group of memory can be made: {error}")

    def killed(self):
        """The processes that the kernel ended for want of memory."""
        name = "memory.oom_control" if "limit_in" in self.limit else "memory.events"
        return int(re.search(r"^oom_kill (\d+)$", (self.path / name).read_text(), re.M).group(1))

    def entering(self, *command):
        """The command, run in the group."""
        return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self.path), *command]

    def end(self):
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)


@pytest.fixture
def group(request):
    needs_root()
    made = Group(request.param)
    yield made
    made.end()


def resident(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.M).group(1)) * 1024


@pytest.mark.parametrize(
    "file, group",
    [pytest.param(path, int(path.stem), id=path.stem, marks=[LONG] if path != FILES[0] else []) for path in FILES],
    indirect=["group"],
)
def test_a_file_serves_within_its_memory_under_load(file, group, tmp_path):
    users = tmp_path / "users.toml"
    users.write_text(siege.ANYTHING)
    server = Server(tmp_path / "data", "--config", str(file), "--users", str(users), wrapper=group.entering())
    server.start()
    try:
        assert "may be killed" not in server.log.read_text(), "the options fit the limit"
        server.client().create_bucket(Bucket=siege.BUCKET.strip("/"))
        siege.fill(server.port, OBJECTS)
        # Large bodies, long lists, many connections at once, slow readers.
        load = siege.Siege(server.port, 5)
        load.run()
        load.check_served()
        assert server.is_running() and group.killed() == 0, server.log.read_text()
        settings = tomllib.loads(file.read_text())
        most = sum(int(settings[name].removesuffix("MiB")) for name in ("memory_max", "index_max")) * MIB
        assert resident(server) < most
        server.stop()
    finally:
        if server.is_running():
            server.kill()


@pytest.mark.parametrize("group", [96], indirect=True)
def test_the_image_serves_in_little_memory_by_the_command_of_the_page(image, group, tmp_path):
    page = (ROOT / "src/guide/appliances.md").read_text()
    memory, volume, file, place, words = re.search(
        r"^docker run --memory (\d+)m -p 9000:9000 -v siltstone:(\S+) -v \"\$PWD/(\S+):(\S+):ro\" \\\n  siltstone:\S+ (.*)$", page, re.M
    ).groups()
    assert (int(memory), volume, image.config["Entrypoint"]) == (96, "/data", ["/bin/siltstone"])
    data = tmp_path / "data"
    data.mkdir()
    # The server of the suite names its directory by its place on this host.
    binds = {place: ROOT / file, str(data): data}
    server = Server(
        data, *words.removesuffix(" --data-dir /data").split(), binary=image.config["Entrypoint"][0],
        wrapper=group.entering(*contained(image, data, uid=0, binds=binds)),
    )
    server.start()
    try:
        server.client().create_bucket(Bucket="photos")
        server.client().put_object(Bucket="photos", Key="large", Body=bytes(20 * MIB))
        assert server.client().get_object(Bucket="photos", Key="large")["Body"].read() == bytes(20 * MIB)
        assert group.killed() == 0
    finally:
        server.stop()


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_file_leaves_memory_to_the_system(file):
    settings = tomllib.loads(file.read_text())
    taken = sum(int(settings[name].removesuffix("MiB")) for name in ("memory_max", "index_max"))
    assert taken + SYSTEM_MIB <= int(file.stem)


def test_the_page_tells_the_files():
    page = (ROOT / "src/guide/appliances.md").read_text()
    rows = re.findall(r"^\| `(\d+)\.toml` \| (\d+ MiB) \| (\d+ MiB) \| (\d+ MiB) \|", page, re.M)
    expected = []
    for file in FILES:
        settings = tomllib.loads(file.read_text())
        expected.append((file.stem, *(settings[name].replace("MiB", " MiB") for name in ("memory_max", "index_max", "segment_size"))))
    assert rows == expected


def test_the_watchdog_of_the_page_asks_for_the_health(own_server):
    [command] = re.findall(r"^```sh\n(siltstone health .*)\n```", (ROOT / "src/guide/appliances.md").read_text(), re.M)
    server = own_server().start()
    _, *words = command.replace("http://127.0.0.1:9000", server.url).split()
    assert run(BINARY, *words) == "alive\n"


def test_an_idle_server_hardly_wakes(tmp_path):
    """The page promises less than one wakeup a second; nothing is asked of it meanwhile."""
    server = Server(tmp_path / "data", "--config", str(FILES[0])).start()

    def switches():
        tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
        told = [(task / "status").read_text() for task in tasks]
        return sum(int(count) for text in told for count in re.findall(r"^voluntary_ctxt_switches:\s+(\d+)$", text, re.M))

    try:
        time.sleep(3)
        before = switches()
        time.sleep(10)
        assert switches() - before < 10
    finally:
        server.stop()


def test_a_root_that_cannot_be_written_suffices(tmp_path):
    """All that it writes is the data directory, also with its users file elsewhere."""
    needs_root()
    data = tmp_path / "data"
    data.mkdir()
    script = f'mount --bind / /mnt && mount -o remount,bind,ro /mnt && mount --bind "{tmp_path}" "/mnt{tmp_path}" && exec chroot /mnt "$@"'
    server = Server(data, "--config", str(FILES[0]), wrapper=["unshare", "--mount", "sh", "-euc", script, "sh"])
    server.start()
    try:
        server.client().create_bucket(Bucket="photos")
        server.client().put_object(Bucket="photos", Key="a", Body=b"a")
    finally:
        server.stop()
    assert subprocess.run([BINARY.with_name("siltstone-tools"), "--data-dir", data, "verify"], capture_output=True).returncode == 0
