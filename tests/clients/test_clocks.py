"""A wall clock that is wrong, by libfaketime below the real server: the monotonic clock stays true, as on a host whose time is set.

Clients run under the same clock, since signatures go by it."""

import datetime
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from siltstone import ACCESS_KEY, BINARY, SECRET_KEY

DAY = datetime.timedelta(days=1)

# Sweeps of lifecycle rules are 30 s apart.
SWEEP_SECONDS_MAX = 180

RULES = {"Rules": [{"ID": "old", "Filter": {"Prefix": ""}, "Status": "Enabled", "Expiration": {"Days": 365}}]}


def libfaketime():
    """The library for programs with threads."""
    if shutil.which("faketime") is None:
        return None
    done = subprocess.run(["faketime", "-m", "-f", "+0", "env"], capture_output=True, text=True)
    preloaded = [line.partition("=")[2] for line in done.stdout.splitlines() if line.startswith("LD_PRELOAD=")]
    return preloaded[0] if done.returncode == 0 and preloaded else None


# The library comes before that of C in a program that loads one; the suite may run against a static one.
DYNAMIC = os.environ.get("SILTSTONE_DYNAMIC_BIN", BINARY)


def is_dynamic():
    done = subprocess.run(["ldd", str(DYNAMIC)], capture_output=True, text=True)
    return done.returncode == 0 and "libc.so" in done.stdout


LIBRARY = libfaketime()
CLIENT = Path(__file__).with_name("client_process.py")

pytestmark = [
    pytest.mark.skipif(LIBRARY is None, reason="faketime is not installed"),
    pytest.mark.skipif(not is_dynamic(), reason="the binary is static: no library comes before its C library"),
]


class Host:
    """A host whose wall clock is set by hand, with a server on it."""

    def __init__(self, own_server, tmp_path, *arguments):
        self.home = tmp_path
        self.offset = tmp_path / "offset"
        self.set_clock("+0")
        wrapper = ["env", *(f"{name}={value}" for name, value in self.variables().items())]
        self.server = own_server("--metrics", "open", *arguments, wrapper=wrapper, binary=DYNAMIC)
        self.client = None

    def variables(self):
        return {
            "LD_PRELOAD": LIBRARY,
            "FAKETIME_TIMESTAMP_FILE": str(self.offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set_clock(self, offset):
        """Sets the wall clock to its true time and `offset`, as `+10y` or `-30d`."""
        aside = self.offset.with_suffix(".new")
        aside.write_text(offset + "\n")
        aside.replace(self.offset)

    def environment(self):
        """That of a client on this host, under its clock."""
        environment = self.server.aws_environment(self.home)
        environment.update(
            self.variables(), SILTSTONE_ACCESS_KEY=ACCESS_KEY, SILTSTONE_SECRET_KEY=SECRET_KEY
        )
        return environment

    def run(self, *command):
        done = subprocess.run(
            list(map(str, command)), env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done

    def ask(self, operation, **parameters):
        """The answer to an operation of boto3. One client makes all calls of a test: its start takes longer than they do."""
        if self.client is None:
            self.client = subprocess.Popen(
                [sys.executable, str(CLIENT)], env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        self.client.stdin.write(json.dumps([operation, parameters]) + "\n")
        self.client.stdin.flush()
        return json.loads(self.client.stdout.readline())

    def put(self, bucket, key, body="new"):
        assert "ETag" in self.ask("put_object", Bucket=bucket, Key=key, Body=body)

    def end(self):
        if self.client is not None:
            self.client.stdin.close()
            self.client.wait()
            self.client.stdout.close()

    def clock(self, command="show"):
        more = ["--json"] if command == "show" else []
        shown = self.run(DYNAMIC, "clock", command, *more, "--endpoint", self.server.url)
        return json.loads(shown.stdout) if command == "show" else shown.stdout

    def page(self, path):
        with urllib.request.urlopen(self.server.url + path, timeout=60) as answer:
            return answer.read().decode()

    def metric(self, name):
        values = [line.split()[1] for line in self.page("/-/metrics").splitlines() if line.startswith(name + " ")]
        assert len(values) == 1, f"{name}: {values}"
        return float(values[0])

    def wait_for_sweep(self, after):
        """Waits until rules have been followed at a time of the wall clock after `after`."""
        self.wait_until("a sweep", lambda: self.metric("siltstone_lifecycle_swept_timestamp_seconds") > after)

    @staticmethod
    def wait_until(what, holds):
        end = time.monotonic() + SWEEP_SECONDS_MAX
        while not holds():
            assert time.monotonic() < end, f"{what} did not come"
            time.sleep(0.5)

    def keys(self, bucket):
        listed = self.ask("list_object_versions", Bucket=bucket)
        assert listed["Name"] == bucket, listed
        return sorted(it["Key"] for it in listed.get("Versions", []))


@pytest.fixture
def host(own_server, tmp_path):
    host = Host(own_server, tmp_path)
    yield host
    host.end()


def fill(host, bucket, count=20):
    s3 = host.server.client()
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=RULES)
    for nth in range(count):
        s3.put_object(Bucket=bucket, Key=f"k{nth:02}", Body=b"kept")
    s3.create_multipart_upload(Bucket=bucket, Key="upload")


def in_years(years):
    return time.time() + years * 365 * DAY.total_seconds()


def test_a_clock_ten_years_ahead_deletes_nothing_until_it_is_accepted(host):
    host.server.start()
    fill(host, "dated")
    before = host.keys("dated")
    assert host.page("/-/ready") == "ready\n"
    host.set_clock("+10y")
    assert "The clock jumped ahead" in host.page("/-/ready")
    assert host.metric("siltstone_clock_held") == 1
    host.wait_for_sweep(in_years(9))
    assert host.keys("dated") == before, "rules were followed under a clock in doubt"
    # New objects are taken, and go by the clock.
    host.put("dated", "new")
    shown = host.clock()
    assert shown["held"] and shown["compliance_waits"] and shown["ahead_seconds"] > 9 * 365 * DAY.total_seconds()
    host.clock("accept")
    assert host.page("/-/ready") == "ready\n"
    host.wait_until("the expiry", lambda: host.keys("dated") == ["new"])


def test_a_clock_that_is_right_again_has_changed_nothing(host):
    host.server.start()
    fill(host, "dated")
    before = host.keys("dated")
    for offset in ["+2y", "+90d", "+10y"]:
        host.set_clock(offset)
        assert host.metric("siltstone_clock_held") == 1, offset
    host.set_clock("+0")
    assert host.page("/-/ready") == "ready\n"
    assert host.metric("siltstone_clock_held") == 0
    assert host.keys("dated") == before
    host.server.stop()
    host.server.start()
    assert host.metric("siltstone_clock_held") == 0 and host.keys("dated") == before


def test_a_start_with_a_clock_ahead_deletes_nothing_either(host):
    host.server.start()
    fill(host, "dated")
    before = host.keys("dated")
    for end in [host.server.stop, host.server.kill]:
        host.set_clock("+0")
        end()
        host.set_clock("+10y")
        host.server.start()
        assert "The clock jumped ahead" in host.page("/-/ready")
        # The first sweep is that of the start.
        host.wait_for_sweep(in_years(9))
        assert host.keys("dated") == before
    # The doubt is kept over a restart under the same clock.
    host.server.stop()
    host.server.start()
    assert host.metric("siltstone_clock_held") == 1 and host.keys("dated") == before


def test_no_clock_ends_a_retention_in_compliance_mode(host):
    host.server.start()
    s3 = host.server.client()
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    until = datetime.datetime.now(datetime.timezone.utc) + 30 * DAY
    versions = {}
    for mode in ["COMPLIANCE", "GOVERNANCE"]:
        put = s3.put_object(
            Bucket="locked", Key=mode, Body=b"kept", ObjectLockMode=mode, ObjectLockRetainUntilDate=until,
            ChecksumAlgorithm="CRC32",
        )
        versions[mode] = put["VersionId"]

    def delete(mode):
        return host.ask("delete_object", Bucket="locked", Key=mode, VersionId=versions[mode])

    host.set_clock("+60d")
    for mode in versions:
        assert delete(mode) == {"refused": "AccessDenied"}, mode
    host.clock("accept")
    assert delete("COMPLIANCE") == {"refused": "AccessDenied"}
    assert delete("GOVERNANCE") == {"VersionId": versions["GOVERNANCE"]}
    host.server.stop()
    host.server.start()
    assert delete("COMPLIANCE") == {"refused": "AccessDenied"}
    host.set_clock("-60d")
    assert delete("COMPLIANCE") == {"refused": "AccessDenied"}


def test_a_clock_set_back_makes_nothing_old(host):
    host.server.start()
    fill(host, "dated", count=1)
    host.set_clock("-400d")
    assert host.metric("siltstone_clock_behind_seconds") > 399 * DAY.total_seconds()
    host.put("dated", "new")
    made = host.ask("head_object", Bucket="dated", Key="new")["LastModified"]
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(made)
    assert age < DAY, f"an object of the past: {made}"
    host.set_clock("+0")
    host.wait_for_sweep(time.time())
    assert host.keys("dated") == ["k00", "new"]


def test_a_clock_that_jumps_holds_up_no_work(host):
    """Writes, reads, listings and restarts go on, whatever the clock does between them."""
    host.server.start()
    host.server.client().create_bucket(Bucket="busy")
    for nth, offset in enumerate(["+0", "+3y", "-3y", "+40d", "-1d", "+0"]):
        host.set_clock(offset)
        host.put("busy", f"k{nth}", "x" * 10_000)
        assert host.keys("busy") == [f"k{at}" for at in range(nth + 1)]
        if nth % 2:
            host.server.kill()
            host.server.start()
    assert host.ask("get_object", Bucket="busy", Key="k0")["Body"] == "x" * 10_000


def test_the_commands_tell_of_the_clock_in_words(host):
    host.server.start()
    address = ["--endpoint", host.server.url]
    calm = host.run(DYNAMIC, "clock", "show", *address).stdout.splitlines()
    assert [line.split("\t")[0] for line in calm] == ["time", "lock clock"], calm
    host.set_clock("+10y")
    told = host.run(DYNAMIC, "clock", "show", *address).stdout
    for part in ["the time jumped ahead by", "retentions in COMPLIANCE mode go on", "the time is believed in"]:
        assert part in told, told
    said = host.clock("accept")
    assert "jumped ahead" not in said and "retentions in COMPLIANCE mode go on" in said, said
