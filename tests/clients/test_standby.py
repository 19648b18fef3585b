"""Hosts that take over from one another, while the old one is killed, or stalls and comes back; and reads on a standby.

A client writes all the time. After each takeover every object has to be there as it was answered; with --ship async, what was answered
within the interval before the old host stalled may be missing.

| variable | default | |
|---|---|---|
| SILTSTONE_STANDBY_TAKEOVERS | 3 | takeovers of each mode |
| SILTSTONE_STANDBY_BY_ITSELF | 0 | every how many takeovers the standby decides by itself, which takes it 15 s; 0 for none |
| SILTSTONE_STANDBY_SLACK | 3 | seconds that a piece of the log may take beside the interval |
| SILTSTONE_STANDBY_SEED | 1 | of the random numbers |
| SILTSTONE_STANDBY_ENDPOINT, _BUCKET, _ACCESS_KEY, _SECRET_KEY | none | another remote than Siltstone |
| SILTSTONE_STANDBY_PREFIX | box | where that one is empty |
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.request

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

from siltstone import ACCESS_KEY, BINARY, SECRET_KEY, STOP_SECONDS_MAX, clean_environment

TAKEOVERS = int(os.environ.get("SILTSTONE_STANDBY_TAKEOVERS", "3"))
BY_ITSELF = int(os.environ.get("SILTSTONE_STANDBY_BY_ITSELF", "0"))
SLACK_SECONDS = float(os.environ.get("SILTSTONE_STANDBY_SLACK", "3"))
SEED = int(os.environ.get("SILTSTONE_STANDBY_SEED", "1"))
SHIP_EVERY = 0.5
KEYS = 12
SOON = 120
TOOLS = BINARY.with_name("siltstone-tools")
STALE = "x-amz-siltstone-stale"
ONE_TRY = Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=10, s3={"addressing_style": "path"})
UNANSWERED = (HTTPClientError, ConnectionError)


def run(program, server, *arguments):
    environment = clean_environment(server.data_dir.parent)
    command = [str(program), "--data-dir", str(server.data_dir), *arguments]
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def body_of(key, number):
    return f"{key} {number} ".encode() + bytes(random.Random(number).randrange(4000))


class Writes(threading.Thread):
    """Puts to the current writer. For each key it keeps the numbers of its writes, with the time of each answer."""

    def __init__(self):
        super().__init__(daemon=True)
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
        draw = random.Random(SEED)
        while not self.ends.wait(0.01):
            with self.lock:
                if self.s3:
                    self.put(draw.choice(list(self.answered)))

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

    def check(self, server, stalled_at, mode):
        """Reads all keys from a host that has taken over. Once read, a value stays."""
        s3 = server.client(config=Config(s3={"addressing_style": "path"}))
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
                assert age <= SHIP_EVERY + SLACK_SECONDS, f"{key} lost what was answered {age} s before the old host stalled"
            self.answered[key] = [(number, 0.0)] if number else []
            self.unanswered[key] = set()


def takes_writes(server):
    s3 = server.client(config=ONE_TRY)
    for _ in range(SOON * 10):
        try:
            return s3.put_object(Bucket="data", Key="probe", Body=b"")
        except (ClientError, *UNANSWERED):
            assert server.is_running(), server.log.read_text()
            time.sleep(0.1)
    raise AssertionError(f"no writes are taken: {server.log.read_text()}")


def promote(standby):
    for _ in range(SOON * 10):
        done = run(BINARY, standby, "promote")
        if done.returncode == 0:
            return
        is_early = "no standby runs" in done.stderr or "waits for a first log" in done.stderr
        assert standby.is_running() and is_early, done.stderr + standby.log.read_text()
        time.sleep(0.1)
    raise AssertionError("no standby runs")


def late_writes(old, mode):
    """Writes to a host that comes back: with sync it answers none. Returns the keys of those that it answered."""
    old.process.send_signal(signal.SIGCONT)
    s3, answered = old.client(config=ONE_TRY), []
    until = time.monotonic() + SOON
    for at in range(SOON * 100):
        try:
            s3.put_object(Bucket="data", Key=f"late-{at}", Body=b"late")
            answered.append(f"late-{at}")
        except UNANSWERED:
            # It ends once it has noticed.
            if not old.is_running():
                break
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 503, error
            if "another host has taken over" in old.log.read_text() or at >= 5:
                break
        assert time.monotonic() < until, "it does not notice that it was taken over"
    assert mode == "async" or not answered, f"a fenced host answered {answered}"
    return answered


class Hosts:
    """The writer, its standby, and the remote of both."""

    def __init__(self, own_server, config, mode):
        self.own_server, self.config = own_server, config
        self.shipping = ["--config", str(config), "--ship", mode, "--ship-every", f"{int(SHIP_EVERY * 1000)}ms"]
        self.writer = own_server("--bucket", "data").start()
        self.writer.stop()
        done = run(TOOLS, self.writer, "remote", "--config", str(config), "init", "--rounds", "3")
        assert done.returncode == 0, done.stdout + done.stderr
        self.writer.arguments += self.shipping
        self.writer.start()
        self.standby = self.new_standby([])

    def new_standby(self, more):
        return self.own_server("standby", *self.shipping, *more).start()

    def divergent(self, server):
        done = run(TOOLS, server, "remote", "--config", str(self.config), "divergent")
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.stdout


def end_fenced(server):
    """Ends a host that was taken over. Once it has noticed, it ends by itself, with the status that its service manager starts it again at."""
    if server.is_running():
        server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(STOP_SECONDS_MAX) in (0, 3), server.log.read_text()
    server.process.stdout.close()


def take_over(hosts, writes, draw, mode, by_itself):
    """One takeover; the old host is gone afterwards, and a new standby is there."""
    old, new = hosts.writer, hosts.standby
    time.sleep(draw.uniform(0.2, 2))
    comes_back = draw.random() < 0.5
    stalled_at = time.monotonic()
    if comes_back:
        old.process.send_signal(signal.SIGSTOP)
    else:
        old.kill()
    writes.rest()
    begun = time.monotonic()
    if not by_itself:
        promote(new)
    takes_writes(new)
    took = time.monotonic() - begun
    writes.check(new, stalled_at, mode)
    writes.use(new)
    late = late_writes(old, mode) if comes_back else []
    if comes_back:
        end_fenced(old)
    told = hosts.divergent(old)
    for key in late:
        assert re.search(rf'put data/"{key}" version', told), f"{key} is not listed:\n{told}"
    shutil.rmtree(old.data_dir)
    hosts.writer = new
    return took


def take_over_often(own_server, tmp_path, section, mode):
    config = tmp_path / "remote.toml"
    config.write_text("[remote]\n" + "".join(f"{name} = '{value}'\n" for name, value in section.items()))
    hosts, writes, draw = Hosts(own_server, config, mode), Writes(), random.Random(SEED)
    takes_writes(hosts.writer)
    writes.use(hosts.writer)
    writes.start()
    times = []
    for round in range(1, TAKEOVERS + 1):
        by_itself = BY_ITSELF > 0 and round % BY_ITSELF == 0
        if by_itself:
            hosts.standby.stop()
            hosts.standby.arguments += ["--takeover-after", "15s"]
            hosts.standby.start()
        took = take_over(hosts, writes, draw, mode, by_itself)
        if not by_itself:
            times.append(took)
        hosts.standby = hosts.new_standby([])
        assert writes.is_alive(), "the client has failed"
    writes.ends.set()
    writes.join()
    times.sort()
    print(f"{mode}: {TAKEOVERS} takeovers, {writes.counts}, the oldest that was lost {writes.oldest_lost:.2f} s before the stall, "
          f"writes after {times[len(times) // 2]:.2f} s (median), {times[-1]:.2f} s (most)")


def section_of(endpoint, bucket="cold", access_key=ACCESS_KEY, secret_key=SECRET_KEY, prefix="box"):
    return {"endpoint": endpoint, "bucket": bucket, "prefix": prefix, "access_key": access_key, "secret_key": secret_key}


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_takeovers_with_siltstone_as_the_remote(own_server, tmp_path, mode):
    remote = own_server("--bucket", "cold").start()
    take_over_often(own_server, tmp_path, section_of(remote.url), mode)


@pytest.mark.skipif("SILTSTONE_STANDBY_ENDPOINT" not in os.environ, reason="no other server is named")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_takeovers_with_another_server_as_the_remote(own_server, tmp_path, mode):
    named = {name: os.environ[f"SILTSTONE_STANDBY_{name.upper()}"] for name in ("endpoint", "bucket", "access_key", "secret_key")}
    prefix = os.environ.get("SILTSTONE_STANDBY_PREFIX", "box")
    take_over_often(own_server, tmp_path, section_of(**named, prefix=f"{prefix}-{mode}"), mode)


def test_promote_on_a_standby_that_waits_for_a_first_log_says_so(own_server, tmp_path):
    remote = own_server("--bucket", "cold").start()
    config = tmp_path / "remote.toml"
    config.write_text("[remote]\n" + "".join(f"{name} = '{value}'\n" for name, value in section_of(remote.url).items()))
    writer = own_server("--bucket", "data").start()
    writer.stop()
    standby = own_server("standby", "--config", str(config), "--ship", "sync").start()

    def refused():
        """The answer of promote once the standby has looked at the remote."""
        for _ in range(SOON * 10):
            done = run(BINARY, standby, "promote")
            if "no standby runs" not in done.stderr:
                return done
            assert standby.is_running(), standby.log.read_text()
            time.sleep(0.1)
        raise AssertionError(standby.log.read_text())

    done = refused()
    assert done.returncode == 1 and "waits for a first log" in done.stderr, done.stdout + done.stderr
    marked = run(TOOLS, writer, "remote", "--config", str(config), "init", "--rounds", "3")
    assert marked.returncode == 0, marked.stdout + marked.stderr
    done = refused()
    assert done.returncode == 1 and "waits for a first log" in done.stderr, done.stdout + done.stderr
    writer.arguments += ["--config", str(config), "--ship", "sync"]
    writer.start()
    takes_writes(writer)
    promote(standby)
    takes_writes(standby)


def reads_of(s3, anonymous):
    """Every kind of read of the bucket data, by name. An answer holds what the server says of the bucket and nothing of the host."""
    versions = s3.list_object_versions(Bucket="data")
    old = [version["VersionId"] for version in versions["Versions"] if not version["IsLatest"]]
    upload = s3.list_multipart_uploads(Bucket="data")["Uploads"][0]["UploadId"]
    at = {"Bucket": "data", "Key": "key"}
    link = s3.generate_presigned_url("get_object", Params=at)
    answers = {
        "buckets": s3.list_buckets(),
        "bucket": s3.head_bucket(Bucket="data"),
        "objects": s3.list_objects_v2(Bucket="data"),
        "old objects": s3.list_objects(Bucket="data", Delimiter="/"),
        "versions": versions,
        "object": s3.get_object(**at),
        "range": s3.get_object(**at, Range="bytes=3-70000"),
        "old version": s3.get_object(**at, VersionId=old[0]),
        "head": s3.head_object(**at),
        "attributes": s3.get_object_attributes(**at, ObjectAttributes=["ETag", "ObjectSize", "Checksum"]),
        "tags": s3.get_object_tagging(**at),
        "acl": s3.get_object_acl(**at),
        "policy": s3.get_bucket_policy(Bucket="data"),
        "versioning": s3.get_bucket_versioning(Bucket="data"),
        "uploads": s3.list_multipart_uploads(Bucket="data"),
        "parts": s3.list_parts(Bucket="data", Key="large", UploadId=upload),
        "public": anonymous.get_object(**at),
    }
    stale = {name: answer.pop("ResponseMetadata")["HTTPHeaders"].get(STALE) for name, answer in answers.items()}
    for answer in answers.values():
        if "Body" in answer:
            answer["Body"] = answer["Body"].read()
    with urllib.request.urlopen(link) as answer:
        answers["presigned"], stale["presigned"] = answer.read(), answer.headers[STALE]
    return answers, stale


def writes_to(s3):
    """Writes of several kinds, each a function."""
    at = {"Bucket": "data", "Key": "key"}
    upload = s3.list_multipart_uploads(Bucket="data")["Uploads"][0]["UploadId"]
    yield lambda: s3.put_object(**at, Body=b"other")
    yield lambda: s3.delete_object(**at)
    yield lambda: s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": "key"}]})
    yield lambda: s3.copy_object(Bucket="data", Key="copy", CopySource=at)
    yield lambda: s3.put_object_tagging(**at, Tagging={"TagSet": []})
    yield lambda: s3.create_bucket(Bucket="other")
    yield lambda: s3.create_multipart_upload(**at)
    yield lambda: s3.upload_part(Bucket="data", Key="large", UploadId=upload, PartNumber=2, Body=b"part")
    yield lambda: s3.abort_multipart_upload(Bucket="data", Key="large", UploadId=upload)


def test_a_standby_answers_every_kind_of_read_as_the_writer_and_no_write(own_server, tmp_path):
    remote = own_server("--bucket", "cold").start()
    config = tmp_path / "remote.toml"
    config.write_text("[remote]\n" + "".join(f"{name} = '{value}'\n" for name, value in section_of(remote.url).items()))
    hosts = Hosts(own_server, config, "async")
    standby = hosts.new_standby(["--standby-reads", "true"])
    s3 = hosts.writer.client(config=ONE_TRY)
    s3.put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Enabled"})
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*"}
    s3.put_bucket_policy(Bucket="data", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    s3.put_object(Bucket="data", Key="key", Body=b"first")
    s3.put_object(Bucket="data", Key="key", Body=random.Random(1).randbytes(300_000), Tagging="a=b", Metadata={"nth": "2"})
    upload = s3.create_multipart_upload(Bucket="data", Key="large")["UploadId"]
    s3.upload_part(Bucket="data", Key="large", UploadId=upload, PartNumber=1, Body=bytes(5 << 20))
    s3.put_object(Bucket="data", Key="last", Body=b"")

    read = standby.client(config=ONE_TRY)
    for _ in range(SOON * 10):
        try:
            read.head_object(Bucket="data", Key="last")
            break
        except (ClientError, *UNANSWERED):
            time.sleep(0.1)
    theirs, marks = reads_of(read, standby.anonymous())
    ours, none = reads_of(s3, hosts.writer.anonymous())
    assert theirs == ours
    assert all(mark is not None and int(mark) < SOON for mark in marks.values()), marks
    assert set(none.values()) == {None}
    for write in writes_to(read):
        with pytest.raises(ClientError) as refused:
            write()
        answer = refused.value.response
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 503 and "standby" in answer["Error"]["Message"], answer
        assert answer["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "10"
    assert reads_of(read, standby.anonymous())[0] == ours
