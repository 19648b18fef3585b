"""Hosts with one remote, of which one writes: what tests of takeovers share."""

import asyncio
import random
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

from siltstone import ACCESS_KEY, BINARY, SECRET_KEY, STOP_SECONDS_MAX, clean_environment

KEYS = 12
SOON = 120
SHIP_EVERY = 0.5
FENCED = 3
TOOLS = BINARY.with_name("siltstone-tools")
ONE_TRY = Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=10, s3={"addressing_style": "path"})
UNANSWERED = (HTTPClientError, ConnectionError)


def run(program, server, *arguments):
    environment = clean_environment(server.data_dir.parent)
    command = [str(program), "--data-dir", str(server.data_dir), *arguments]
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def section_of(endpoint, bucket="cold", access_key=ACCESS_KEY, secret_key=SECRET_KEY, prefix="box"):
    return {"endpoint": endpoint, "bucket": bucket, "prefix": prefix, "access_key": access_key, "secret_key": secret_key}


def write_section(path, section):
    path.write_text("[remote]\n" + "".join(f"{name} = '{value}'\n" for name, value in section.items()))
    return path


def marked(server, config):
    done = run(TOOLS, server, "remote", "--config", str(config), "init", "--rounds", "3")
    assert done.returncode == 0, done.stdout + done.stderr


def shipping_writer(own_server, tmp_path, *shipping):
    """A host that ships its log to a remote, the file that names the remote, and the remote."""
    remote = own_server("--bucket", "cold").start()
    config = write_section(tmp_path / "remote.toml", section_of(remote.url))
    writer = own_server("--bucket", "data").start()
    writer.stop()
    marked(writer, config)
    writer.arguments += ["--config", str(config), "--ship", *shipping]
    writer.start()
    return writer, config, remote


def body_of(key, number):
    return f"{key} {number} ".encode() + bytes(random.Random(number).randrange(4000))


def promote(standby):
    """Makes a host the writer, as soon as it follows."""
    for _ in range(SOON * 10):
        done = run(BINARY, standby, "promote")
        # It may have taken over by itself meanwhile.
        if done.returncode == 0 or "a server runs, and no standby" in done.stderr:
            return
        is_early = "no standby runs" in done.stderr or "waits for a first log" in done.stderr
        assert standby.is_running() and is_early, done.stderr + standby.log.read_text()
        time.sleep(0.1)
    raise AssertionError(f"no standby runs: {standby.log.read_text()}")


def takes_write(server):
    try:
        server.client(config=ONE_TRY).put_object(Bucket="data", Key="probe", Body=b"")
    except (ClientError, *UNANSWERED):
        return False
    return True


def takes_writes(server):
    for _ in range(SOON * 10):
        if takes_write(server):
            return
        assert server.is_running(), server.log.read_text()
        time.sleep(0.1)
    raise AssertionError(f"no writes are taken: {server.log.read_text()}")


class Writes(threading.Thread):
    """Puts to the current writer. For each key it keeps the numbers of its writes, with the time of each answer."""

    def __init__(self, seed):
        super().__init__(daemon=True)
        self.draw = random.Random(seed)
        self.lock = threading.Lock()
        self.s3 = None
        self.number = 0
        self.answered = {f"k{at}": [] for at in range(KEYS)}
        self.unanswered = {key: set() for key in self.answered}
        self.counts = {"answered": 0, "refused": 0, "unanswered": 0, "lost": 0}
        self.oldest_lost = 0.0
        self.ends = threading.Event()

    def use(self, server):
        with self.lock:
            self.s3 = server.client(config=ONE_TRY)

    def rest(self):
        with self.lock:
            self.s3 = None

    def run(self):
        while not self.ends.wait(0.01):
            with self.lock:
                if self.s3:
                    self.put(self.draw.choice(list(self.answered)))

    def put(self, key):
        self.number += 1
        self.unanswered[key].add(self.number)
        try:
            self.s3.put_object(Bucket="data", Key=key, Body=body_of(key, self.number))
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 503, error
            self.counts["refused"] += 1
            time.sleep(0.05)
        except UNANSWERED:
            self.counts["unanswered"] += 1
            time.sleep(0.05)
        else:
            self.unanswered[key].discard(self.number)
            self.answered[key].append((self.number, time.monotonic()))
            self.counts["answered"] += 1

    def check(self, server, stalled_at, mode, slack):
        """Reads all keys from the writer, and gives those of which an answered write is lost. Once read, a value stays."""
        s3 = server.client(config=Config(s3={"addressing_style": "path"}))
        lost_keys = []
        for key, answered in self.answered.items():
            try:
                found = s3.get_object(Bucket="data", Key=key)["Body"].read()
                number = int(found.split(b" ")[1])
                assert found == body_of(key, number), f"{key} has other bytes"
            except s3.exceptions.NoSuchKey:
                number = 0
            known = {at for at, _ in answered} | self.unanswered[key]
            assert number == 0 or number in known, f"{key} has {number}, which is older than what was there"
            lost = [(at, when) for at, when in answered if at > number]
            self.counts["lost"] += len(lost)
            if lost:
                age = stalled_at - min(when for _, when in lost)
                self.oldest_lost = max(self.oldest_lost, age)
                assert mode == "async", f"{key} lost {lost}, which were answered {age} s before the old host stalled"
                assert age <= SHIP_EVERY + slack, f"{key} lost what was answered {age} s before the old host stalled"
                lost_keys.append(key)
            self.answered[key] = [(number, 0.0)] if number else []
            self.unanswered[key] = set()
        return lost_keys


class Link(threading.Thread):
    """The way from one host to the remote. While it is cut nothing passes; what was sent before arrives once it is mended, as over TCP."""

    def __init__(self, endpoint):
        super().__init__(daemon=True)
        remote = urlsplit(endpoint)
        self.remote = (remote.hostname, remote.port)
        self.loop = asyncio.new_event_loop()
        self.passes = asyncio.Event()
        self.passes.set()
        server = self.loop.run_until_complete(asyncio.start_server(self.connected, "127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.start()

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def connected(self, reader, writer):
        try:
            await self.passes.wait()
            far_reader, far_writer = await asyncio.open_connection(*self.remote)
            await asyncio.gather(self.passed(reader, far_writer), self.passed(far_reader, writer))
        except (OSError, asyncio.CancelledError):
            writer.close()

    async def passed(self, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                await self.passes.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def cut(self):
        self.loop.call_soon_threadsafe(self.passes.clear)

    def mend(self):
        self.loop.call_soon_threadsafe(self.passes.set)

    async def close(self):
        open = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open:
            task.cancel()
        await asyncio.gather(*open, return_exceptions=True)
        self.loop.stop()

    def end(self):
        asyncio.run_coroutine_threadsafe(self.close(), self.loop)
        self.join()
        self.loop.close()


class Host:
    """A host with the command that every host runs at each boot, and its own way to the remote."""

    def __init__(self, own_server, name, tmp_path, section, options):
        self.name = name
        self.link = Link(section["endpoint"])
        self.config = write_section(tmp_path / f"{name}.toml", {**section, "endpoint": self.link.endpoint})
        self.options = ["--config", str(self.config), *options]
        self.server = own_server()

    def make_store(self):
        """Makes the store that the others follow, and marks the remote for it."""
        self.server.arguments = ["--bucket", "data"]
        self.server.start().stop()
        marked(self.server, self.config)

    def boot(self):
        self.server.arguments = self.options
        self.server.start()

    def supervise(self):
        """Boots the host again where it ended since another one has taken over, as the unit of the package does."""
        if self.server.process is None or self.server.is_running():
            return
        if self.server.process.returncode == FENCED:
            self.server.process.stdout.close()
            self.boot()

    def is_off(self):
        return not self.server.is_running()

    def ready_text(self):
        try:
            with urllib.request.urlopen(f"{self.server.url}/-/ready", timeout=10) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError as error:
            return f"no answer: {error}"

    def follows(self):
        return self.ready_text().startswith("a standby of epoch")

    def divergent(self):
        done = run(TOOLS, self.server, "remote", "--config", str(self.config), "divergent")
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.stdout

    def late_writes(self, mode, seconds):
        """Writes to a host after another one has taken over, for a while or until it notices; with sync it answers none. Gives their keys."""
        s3 = self.server.client(config=ONE_TRY)
        answered = []
        until = time.monotonic() + seconds
        while self.server.is_running() and time.monotonic() < until:
            key = f"late-{self.name}-{len(answered)}"
            try:
                s3.put_object(Bucket="data", Key=key, Body=b"late")
                answered.append(key)
            except (ClientError, *UNANSWERED):
                time.sleep(0.1)
        assert mode == "async" or not answered, f"a fenced host answered {answered}"
        return answered

    def lose(self):
        """The host is gone with its disk, and an empty one comes in its place."""
        shutil.rmtree(self.server.data_dir, ignore_errors=True)
        self.boot()


class Hosts:
    """All hosts of one remote. The first one begins as the writer."""

    def __init__(self, own_server, tmp_path, section, count, options):
        self.all = [Host(own_server, name, tmp_path, section, options) for name in "abcd"[:count]]
        self.writer = self.all[0]
        self.writer.make_store()
        for host in self.all:
            host.boot()

    def others(self):
        return [host for host in self.all if host is not self.writer]

    def log(self):
        return "\n".join(f"== {host.name}\n{host.server.log.read_text()[-6000:]}" for host in self.all)

    def next_writer(self, among):
        """The first host that takes a write."""
        until = time.monotonic() + SOON
        while time.monotonic() < until:
            for host in among:
                host.supervise()
                if host.server.is_running() and takes_write(host.server):
                    return host
            time.sleep(0.1)
        raise AssertionError(f"no host takes writes:\n{self.log()}")

    def settle(self):
        """Waits until one host writes and all others follow. Gives the writer."""
        until = time.monotonic() + SOON
        while time.monotonic() < until:
            for host in self.all:
                host.supervise()
            writing = [host for host in self.all if takes_write(host.server)]
            if len(writing) == 1 and all(host.follows() for host in self.all if host is not writing[0]):
                return writing[0]
            time.sleep(0.2)
        raise AssertionError(f"the hosts do not come to rest:\n{[host.ready_text() for host in self.all]}\n{self.log()}")

    def start_copy_beside(self, own_server, arguments):
        """Starts a server in a copy of the writer's directory, as someone who only wants to look does, and ends it. Gives what it said."""
        copy = own_server(*arguments, "--config", str(self.writer.config))
        shutil.copytree(self.writer.server.data_dir, copy.data_dir)
        try:
            copy.start()
            time.sleep(1)
            copy.kill()
        except AssertionError:
            assert copy.process.wait(STOP_SECONDS_MAX) != 0
            copy.process.stdout.close()
        shutil.rmtree(copy.data_dir)
        return copy.log.read_text()

    def end(self):
        for host in self.all:
            host.link.end()


def listed(key, told):
    return re.search(rf'put data/"{key}" version', told) is not None
