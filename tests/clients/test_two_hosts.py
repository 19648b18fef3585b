"""The steps of the guide for two hosts (page `remote`), as they are printed: each host is a network namespace with the unit's rules for
restarts and the health check of keepalived. Addresses of services that the namespaces lack are replaced, and places of files."""

import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time

import pytest

from needs import needs, needs_root
from siltstone import ACCESS_KEY, BINARY, ROOT, SECRET_KEY, VENV_BIN, clean_environment

PYTHON = VENV_BIN / "python"
TOOLS = BINARY.with_name("siltstone-tools")
GUIDE = (ROOT / "src/guide/remote.md").read_text()
STEPS = GUIDE.split("### Two hosts, step by step\n")[1].split("\n### ")[0]
UNIT = (ROOT / "tools/package/deb/siltstone.service").read_text()
CLIENT = ROOT / "tests/clients/two_hosts_client.py"
NET = "192.0.2"
ADDRESSES = {"a": f"{NET}.1", "b": f"{NET}.2", "remote": f"{NET}.3", "client": f"{NET}.4"}
[SHARED] = set(re.findall(rf"{NET}\.\d+", STEPS))
# Nothing passes because it was fast.
PATIENCE_SECONDS = 120


def printed(language):
    """The block of the steps in a language, without its indentation."""
    block = re.search(rf"```{language}\n(.*?)```", STEPS, re.S).group(1)
    return re.sub(r"^   ", "", block, flags=re.M)


def unit_value(name, default=None):
    found = re.search(rf"^{name}=(.*)$", UNIT, re.M)
    return found.group(1) if found else default


def ip(*arguments):
    done = subprocess.run(["ip", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {arguments}: {done.stderr}"
    return done.stdout


class Network:
    """Namespaces on one bridge, which is in a namespace of its own."""

    def __init__(self, token):
        self.token = token
        self.made = []

    def name(self, host):
        return f"ss-{self.token}-{host}"

    def add(self, host):
        ip("netns", "add", self.name(host))
        self.made.append(host)
        ip("-n", self.name(host), "link", "set", "lo", "up")

    def start(self):
        self.add("hub")
        ip("-n", self.name("hub"), "link", "add", "br0", "type", "bridge")
        ip("-n", self.name("hub"), "link", "set", "br0", "up")
        for host, address in ADDRESSES.items():
            self.add(host)
            ip("-n", self.name(host), "link", "add", "eth0", "type", "veth", "peer", "name", host, "netns", self.name("hub"))
            ip("-n", self.name("hub"), "link", "set", "dev", host, "master", "br0", "up")
            ip("-n", self.name(host), "link", "set", "eth0", "up")
            ip("-n", self.name(host), "address", "add", f"{address}/24", "dev", "eth0")

    def cut(self, host, is_cut):
        ip("-n", self.name("hub"), "link", "set", "dev", host, "down" if is_cut else "up")

    def command(self, host, *command):
        return ["ip", "netns", "exec", self.name(host), *map(str, command)]

    def end(self):
        for host in self.made:
            subprocess.run(["ip", "netns", "delete", self.name(host)], capture_output=True)


@pytest.fixture
def network():
    needs("ip")
    needs_root()
    network = Network(str(os.getpid()))
    try:
        network.start()
    except AssertionError as error:
        network.end()
        pytest.skip(f"network namespaces are not permitted here: {error}")
    yield network
    network.end()


class Host:
    """A host with the service, and with keepalived, as far as they are started."""

    def __init__(self, name, home, network):
        self.name, self.network = name, network
        self.home = home / name
        self.etc, self.data = self.home / "etc", self.home / "data"
        self.etc.mkdir(parents=True)
        self.config = self.etc / "siltstone.toml"
        self.log = self.home / "log"
        self.statuses = []
        self.process = None
        self.is_enabled = self.has_address = False
        self.ends = threading.Event()
        self.threads = []

    def configure(self, text):
        text = text.replace("/var/lib/siltstone", str(self.data)).replace("/etc/siltstone", str(self.etc))
        self.config.write_text(text)

    def here(self, command):
        """A printed command, with the programs and places of this host."""
        replaced = command.replace("sudo -u siltstone ", "").replace("/usr/bin/", "")
        words = shlex.split(replaced.replace("/var/lib/siltstone", str(self.data)).replace("/etc/siltstone", str(self.etc)))
        programs = {"siltstone": BINARY, "siltstone-tools": TOOLS}
        return self.network.command(self.name, programs[words[0]], *words[1:])

    def run(self, command):
        environment = clean_environment(self.home)
        return subprocess.run(self.here(command), env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def start_process(self):
        command = self.here(unit_value("ExecStart"))
        environment = clean_environment(self.home, SILTSTONE_ACCESS_KEY=ACCESS_KEY, SILTSTONE_SECRET_KEY=SECRET_KEY)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )

    def supervise(self):
        """What systemd does by the unit."""
        assert unit_value("Restart") == "on-failure" and unit_value("StartLimitIntervalSec") == "0"
        while not self.ends.wait(0.05):
            if not self.is_enabled or (self.process and self.process.poll() is None):
                continue
            if self.process:
                self.statuses.append(self.process.returncode)
                if self.process.returncode in (0, int(unit_value("RestartPreventExitStatus"))):
                    self.is_enabled = False
                    continue
                self.ends.wait(float(unit_value("RestartSec").removesuffix("s")))
            self.start_process()

    def keep_alive(self):
        """What keepalived does by the printed block."""
        block = printed("text")
        script = re.search(r'script "(.*)"', block).group(1)
        times = {name: int(re.search(rf"{name} (\d+)", block).group(1)) for name in ("interval", "fall", "rise")}
        good = bad = 0
        while not self.ends.wait(times["interval"]):
            is_good = self.run(script).returncode == 0
            good, bad = (good + 1, 0) if is_good else (0, bad + 1)
            if good >= times["rise"] and not self.has_address:
                ip("-n", self.network.name(self.name), "address", "add", f"{SHARED}/24", "dev", "eth0")
                self.announce()
                self.has_address = True
            elif bad >= times["fall"] and self.has_address:
                ip("-n", self.network.name(self.name), "address", "delete", f"{SHARED}/24", "dev", "eth0")
                # Of two hosts with the address, which see each other again, the one that keeps it announces itself anew.
                self.announce()
                self.has_address = False

    def announce(self):
        """The effect of a gratuitous ARP on the client."""
        ip("-n", self.network.name("client"), "neighbor", "flush", "dev", "eth0")

    def begin(self):
        for work in (self.supervise, self.keep_alive):
            self.threads.append(threading.Thread(target=work, daemon=True))
            self.threads[-1].start()

    def ready(self):
        done = self.run(f"siltstone health --url http://{ADDRESSES[self.name]}:9000/-/ready")
        return done.returncode == 0, done.stdout + done.stderr

    def until(self, what, holds):
        for _ in range(PATIENCE_SECONDS * 5):
            found = self.ready()
            if holds(*found):
                return
            time.sleep(0.2)
        raise AssertionError(f"{self.name}: {what}: {found}\n{self.log.read_text()}")

    def end(self):
        self.is_enabled = False
        self.ends.set()
        for thread in self.threads:
            thread.join()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def is_standby(good, said):
    return not good and "a standby of epoch" in said


@pytest.fixture
def remote(network, tmp_path):
    """The S3 server of the remote, with the keys of the suite."""
    environment = clean_environment(tmp_path, SILTSTONE_ACCESS_KEY=ACCESS_KEY, SILTSTONE_SECRET_KEY=SECRET_KEY)
    command = [BINARY, "--data-dir", tmp_path / "remote", "--listen", f"{ADDRESSES['remote']}:9000", "--bucket", "cold"]
    with open(tmp_path / "remote.log", "wb") as log:
        process = subprocess.Popen(
            network.command("remote", *command), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        )
    assert process.stdout.readline().startswith(b"listening on"), (tmp_path / "remote.log").read_text()
    yield f"http://{ADDRESSES['remote']}:9000"
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def hosts(network, tmp_path):
    both = {name: Host(name, tmp_path, network) for name in "ab"}
    yield both
    for host in both.values():
        host.end()


def set_up(a, b, remote):
    """Steps 1 to 6."""
    section = printed("toml").replace("https://s3.example.net", remote).replace("AKIAIOSFODNN7EXAMPLE", ACCESS_KEY)
    # 1. The configuration of the package has the place and no remote.
    a.configure('data_dir = "/var/lib/siltstone"\nlisten = "0.0.0.0:9000"\nbucket = ["data"]\n')
    a.is_enabled = True
    a.begin()
    a.until("its first start", lambda good, said: good)
    # 2. and 3.
    for host in (a, b):
        (host.etc / "remote.key").write_text(SECRET_KEY)
        host.configure(section)
    a.is_enabled = False
    a.process.send_signal(signal.SIGTERM)
    assert a.process.wait() == 0
    a.process, a.is_enabled = None, True
    a.until("it waits for the mark", lambda good, said: "The log is not sent to the remote yet" in said)
    marked = a.run(printed("sh").strip() + " --rounds 20")
    assert marked.returncode == 0, marked.stdout + marked.stderr
    a.until("it writes", lambda good, said: good)
    # 4.
    if (a.data / "users.toml").exists():
        b.data.mkdir()
        (b.data / "users.toml").write_bytes((a.data / "users.toml").read_bytes())
    b.is_enabled = True
    b.begin()
    b.until("it follows", is_standby)
    # 5. The users come from the host that takes writes.
    asks = re.search(r"ExecCondition=(.*)", printed("ini")).group(1)
    assert a.run(asks.replace("OTHER", ADDRESSES["b"])).returncode == 1
    assert b.run(asks.replace("OTHER", ADDRESSES["a"])).returncode == 0


def answered_by(lines):
    return [json.loads(line) for line in lines.splitlines() if line.endswith("}")]


def test_the_steps_of_the_guide_make_two_hosts_of_which_one_writes(network, hosts, remote, tmp_path):
    a, b = hosts["a"], hosts["b"]
    set_up(a, b, remote)
    stop, told = tmp_path / "stop", tmp_path / "answered"
    endpoint = f"http://{SHARED}:9000"
    command = network.command("client", PYTHON, CLIENT, endpoint, ACCESS_KEY, SECRET_KEY, stop)
    with open(told, "wb") as out:
        client = subprocess.Popen(command, env=clean_environment(tmp_path), stdin=subprocess.DEVNULL, stdout=out)

    def goes_on():
        count = len(answered_by(told.read_text()))
        for _ in range(PATIENCE_SECONDS * 10):
            if len(answered_by(told.read_text())) > count + 5:
                return
            time.sleep(0.1)
        raise AssertionError("no write is answered:\n" + a.log.read_text() + b.log.read_text())

    try:
        goes_on()
        # The network of the writer fails, and comes back: it ends for its service manager, and follows.
        network.cut("a", True)
        b.until("it takes over", lambda good, said: good)
        goes_on()
        network.cut("a", False)
        a.until("it comes back as the standby", is_standby)
        assert 3 in a.statuses, a.log.read_text()
        goes_on()
        # The writer loses its power, and comes back.
        b.is_enabled = False
        b.process.kill()
        b.process.wait()
        a.until("it takes over", lambda good, said: good)
        goes_on()
        b.is_enabled = True
        b.until("it comes back as the standby", is_standby)
        # 7. A stop by hand, and a restart of the writer, which nobody takes over.
        goes_on()
        epoch = max(re.findall(r"this host has claimed epoch (\d+)", a.log.read_text()), key=int)
        a.process.kill()
        a.until("it is started again and writes at once", lambda good, said: good)
        goes_on()
        assert f"this host has claimed epoch {int(epoch) + 1}" in a.log.read_text()
        assert is_standby(*b.ready()), b.ready()
    finally:
        stop.touch()
        client.wait()

    answered = answered_by(told.read_text())
    times = [one["time"] for one in answered]
    gaps = sorted((later - one for one, later in zip(times, times[1:])), reverse=True)
    numbers = [one["nth"] for one in answered]
    missing = sorted(set(numbers) - found(network, endpoint, numbers, tmp_path))
    print(f"{len(answered)} writes were answered, {len(missing)} are missing; the longest pauses: {gaps[:3]}")
    assert missing == []
    # Two takeovers by themselves and no more: each host writes in its turn.
    assert [host.statuses.count(3) for host in (a, b)] == [1, 0]


READ_ALL = """
import sys, boto3
from botocore.config import Config
endpoint, access, secret = sys.argv[1:4]
s3 = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=access, aws_secret_access_key=secret, region_name="eu",
                  config=Config(s3={"addressing_style": "path"}))
for nth in sys.stdin.read().split():
    try:
        if s3.get_object(Bucket="data", Key=f"k{nth}")["Body"].read() == f"body of {nth}".encode():
            print(nth)
    except s3.exceptions.NoSuchKey:
        pass
"""


def found(network, endpoint, numbers, home):
    """Which of the objects are there with their bytes."""
    command = network.command("client", PYTHON, "-c", READ_ALL, endpoint, ACCESS_KEY, SECRET_KEY)
    asked = " ".join(map(str, numbers))
    done = subprocess.run(command, env=clean_environment(home), input=asked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {int(nth) for nth in done.stdout.split()}
