"""A store that holds several times what its disk may, with the rest on another server, while either of them ends at any time.

Each object is written, overwritten, deleted and read by one thread, which knows the bytes that it may find.

| variable | default | |
|---|---|---|
| SILTSTONE_TIER_SECONDS | 5 | time for which the servers end and start after the store is full, each once at least; where it is set, moto is a remote, too |
| SILTSTONE_TIER_MIB | 16 | what may stay here |
| SILTSTONE_TIER_TIMES | 4 | how many times that is stored |
| SILTSTONE_TIER_OUTAGE | 1 | seconds for which the remote stays away when it ends |
| SILTSTONE_TIER_ENDPOINT, _BUCKET, _ACCESS_KEY, _SECRET_KEY | none | one more remote |
| SILTSTONE_TIER_PREFIX | box | where that one is empty |
| SILTSTONE_TIER_ENCRYPTED | none | where it is set, the objects on the remote are encrypted |
"""

import os
import random
import subprocess
import threading
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError
from moto.server import ThreadedMotoServer

from siltstone import ACCESS_KEY, SECRET_KEY, clean_environment
from takeovers import TOOLS, section_of, write_section

SECONDS = int(os.environ.get("SILTSTONE_TIER_SECONDS", "5"))
LOCAL_MAX = int(os.environ.get("SILTSTONE_TIER_MIB", "16")) << 20
OUTAGE_SECONDS = int(os.environ.get("SILTSTONE_TIER_OUTAGE", "1"))
TIMES = int(os.environ.get("SILTSTONE_TIER_TIMES", "4"))
WRITERS = 4
# The longest wait for a state.
SECONDS_MAX = 120
SIZES = 512 << 10, 1 << 20
KEYS = TIMES * LOCAL_MAX * 2 // sum(SIZES) // WRITERS
# What a server may take up beyond the limit: the open segments.
SLACK = 8 << 20


def bytes_of(seed):
    draw = random.Random(seed)
    return draw.randbytes(draw.randint(*SIZES))


class Owner(threading.Thread):
    """Writes and reads objects of its own. For each key it knows the seeds of the bodies that may be there, None for no object."""

    def __init__(self, server, number, filled, faulted):
        super().__init__(daemon=True)
        self.filled, self.faulted = filled, faulted
        self.is_full = False
        self.draw = random.Random(number)
        self.may_be = {f"{number}-{key}": {None} for key in range(KEYS)}
        self.counts = {"done": 0, "refused": 0, "unanswered": 0}
        self.failure = None
        patience = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=60, s3={"addressing_style": "path"})
        self.log = server.log
        self.s3 = server.client(config=patience)

    def run(self):
        try:
            self.fill()
            self.filled.wait()
            self.is_full = True
            until = time.monotonic() + SECONDS
            while time.monotonic() < until or not self.faulted.is_set():
                self.step(self.draw.choice(list(self.may_be)))
        except Exception as error:  # The thread of the test tells it.
            self.failure = error
            self.filled.abort()

    def fill(self):
        for key in self.may_be:
            while None in self.may_be[key]:
                self.attempt(self.put, key)

    def step(self, key):
        self.attempt(self.draw.choices([self.get, self.put, self.delete], [6, 3, 1])[0], key)

    def attempt(self, act, key):
        try:
            act(key)
            self.counts["done"] += 1
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            assert status in (503, 507), f"{error}\n{errors_in(self.log)}"
            self.counts["refused"] += 1
            time.sleep(0.05)
        except (HTTPClientError, ConnectionError):
            self.counts["unanswered"] += 1
            time.sleep(0.05)

    def put(self, key):
        seed = self.draw.getrandbits(64)
        self.may_be[key].add(seed)
        self.s3.put_object(Bucket="warm", Key=key, Body=bytes_of(seed))
        self.may_be[key] = {seed}

    def delete(self, key):
        self.may_be[key].add(None)
        self.s3.delete_object(Bucket="warm", Key=key)
        self.may_be[key] = {None}

    def get(self, key):
        try:
            found = self.s3.get_object(Bucket="warm", Key=key)["Body"].read()
        except self.s3.exceptions.NoSuchKey:
            assert None in self.may_be[key], f"{key} is gone"
            return
        known = [seed for seed in self.may_be[key] if seed is not None and bytes_of(seed) == found]
        assert known, f"{key} has bytes that were not written to it, or older ones"
        # Once read, it stays.
        self.may_be[key] = set(known)

    def read_all(self):
        for key in self.may_be:
            self.get(key)


def tools(data_dir, config, *arguments):
    done = subprocess.run(
        [str(TOOLS), "--data-dir", str(data_dir), *arguments[:1], *(["--config", str(config)] if config else []), *arguments[1:]],
        env=clean_environment(data_dir.parent), stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def tiered(own_server, tmp_path, section):
    """A server whose segments go to the remote of the section."""
    config = tmp_path / "remote.toml"
    if "SILTSTONE_TIER_ENCRYPTED" in os.environ:
        section = section | {"encryption_key_file": tmp_path / "remote.key"}
        tools(tmp_path, config, "remote", "key", tmp_path / "remote.key")
    write_section(config, section)
    first = own_server("--bucket", "warm").start()
    first.stop()
    tools(first.data_dir, config, "remote", "init")
    first.arguments += ["--config", str(config), "--segment-size", "4MiB", "--local-max", f"{LOCAL_MAX >> 20}MiB", "--keep-dropped", "1s"]
    return first.start()


def errors_in(log):
    """What the server says of errors of its own."""
    return "\n".join(line for line in log.read_text().splitlines() if " ERROR " in line)


def local_bytes(server):
    return sum(file.stat().st_blocks * 512 for file in (server.data_dir / "data").iterdir())


def end_and_start(server, seconds):
    server.kill()
    time.sleep(seconds)
    server.start()


def wait_for_attempts(owners, count):
    """Until the owners have made so many further attempts, or have ended."""
    def attempts():
        return sum(sum(owner.counts.values()) for owner in owners)

    enough, end = attempts() + count, time.monotonic() + SECONDS_MAX
    while attempts() < enough and any(owner.is_alive() for owner in owners):
        assert time.monotonic() < end, "the owners get no further"
        time.sleep(0.02)


def churn(server, faults):
    """Lets owners work, and `faults` happen: for as long as the suite says, and until each has happened to a full store.
    Then everything has to be there."""
    filled, faulted = threading.Barrier(WRITERS), threading.Event()
    owners = [Owner(server, number, filled, faulted) for number in range(WRITERS)]
    for owner in owners:
        owner.start()
    draw, due = random.Random(1), list(faults)
    while any(owner.is_alive() for owner in owners):
        wait_for_attempts(owners, draw.randint(1, 100))
        fault, is_full = draw.choice(due or faults), all(owner.is_full for owner in owners)
        fault()
        if is_full and fault in due:
            due.remove(fault)
        if not due:
            faulted.set()
    for owner in owners:
        owner.join()
    failures = [owner.failure for owner in owners if owner.failure]
    assert not failures, failures
    for owner in owners:
        read_all(owner)
    # A server that was just started gives bytes back in steps.
    for _ in range(60):
        if local_bytes(server) <= LOCAL_MAX + SLACK:
            break
        time.sleep(1)
    assert local_bytes(server) <= LOCAL_MAX + SLACK
    print({name: sum(owner.counts[name] for owner in owners) for name in owners[0].counts})
    server.stop()
    tools(server.data_dir, None, "verify")


def read_all(owner):
    """The remote may be known as away for some seconds after it came back."""
    end = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return owner.read_all()
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 503, error
        assert time.monotonic() < end, "cold objects cannot be read, though the remote is there"
        time.sleep(0.2)


def test_with_siltstone_as_the_remote_both_of_which_end_at_any_time(own_server, tmp_path):
    remote = own_server("--bucket", "cold").start()
    server = tiered(own_server, tmp_path, section_of(remote.url))
    churn(server, [lambda: end_and_start(server, 0), lambda: end_and_start(remote, OUTAGE_SECONDS)])


@pytest.mark.skipif("SILTSTONE_TIER_SECONDS" not in os.environ, reason="moto takes its time")
def test_with_moto_as_the_remote(own_server, tmp_path):
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    moto.start()
    try:
        url = "http://{}:{}".format(*moto.get_host_and_port())
        client = boto3.client("s3", endpoint_url=url, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name="us-east-1")
        client.create_bucket(Bucket="cold")
        server = tiered(own_server, tmp_path, section_of(url))
        churn(server, [lambda: end_and_start(server, 0)])
    finally:
        moto.stop()


@pytest.mark.skipif("SILTSTONE_TIER_ENDPOINT" not in os.environ, reason="no other server is named")
def test_with_another_server_as_the_remote(own_server, tmp_path):
    named = {name: os.environ[f"SILTSTONE_TIER_{name.upper()}"] for name in ("endpoint", "bucket", "access_key", "secret_key")}
    server = tiered(own_server, tmp_path, section_of(**named, prefix=os.environ.get("SILTSTONE_TIER_PREFIX", "box")))
    churn(server, [lambda: end_and_start(server, 0)])
