"""Webhooks: boto3 configures notifications, and targets of all kinds get the events of S3."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from siltstone import ACCESS_KEY, BINARY, ROOT, SECRET_KEY, clean_environment, free_port
from webhook_target import Target

SECRET = b"hush"
# Events of the run beside failing targets: 100000 take some minutes.
EVENTS = int(os.environ.get("SILTSTONE_WEBHOOK_EVENTS", 1200))


@pytest.fixture
def targets():
    """Makes targets, and stops them at the end."""
    made = []

    def make(**more):
        made.append(Target(**more).start())
        return made[-1]

    yield make
    for target in made:
        target.stop()


def configured(tmp_path, own_server, named, *options, **settings):
    """A server with these targets; `settings` are lines for the tables by name."""
    (tmp_path / "secret").write_bytes(SECRET)
    tables = []
    for name, url in named.items():
        lines = settings.get(name, "")
        secret = f"secret_file = '{tmp_path}/secret'\n"
        tables.append(f"[[webhook]]\nname = '{name}'\nurl = '{url}'\n{secret}{lines}\n")
    config = tmp_path / "siltstone.toml"
    config.write_text("".join(tables))
    return own_server("--config", str(config), *options).start()


def until(condition, seconds=60):
    """Waits for a condition that comes in its own time; the bound only ends a test that would never end."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)


def memory_of(server):
    """The resident bytes of the process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) << 10


def metric(server, name, target):
    with urllib.request.urlopen(f"{server.url}/-/metrics") as answer:
        text = answer.read().decode()
    found = re.search(rf'^siltstone_webhook_{name}{{target="{target}"}} (\d+)$', text, re.M)
    return int(found.group(1))


def queue(name, *events, prefix=None, suffix=None, identity=None):
    rules = [{"Name": kind, "Value": value} for kind, value in [("prefix", prefix), ("suffix", suffix)] if value]
    one = {"QueueArn": f"arn:minio:sqs::{name}:webhook", "Events": list(events)}
    one |= {"Id": identity} if identity else {}
    one |= {"Filter": {"Key": {"FilterRules": rules}}} if rules else {}
    return one


def notify(client, bucket, *queues):
    client.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": list(queues)}
    )


def status(server, tmp_path, *arguments):
    """The lines of `siltstone webhook status`."""
    command = [str(BINARY), "webhook", "status", *arguments, "--listen", f"127.0.0.1:{server.port}"]
    keys = clean_environment(tmp_path, SILTSTONE_ACCESS_KEY=ACCESS_KEY, SILTSTONE_SECRET_KEY=SECRET_KEY)
    done = subprocess.run(command, env=keys, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def in_order(records):
    """Checks that of each key the sequencers increase, apart from what was sent again."""
    last, seen = {}, {}
    for record in records:
        key, sequencer = record["s3"]["object"]["key"], record["s3"]["object"]["sequencer"]
        known = seen.setdefault(key, set())
        if sequencer not in known:
            assert sequencer > last.get(key, ""), f"{key}: {sequencer} after {last[key]}"
            last[key] = sequencer
        known.add(sequencer)
    return seen


def test_buckets_choose_the_events_of_a_target(own_server, targets, tmp_path):
    target = targets(secret=SECRET)
    server = configured(tmp_path, own_server, {"thumbs": target.url})
    client = server.client()
    client.create_bucket(Bucket="photos")
    assert "QueueConfigurations" not in client.get_bucket_notification_configuration(Bucket="photos")
    with pytest.raises(ClientError, match="Unable to validate the following destination configurations"):
        notify(client, "photos", queue("nobody", "s3:ObjectCreated:*"))
    chosen = [
        queue("thumbs", "s3:ObjectCreated:*", prefix="in/", suffix=".jpg", identity="new"),
        queue("thumbs", "s3:ObjectRemoved:*", "s3:ObjectTagging:*", identity="changed"),
    ]
    notify(client, "photos", *chosen)
    stored = client.get_bucket_notification_configuration(Bucket="photos")["QueueConfigurations"]
    assert stored == chosen
    until(lambda: target.tests)
    told = target.tests[0]
    assert (told["Service"], told["Event"], told["Bucket"]) == ("Amazon S3", "s3:TestEvent", "photos")
    assert told["RequestId"] and told["HostId"] == told["RequestId"]

    key = "in/red flower ü+.jpg"
    etag = client.put_object(Bucket="photos", Key=key, Body=b"picture")["ETag"]
    client.put_object(Bucket="photos", Key="out/other.jpg", Body=b"x")
    client.copy_object(Bucket="photos", Key="in/copy.jpg", CopySource={"Bucket": "photos", "Key": key})
    upload = client.create_multipart_upload(Bucket="photos", Key="in/parts.jpg")["UploadId"]
    part = client.upload_part(Bucket="photos", Key="in/parts.jpg", UploadId=upload, PartNumber=1, Body=b"p")
    client.complete_multipart_upload(
        Bucket="photos", Key="in/parts.jpg", UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
    )
    form = client.generate_presigned_post("photos", "in/form.jpg")
    boundary = "x" * 20
    body = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in [*form["fields"].items(), ("file", "content")]
    )
    urllib.request.urlopen(urllib.request.Request(
        form["url"], f"{body}--{boundary}--\r\n".encode(),
        {"Content-Type": f"multipart/form-data; boundary={boundary}"},
    )).close()
    tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
    client.put_object_tagging(Bucket="photos", Key=key, Tagging=tags)
    client.delete_object_tagging(Bucket="photos", Key=key)
    client.delete_object(Bucket="photos", Key=key)
    # Ids are told as the bucket has them at delivery.
    until(lambda: len(target.keys()) >= 7)
    client.put_bucket_versioning(Bucket="photos", VersioningConfiguration={"Status": "Enabled"})
    marker = client.delete_object(Bucket="photos", Key="in/copy.jpg")["VersionId"]
    until(lambda: len(target.keys()) >= 8)

    told = [(r["eventName"], urllib.parse.unquote_plus(r["s3"]["object"]["key"])) for r in target.records]
    assert told == [
        ("ObjectCreated:Put", key),
        ("ObjectCreated:Copy", "in/copy.jpg"),
        ("ObjectCreated:CompleteMultipartUpload", "in/parts.jpg"),
        ("ObjectCreated:Post", "in/form.jpg"),
        ("ObjectTagging:Put", key),
        ("ObjectTagging:Delete", key),
        ("ObjectRemoved:Delete", key),
        ("ObjectRemoved:DeleteMarkerCreated", "in/copy.jpg"),
    ]
    first = target.records[0]
    assert first["s3"]["object"]["key"] == "in/red+flower+%C3%BC%2B.jpg"
    assert (first["s3"]["object"]["size"], first["s3"]["object"]["eTag"]) == (7, etag.strip('"'))
    assert "versionId" not in first["s3"]["object"]
    assert (first["s3"]["bucket"]["name"], first["awsRegion"]) == ("photos", "eu")
    assert (first["s3"]["configurationId"], target.records[7]["s3"]["configurationId"]) == ("new", "changed")
    assert (target.records[7]["s3"]["object"]["versionId"]) == marker
    assert first["userIdentity"]["principalId"] == "admin"
    assert first["requestParameters"]["sourceIPAddress"] == "127.0.0.1"
    assert re.fullmatch("[0-9A-F]{16}", first["responseElements"]["x-amz-request-id"])
    in_order(target.records)
    until(lambda: metric(server, "delivered_total", "thumbs") == 9)
    assert metric(server, "failed_requests_total", "thumbs") == 0

    notify(client, "photos")
    client.put_object(Bucket="photos", Key="in/unseen.jpg", Body=b"x")
    until(lambda: metric(server, "waiting_groups", "thumbs") == 0)
    assert "in/unseen.jpg" not in target.keys()


def test_failing_targets_hold_up_nobody(own_server, targets, tmp_path):
    """Beside a good target, others that answer 500, hang, reset and are slow: nothing waits for them, and they get all in the end."""
    kinds = ["good", "fail", "hang", "reset", "slow"]
    named = {kind: targets(secret=SECRET) for kind in kinds}
    every = "events = ['s3:ObjectCreated:*', 's3:ObjectRemoved:*']\ntimeout = '1s'\nbatch = 20\n"
    # A busy host must not make the good one fail.
    settings = dict.fromkeys(kinds, every) | {"good": every.replace("1s", "1m")}
    server = configured(tmp_path, own_server, {kind: target.url for kind, target in named.items()}, **settings)
    client = server.client()
    client.create_bucket(Bucket="box")
    for kind, target in named.items():
        target.behaviour = "accept" if kind == "good" else kind

    def write(count):
        for at in range(count):
            client.put_object(Bucket="box", Key=f"k{at % 50}", Body=b"x")

    write(200)
    until(lambda: metric(server, "waiting_groups", "good") == 0)
    resident = [memory_of(server)]
    slowest = 0.0
    for at in range(EVENTS - 200):
        begun = time.monotonic()
        write(1)
        slowest = max(slowest, time.monotonic() - begun)
        if at % (EVENTS // 10) == 0:
            resident.append(memory_of(server))
    until(lambda: metric(server, "waiting_groups", "good") == 0, 60 + EVENTS // 100)
    assert sum(map(len, in_order(named["good"].records).values())) == EVENTS
    for kind in ["fail", "hang", "reset"]:
        assert not named[kind].records
        until(lambda: metric(server, "failed_requests_total", kind) > 1)
        assert metric(server, "waiting_groups", kind) >= EVENTS - 200
    resident.append(memory_of(server))
    assert max(resident) - resident[0] < 32 << 20, f"what targets have not accepted is kept in memory: {resident}"
    assert 0 < named["slow"].largest_batch <= 20

    for target in named.values():
        target.behaviour = "accept"
        target.released.set()
    for kind, target in named.items():
        until(lambda: metric(server, "waiting_groups", kind) == 0, 180 + EVENTS // 50)
        assert sum(map(len, in_order(target.records).values())) == EVENTS, kind
    resident.append(memory_of(server))
    print(f"{EVENTS} events; the slowest put took {slowest:.3f} s; resident MiB over time: {[one >> 20 for one in resident]}")


def test_refused_events_alone_are_dropped(own_server, targets, tmp_path):
    target = targets(secret=SECRET)
    target.behaviour = "refuse"
    server = configured(
        tmp_path, own_server, {"thumbs": target.url},
        thumbs="events = ['s3:ObjectCreated:Put']\nbuckets = ['box']\ndrop_refused_after = '1s'\ndelay = '2s'\n",
    )
    client = server.client()
    client.create_bucket(Bucket="box")
    client.create_bucket(Bucket="other")
    client.put_object(Bucket="other", Key="unseen", Body=b"x")
    for key in ["a", "poison", "c"]:
        client.put_object(Bucket="box", Key=key, Body=b"x")
    until(lambda: target.keys() == ["a", "c"])
    until(lambda: metric(server, "delivered_total", "thumbs") == 2)
    assert metric(server, "dropped_total", "thumbs") == 1
    assert "refuses an event, which is dropped" in server.log.read_text()


def test_lifecycle_rules_acls_and_null_versions_are_told(own_server, targets, tmp_path):
    target = targets(secret=SECRET)
    server = configured(
        tmp_path, own_server, {"audit": target.url}, "--object-ownership", "ObjectWriter",
        audit="events = ['s3:LifecycleExpiration:*', 's3:ObjectAcl:Put', 's3:ObjectRemoved:Delete']\n",
    )
    client = server.client()
    client.create_bucket(Bucket="plain")
    client.put_object(Bucket="plain", Key="old/gone", Body=b"x")
    client.create_bucket(Bucket="kept")
    client.put_object(Bucket="kept", Key="a/null", Body=b"x")
    client.put_object_acl(Bucket="kept", Key="a/null", ACL="public-read")
    client.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
    version = client.put_object(Bucket="kept", Key="a/null", Body=b"y")["VersionId"]
    client.put_object(Bucket="kept", Key="old/hidden", Body=b"x")
    client.delete_object(Bucket="kept", Key="a/null", VersionId="null")
    client.delete_object(Bucket="kept", Key="a/null", VersionId=version)
    rule = {"ID": "past", "Filter": {"Prefix": "old/"}, "Status": "Enabled", "Expiration": {"Date": "2020-01-01T00:00:00Z"}}
    for bucket in ["plain", "kept"]:
        client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    # A start sweeps at once.
    server.stop()
    server.start()
    until(lambda: len({record["s3"]["object"]["sequencer"] for record in target.records}) == 5)
    events = {}
    for record in target.records:
        events[record["eventName"], record["s3"]["object"].get("versionId")] = record
    marker = server.client().list_object_versions(Bucket="kept", Prefix="old/")["DeleteMarkers"][0]["VersionId"]
    assert set(events) == {
        ("LifecycleExpiration:Delete", None),
        ("LifecycleExpiration:DeleteMarkerCreated", marker),
        ("ObjectAcl:Put", None),
        ("ObjectRemoved:Delete", "null"),
        ("ObjectRemoved:Delete", version),
    } or set(events) == {
        ("LifecycleExpiration:Delete", None),
        ("LifecycleExpiration:DeleteMarkerCreated", marker),
        ("ObjectAcl:Put", "null"),
        ("ObjectRemoved:Delete", "null"),
        ("ObjectRemoved:Delete", version),
    }, events.keys()
    expired = events["LifecycleExpiration:Delete", None]
    assert (expired["s3"]["bucket"]["name"], expired["s3"]["object"]["key"]) == ("plain", "old/gone")
    assert expired["userIdentity"]["principalId"] == "s3.amazonaws.com"


def test_a_target_chooses_the_time_of_the_next_try(own_server, targets, tmp_path):
    target = targets(secret=SECRET)
    target.behaviour, target.retry_after = "later", "4"
    server = configured(tmp_path, own_server, {"t": target.url}, t="events = ['s3:ObjectCreated:Put']\n")
    client = server.client()
    client.create_bucket(Bucket="box")
    client.put_object(Bucket="box", Key="k", Body=b"x")
    until(lambda: target.requests == 2)
    target.behaviour = "accept"
    until(lambda: target.keys() == ["k"])
    pauses = [later - earlier for earlier, later in zip(target.arrivals, target.arrivals[1:])]
    # Without Retry-After they would be within half a second and one second.
    assert len(pauses) == 2 and all(pause >= 4 for pause in pauses), pauses


def test_a_secret_is_read_again(own_server, targets, tmp_path):
    target = targets(secret=SECRET)
    server = configured(tmp_path, own_server, {"t": target.url}, t="events = ['s3:ObjectCreated:Put']\n")
    client = server.client()
    client.create_bucket(Bucket="box")
    for key, secret in [("one", SECRET), ("two", b"another")]:
        target.secret = secret
        (tmp_path / "secret").write_bytes(secret)
        server.process.send_signal(signal.SIGHUP)
        client.put_object(Bucket="box", Key=key, Body=b"x")
        until(lambda: key in target.keys())
    (tmp_path / "secret").write_bytes(b"")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "the secret of the webhook t is unchanged" in server.log.read_text())
    client.put_object(Bucket="box", Key="three", Body=b"x")
    until(lambda: "three" in target.keys())


def test_a_target_that_is_away_for_too_long_is_told_so(own_server, targets, tmp_path):
    """The log that it needs is gone: it gets a message of its own, and then everything that is kept."""
    target = targets(secret=SECRET)
    server = configured(
        tmp_path, own_server, {"t": target.url}, "--follow-max", "1MiB", t="events = ['s3:ObjectCreated:*']\ntimeout = '1s'\n"
    )
    client = server.client()
    client.create_bucket(Bucket="box")
    client.put_object(Bucket="box", Key="first", Body=b"x")
    until(lambda: metric(server, "waiting_groups", "t") == 0)
    target.behaviour = "fail"
    client.put_object(Bucket="box", Key="lost", Body=b"x")
    # Null markers that replace one another fill the log, and nothing else.
    client.put_bucket_versioning(Bucket="box", VersioningConfiguration={"Status": "Suspended"})
    keys = {"Objects": [{"Key": f"{at:04}" + "k" * 1000} for at in range(1000)], "Quiet": True}
    for _ in range(80):
        client.delete_objects(Bucket="box", Delete=keys)
    for key in ["kept", "kept too"]:
        server.stop()
        server.start()
        client = server.client()
        client.put_object(Bucket="box", Key=key, Body=b"x")
    with urllib.request.urlopen(f"{server.url}/-/ready") as answer:
        assert b"the log was not kept for so long" in answer.read()
    assert metric(server, "waiting_groups", "t") > 0
    until(lambda: "failing since" in status(server, tmp_path, "t")[0])
    assert "losing events" in status(server, tmp_path)[0] and "it answers 500" in status(server, tmp_path)[0]
    target.behaviour = "accept"
    until(lambda: {"kept", "kept+too"} <= set(target.keys()))
    assert "lost" not in target.keys()
    notice = next(message for message in target.tests if message["Event"] == "siltstone:EventsLost")
    sequencers = {r["s3"]["object"]["key"]: r["s3"]["object"]["sequencer"] for r in target.records}
    assert notice["Service"] == "Siltstone" and "Records" not in notice
    assert sequencers["first"] <= notice["After"] < notice["Through"] < sequencers["kept"] < sequencers["kept+too"]
    assert metric(server, "overruns_total", "t") == 1
    assert "1 times lost" in status(server, tmp_path)[0]
    until(lambda: metric(server, "waiting_groups", "t") == 0)
    with urllib.request.urlopen(f"{server.url}/-/ready") as answer:
        assert answer.read() == b"ready\n"
    assert "the log was not kept for so long" in server.log.read_text()


def test_events_of_a_bucket_that_is_gone_survive_a_restart(own_server, targets, tmp_path):
    target = targets(secret=SECRET)
    server = configured(tmp_path, own_server, {"t": target.url}, t="timeout = '1s'\n")
    client = server.client()
    client.create_bucket(Bucket="box")
    notify(client, "box", queue("t", "s3:ObjectCreated:*", "s3:ObjectRemoved:*", prefix="in/", identity="mine"))
    until(lambda: target.tests)
    target.behaviour = "fail"
    for key in ["in/a", "out/b"]:
        client.put_object(Bucket="box", Key=key, Body=b"x")
        client.delete_object(Bucket="box", Key=key)
    client.delete_bucket(Bucket="box")
    # Its name has another owner of events now.
    client.create_bucket(Bucket="box")
    server.kill()
    server.start()
    target.behaviour = "accept"
    until(lambda: len(target.keys()) >= 2)
    until(lambda: metric(server, "waiting_groups", "t") == 0)
    told = [(r["eventName"], r["s3"]["bucket"]["name"], r["s3"]["object"]["key"]) for r in target.records]
    assert told == [("ObjectCreated:Put", "box", "in/a"), ("ObjectRemoved:Delete", "box", "in/a")]
    assert {record["s3"]["configurationId"] for record in target.records} == {"mine"}
    assert [message["Event"] for message in target.tests] == ["s3:TestEvent"]


def test_nothing_is_lost_over_kills_of_server_and_target(own_server, tmp_path):
    """Both processes are killed at random under load: every acknowledged put reaches the target, in order by key."""
    kept = tmp_path / "kept"
    here = Path(__file__).with_name("webhook_target.py")

    def start_target(port):
        process = subprocess.Popen([sys.executable, str(here), str(port), str(kept)], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        return process

    port = free_port()
    target = start_target(port)
    server = configured(
        tmp_path, own_server, {"audit": f"http://127.0.0.1:{port}/"},
        audit="events = ['s3:ObjectCreated:*']\nbatch = 7\ndelay = '50ms'\ntimeout = '1s'\n",
    )
    server.client().create_bucket(Bucket="box")
    chance, written = random.Random(7), []
    for round_ in range(12):
        client = server.client()
        for at in range(chance.randrange(5, 60)):
            key = f"k{chance.randrange(10)}"
            etag = client.put_object(Bucket="box", Key=key, Body=f"{round_} {at}".encode())["ETag"]
            written.append((key, etag.strip('"')))
        time.sleep(chance.random() / 4)
        if chance.random() < 0.7:
            server.kill()
        if chance.random() < 0.7:
            target.kill()
            target.wait()
        if target.poll() is not None:
            target = start_target(port)
        if not server.is_running():
            server.start()

    def records():
        return [json.loads(line) for line in kept.read_text().splitlines()]

    def told():
        return {(r["s3"]["object"]["key"], r["s3"]["object"]["eTag"]) for r in records()}

    try:
        until(lambda: set(written) <= told(), 120)
        seen = in_order(records())
        print(f"{len(written)} puts, {len(records())} records, {sum(map(len, seen.values()))} events")
    finally:
        target.kill()
        target.wait()


STUB = """
class RedisError(Exception):
    pass

class Redis:
    @classmethod
    def from_url(cls, url):
        assert url == "redis://127.0.0.1:6379"
        return cls()

    def xadd(self, stream, fields):
        with open("stream", "a") as file:
            file.write(f"{stream} {fields['record']}\\n")
"""


def test_the_bridge_of_the_guide_takes_events(own_server, tmp_path):
    """The bridge that the page `webhooks` shows, with a stub in the place of the library of Redis."""
    page = (ROOT / "src/guide/webhooks.md").read_text()
    (tmp_path / "bridge.py").write_text(re.search(r"```python\n(# bridge\.py.*?)```", page, re.S).group(1))
    (tmp_path / "redis.py").write_text(STUB)
    port = free_port()
    bridge = subprocess.Popen([sys.executable, "bridge.py"], cwd=tmp_path, env=clean_environment(tmp_path, PORT=str(port)))
    try:
        server = configured(
            tmp_path, own_server, {"queue": f"http://127.0.0.1:{port}"}, queue="events = ['s3:ObjectCreated:Put']\n"
        )
        client = server.client()
        client.create_bucket(Bucket="box")
        for key in ["one", "two"]:
            client.put_object(Bucket="box", Key=key, Body=b"x")
        stream = tmp_path / "stream"
        until(lambda: stream.exists() and len(stream.read_text().splitlines()) >= 2)
        told = [json.loads(line.removeprefix("s3-events ")) for line in stream.read_text().splitlines()]
        assert [record["s3"]["object"]["key"] for record in told] == ["one", "two"]
    finally:
        bridge.kill()
        bridge.wait()


def test_the_check_of_signatures_in_the_guide_holds(own_server, targets, tmp_path):
    page = (ROOT / "src/guide/webhooks.md").read_text()
    guide = {}
    exec(re.search(r"```python\n(import hashlib.*?)```", page, re.S).group(1), guide)
    seen = []
    target = targets()
    target.check = lambda header, body: seen.append((header, body))
    server = configured(tmp_path, own_server, {"t": target.url}, t="events = ['s3:ObjectCreated:Put']\n")
    client = server.client()
    client.create_bucket(Bucket="box")
    client.put_object(Bucket="box", Key="k", Body=b"x")
    until(lambda: seen)
    header, body = seen[0]
    assert guide["is_signed"](SECRET, header, body)
    assert not guide["is_signed"](b"other", header, body) and not guide["is_signed"](SECRET, header, body + b" ")
