"""Encrypted objects, and an encrypted data directory, on all the ways that bytes take: a log on a remote, a standby, a tier, a mirror, events,
backups, restores and rebuilds; without the keys, and with them again."""

import base64
import hashlib
import json
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError

from siltstone import BINARY, clean_environment
from takeovers import ONE_TRY, SOON, TOOLS, UNANSWERED, promote, run, section_of, shipping_writer, takes_writes, write_section
from webhook_target import Target

KEY = b"the key of a customer, 32 bytes."
OTHER = b"another key of that customer, ok"
PLANTED = b"the words that nobody may find anywhere "
PART = 5 << 20
CUSTOMER = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": KEY}
KINDS = {"s3": {"ServerSideEncryption": "AES256"}, "kms": {"ServerSideEncryption": "aws:kms"}, "customer": CUSTOMER}
# What is in each of the objects, by its name beside the kind.
BODIES = {"small": PLANTED, "large": PLANTED * 30_000, "parts": PLANTED * (PART // len(PLANTED) + 1) + PLANTED}
# The first package ends at 65520; each begins and ends somewhere in an extent.
RANGES = [(0, 0), (65_519, 65_521), (100_000, 300_000), (131_039, 131_041)]


def until(condition, told, seconds=SOON):
    """Waits for what comes in its own time; the bound only ends a test that would never end."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, told()
        time.sleep(0.1)


def tools(tmp_path, *arguments, code=0):
    done = subprocess.run([str(TOOLS), *map(str, arguments)], env=clean_environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == code, f"{arguments}: {done.returncode} {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def reading(kind):
    return CUSTOMER if kind == "customer" else {}


def fill(s3, bucket="data", kinds=KINDS):
    """Objects of each kind and size, and an upload of each kind that is left in the middle. Gives the ids of the uploads and their parts."""
    begun = {}
    for kind in kinds:
        asked = KINDS[kind]
        for name in ("small", "large"):
            s3.put_object(Bucket=bucket, Key=f"{kind}-{name}", Body=BODIES[name], **asked)
        upload = s3.create_multipart_upload(Bucket=bucket, Key=f"{kind}-parts", **asked)["UploadId"]
        part = s3.upload_part(
            Bucket=bucket, Key=f"{kind}-parts", UploadId=upload, PartNumber=1, Body=BODIES["parts"][:PART], **reading(kind)
        )
        begun[kind] = (upload, part["ETag"])
    return begun


def complete(s3, begun, bucket="data"):
    for kind, (upload, first) in begun.items():
        at = {"Bucket": bucket, "Key": f"{kind}-parts", "UploadId": upload}
        last = s3.upload_part(**at, PartNumber=2, Body=BODIES["parts"][PART:], **reading(kind))["ETag"]
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in ((1, first), (2, last))]
        s3.complete_multipart_upload(**at, MultipartUpload={"Parts": parts}, **reading(kind))


def check(s3, names=("small", "large"), bucket="data", kinds=KINDS):
    for kind in kinds:
        for name in names:
            at = {"Bucket": bucket, "Key": f"{kind}-{name}", **reading(kind)}
            assert s3.get_object(**at)["Body"].read() == BODIES[name], at["Key"]
            for first, last in RANGES if name != "small" else []:
                part = s3.get_object(**at, Range=f"bytes={first}-{last}")["Body"].read()
                assert part == BODIES[name][first : last + 1], (at["Key"], first, last)


def check_without_ring(s3, names=("small", "large"), bucket="data"):
    """Objects of the ring are refused by the name of their key, and are no damage; those of customers need no ring."""
    check(s3, names, bucket, ["customer"])
    for kind in ("s3", "kms"):
        for name in names:
            with pytest.raises(ClientError) as refused:
                s3.get_object(Bucket=bucket, Key=f"{kind}-{name}")
            answer = refused.value.response
            told = answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]
            assert told == ("KMS.NotFoundException", 400)
    listed = {item["Key"]: item["Size"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    assert all(listed[f"{kind}-{name}"] == len(BODIES[name]) for kind in KINDS for name in names)


def ring_of(server):
    return server.data_dir / "keys.toml"


def secrets_of(*rings):
    """The keys in rings, as their text has them and as bytes, and those of the customer."""
    found = [KEY, OTHER, base64.b64encode(KEY), base64.b64encode(OTHER), KEY.hex().encode()]
    for ring in rings:
        lines = [line for line in ring.read_text().splitlines() if line.startswith("secret")]
        texts = [line.split('"')[1].encode() for line in lines]
        found += [*texts, *map(base64.b64decode, texts)]
    return found


def found_in(places, wanted):
    """Where which of the texts are found: files, and the files in directories, but rings, users and key files."""
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file()]
    assert files
    kept = {"keys.toml", "users.toml"}
    contents = [(file, file.read_bytes()) for file in files if file.name not in kept]
    return [(str(file), text) for file, content in contents for text in wanted if text in content]


def places_of(*servers):
    return [place for server in servers for place in (server.data_dir, server.log)]


def verify(server, tmp_path, *more):
    assert "nothing is wrong" in tools(tmp_path, "--data-dir", server.data_dir, *more, "verify")


def has_last(s3):
    try:
        s3.head_object(Bucket="data", Key="last")
        return True
    except (ClientError, *UNANSWERED):
        return False


def ready_text(server):
    try:
        with urllib.request.urlopen(f"{server.url}/-/ready", timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def test_encrypted_objects_are_shipped_and_a_standby_needs_the_ring_only_to_serve(own_server, tmp_path):
    writer, config, remote = shipping_writer(own_server, tmp_path, "sync", "--log-level", "debug")
    standby = own_server("standby", *writer.arguments[2:], "--standby-reads", "true").start()
    takes_writes(writer)
    s3 = writer.client()
    begun = fill(s3)
    s3.put_object(Bucket="data", Key="last", Body=b"")
    read = standby.client(config=ONE_TRY)
    until(lambda: has_last(read), standby.log.read_text)
    check_without_ring(read)
    until(lambda: "It has no key ring" in ready_text(standby), lambda: ready_text(standby))
    shutil.copy(ring_of(writer), ring_of(standby))
    standby.process.send_signal(signal.SIGHUP)
    until(lambda: "were read again" in standby.log.read_text(), standby.log.read_text)
    check(read)
    writer.kill()
    promote(standby)
    takes_writes(standby)
    s3 = standby.client()
    complete(s3, begun)
    check(s3, BODIES)
    standby.stop()
    verify(standby, tmp_path)
    assert found_in(places_of(remote, writer, standby), [PLANTED, *secrets_of(ring_of(writer))]) == []


def test_a_ring_that_comes_after_the_promotion_opens_all(own_server, tmp_path):
    writer, _, _ = shipping_writer(own_server, tmp_path, "sync")
    takes_writes(writer)
    begun = fill(writer.client())
    standby = own_server("standby", *writer.arguments[2:]).start()
    writer.kill()
    promote(standby)
    takes_writes(standby)
    s3 = standby.client()
    check_without_ring(s3)
    assert not ring_of(standby).exists(), "a ring of its own would hide that the other one is missing"
    assert "The key ring lacks" in ready_text(standby)
    with pytest.raises(ClientError) as refused:
        s3.put_object(Bucket="data", Key="new", Body=b"x", ServerSideEncryption="AES256")
    assert refused.value.response["Error"]["Code"] == "InvalidRequest"
    shutil.copy(ring_of(writer), ring_of(standby))
    standby.process.send_signal(signal.SIGHUP)
    until(lambda: ready_text(standby) == "ready\n", lambda: ready_text(standby))
    complete(s3, begun)
    check(s3, BODIES)


def tiered(own_server, tmp_path, remote, *options, **section):
    """A server with small segments, which go to the remote."""
    config = write_section(tmp_path / "remote.toml", section_of(remote.url) | section)
    server = own_server("--bucket", "data", *options).start()
    server.stop()
    key = [word for word in options if str(word).endswith("store.key")]
    opened = ["--store-key-file", str(key[0])] if key else []
    done = run(TOOLS, server, *opened, "remote", "--config", str(config), "init", "--rounds", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    server.arguments += ["--config", str(config), "--segment-size", "1MiB", "--log-level", "debug"]
    return server.start()


def shrink(server):
    """Starts the server again with little of the disk, until all else is on the remote alone."""
    server.stop()
    server.arguments += ["--local-max", "4MiB"]
    server.start()
    until(lambda: on_the_remote(server), server.log.read_text)


def metric(server, name):
    with urllib.request.urlopen(f"{server.url}/-/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} ") or line.startswith(f"{name}{{"))


def on_the_remote(server):
    return sum(file.stat().st_blocks * 512 for file in (server.data_dir / "data").glob("*.segment")) <= 7 << 20


def test_cold_objects_are_decrypted_whole_and_in_ranges(own_server, tmp_path):
    remote = own_server("--bucket", "cold").start()
    server = tiered(own_server, tmp_path, remote)
    complete(server.client(), fill(server.client()))
    shrink(server)
    s3 = server.client()
    before = metric(server, "siltstone_remote_fetches_total")
    check(s3, BODIES)
    assert metric(server, "siltstone_remote_fetches_total") > before, "nothing was cold"
    server.stop()
    aside = ring_of(server).rename(tmp_path / "aside.toml")
    server.start()
    check_without_ring(server.client(), BODIES)
    server.stop()
    verified = tools(tmp_path, "--data-dir", server.data_dir, "verify")
    assert "nothing is wrong with what was checked" in verified
    aside.rename(ring_of(server))
    server.start()
    check(server.client(), BODIES)
    server.stop()
    assert found_in(places_of(remote, server), [PLANTED, *secrets_of(ring_of(server))]) == []


def test_backups_restores_and_rebuilds_need_no_ring(own_server, tmp_path):
    server = own_server("--bucket", "data").start()
    s3 = server.client()
    begun = fill(s3)
    backup = tmp_path / "backup"
    tools(tmp_path, "--data-dir", server.data_dir, "backup", "--verify", backup)
    server.stop()
    ring = tmp_path / "ring" / "keys.toml"
    ring.parent.mkdir()
    ring_of(server).rename(ring)
    assert not list(backup.rglob("keys.toml"))

    restored = own_server()
    tools(tmp_path, "--data-dir", restored.data_dir, "restore", backup)
    rebuilt = own_server()
    shutil.copytree(server.data_dir, rebuilt.data_dir)
    told = tools(tmp_path, "--data-dir", rebuilt.data_dir, "rebuild", "--replace")
    for one in (restored, rebuilt):
        one.start()
        check_without_ring(one.client())
        assert not ring_of(one).exists()
        one.stop()
        verify(one, tmp_path)
        shutil.copy(ring, ring_of(one))
        one.start()
        s3 = one.client()
        check(s3)
        complete(s3, begun)
        check(s3, BODIES)
        one.stop()
        verify(one, tmp_path)
    assert found_in([backup, *places_of(server, restored, rebuilt)], [PLANTED, *secrets_of(ring)]) == [], told


def test_a_backup_with_the_users_has_the_ring(own_server, tmp_path):
    server = own_server("--bucket", "data").start()
    fill(server.client())
    backup = tmp_path / "backup"
    tools(tmp_path, "--data-dir", server.data_dir, "backup", "--with-users", backup)
    restored = own_server()
    tools(tmp_path, "--data-dir", restored.data_dir, "restore", backup)
    assert ring_of(restored).read_bytes() == ring_of(server).read_bytes()
    assert ring_of(restored).stat().st_mode & 0o077 == 0
    check(restored.start().client())


def test_a_restore_from_the_remote_needs_no_ring(own_server, tmp_path):
    writer, config, remote = shipping_writer(own_server, tmp_path, "sync")
    takes_writes(writer)
    begun = fill(writer.client())
    writer.kill()
    restored = own_server()
    tools(tmp_path, "--data-dir", restored.data_dir, "remote", "--config", config, "restore")
    # The bytes of sealed segments stay on the remote.
    restored.arguments = writer.arguments
    restored.start()
    takes_writes(restored)
    check_without_ring(restored.client())
    restored.stop()
    shutil.copy(ring_of(writer), ring_of(restored))
    restored.start()
    takes_writes(restored)
    s3 = restored.client()
    check(s3)
    complete(s3, begun)
    check(s3, BODIES)
    assert found_in(places_of(remote, restored), [PLANTED, *secrets_of(ring_of(writer))]) == []


def retired_and_renewed(server, tmp_path):
    """Retires the current key of a ring, under a new one."""
    listed = json.loads(tools(tmp_path, "--data-dir", server.data_dir, "--json", "key", "list"))
    tools(tmp_path, "--data-dir", server.data_dir, "key", "add")
    tools(tmp_path, "--data-dir", server.data_dir, "key", "retire", listed[-1]["id"])


def test_a_retired_key_opens_what_old_copies_have(own_server, tmp_path):
    server = own_server("--bucket", "data").start()
    s3 = server.client()
    fill(s3, kinds=["s3"])
    backup = tmp_path / "backup"
    tools(tmp_path, "--data-dir", server.data_dir, "backup", backup)
    old = tmp_path / "old.toml"
    shutil.copy(ring_of(server), old)
    retired_and_renewed(server, tmp_path)
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "were read again" in server.log.read_text(), server.log.read_text)
    s3.put_object(Bucket="data", Key="new", Body=PLANTED, ServerSideEncryption="AES256")
    check(s3, kinds=["s3"])
    server.stop()
    for ring, sees_new in ((old, False), (ring_of(server), True)):
        restored = own_server()
        tools(tmp_path, "--data-dir", restored.data_dir, "restore", backup)
        rebuilt = own_server()
        shutil.copytree(server.data_dir, rebuilt.data_dir)
        tools(tmp_path, "--data-dir", rebuilt.data_dir, "rebuild", "--replace")
        for one in (restored, rebuilt):
            if ring != ring_of(one):
                shutil.copy(ring, ring_of(one))
            one.start()
            check(one.client(), kinds=["s3"])
        if sees_new:
            assert rebuilt.client().get_object(Bucket="data", Key="new")["Body"].read() == PLANTED
        else:
            with pytest.raises(ClientError) as refused:
                rebuilt.client().get_object(Bucket="data", Key="new")
            assert refused.value.response["Error"]["Code"] == "KMS.NotFoundException"


def mirror_config(path, target, *more):
    lines = ["[[mirror]]", "name = 'away'", f"endpoint = '{target.url}'", "buckets = ['data']", "target_bucket = 'copy'"]
    path.write_text("\n".join([*lines, "access_key = 'suite'", "secret_key = 'suite/secret+key=='", *more]) + "\n")
    return path


def mirror(server, config, command, *more):
    environment = clean_environment(server.data_dir.parent, SILTSTONE_ACCESS_KEY="suite", SILTSTONE_SECRET_KEY="suite/secret+key==")
    words = [str(BINARY), "--data-dir", str(server.data_dir), "--config", str(config), "mirror", command]
    return subprocess.run([*words, *more, "--endpoint", server.url], env=environment, capture_output=True, text=True)


def test_a_mirror_and_events_of_encrypted_objects(own_server, tmp_path):
    target = own_server("--bucket", "copy").start()
    events, sent = Target().start(), []
    events.check = lambda _, body: sent.append(body)
    try:
        hook = ["[[webhook]]", "name = 'hook'", f"url = '{events.url}'"]
        config = mirror_config(tmp_path / "mirror.toml", target, *hook)
        server = own_server("--bucket", "data", "--config", str(config), "--log-level", "debug").start()
        s3 = server.client()
        queue = {"QueueArn": "arn:minio:sqs::hook:webhook", "Events": ["s3:ObjectCreated:*"]}
        s3.put_bucket_notification_configuration(Bucket="data", NotificationConfiguration={"QueueConfigurations": [queue]})
        complete(s3, fill(s3))
        there = target.client()

        def has_come():
            # They are set aside as refused only after several tries.
            waiting = "data/customer-" in mirror(server, config, "status").stdout
            return len(there.list_objects_v2(Bucket="copy").get("Contents", [])) == 6 and waiting

        until(has_come, lambda: mirror(server, config, "status").stdout)
        for kind in ("s3", "kms"):
            for name, body in BODIES.items():
                found = there.get_object(Bucket="copy", Key=f"{kind}-{name}")
                assert found["Body"].read() == body and "ServerSideEncryption" not in found
        until(lambda: len(events.records) == 9, server.log.read_text)
        compared = mirror(server, config, "verify", "away")
        assert compared.returncode == 0, compared.stdout + compared.stderr
        assert not [line for line in compared.stdout.splitlines() if "\tdata/" in line], compared.stdout
        assert f"{len(BODIES)} keys are encrypted under keys of their clients (SSE-C): not comparable" in compared.stdout
        for name in BODIES:
            s3.delete_object(Bucket="data", Key=f"customer-{name}")
        compared = mirror(server, config, "verify", "away")
        assert compared.returncode == 0 and "different" not in compared.stdout.replace("0 different", ""), compared.stdout + compared.stderr
        server.stop()
        secrets = secrets_of(ring_of(server))
        assert sent and not [text for body in sent for text in [PLANTED, *secrets] if text in body]
        assert found_in([*places_of(server), target.log], [PLANTED, *secrets]) == []
        assert found_in(places_of(target), secrets) == []
    finally:
        events.stop()


def test_error_answers_hold_no_key(own_server):
    """Those of a wrong signature quote what the server has signed."""
    server = own_server("--bucket", "data", "--log-level", "debug").start()
    wrong = server.client(secret_key="another", config=ONE_TRY)
    right = server.client(config=ONE_TRY)
    right.put_object(Bucket="data", Key="k", Body=PLANTED, **CUSTOMER)
    answers = []
    for call in (
        lambda: wrong.put_object(Bucket="data", Key="k", Body=b"x", **CUSTOMER),
        lambda: wrong.get_object(Bucket="data", Key="k", **CUSTOMER),
        lambda: wrong.copy_object(
            Bucket="data", Key="c", CopySource="data/k", CopySourceSSECustomerAlgorithm="AES256", CopySourceSSECustomerKey=KEY
        ),
        lambda: right.get_object(Bucket="data", Key="k", SSECustomerAlgorithm="AES256", SSECustomerKey=OTHER),
        lambda: right.put_object(Bucket="data", Key="k", Body=b"x", **CUSTOMER, ServerSideEncryption="AES256"),
    ):
        with pytest.raises(ClientError) as refused:
            call()
        answers.append(json.dumps(refused.value.response, default=str))
    assert len(answers) == 5 and "SignatureDoesNotMatch" in answers[0]
    told = [text.decode("latin-1") for text in (KEY, OTHER, base64.b64encode(KEY), base64.b64encode(OTHER))]
    assert [text for answer in answers for text in told if text in answer] == []
    server.stop()
    assert found_in(places_of(server), [PLANTED, *secrets_of(ring_of(server))]) == []


# An encrypted data directory.

NAMED = "a-planted-key/of-an-object.txt"
TEXTS = [PLANTED, NAMED.encode(), b"a-planted-value", b"text/x-planted"]


@pytest.fixture
def store_key(tmp_path):
    path = tmp_path / "store.key"
    tools(tmp_path, "store-key", "create", path)
    return path


def plant(s3):
    s3.put_object(Bucket="data", Key=NAMED, Body=BODIES["large"], Metadata={"planted": "a-planted-value"}, ContentType="text/x-planted")
    s3.put_object(Bucket="data", Key="small", Body=PLANTED)


def check_planted(s3):
    found = s3.get_object(Bucket="data", Key=NAMED)
    assert (found["Body"].read(), found["Metadata"], found["ContentType"]) == (
        BODIES["large"], {"planted": "a-planted-value"}, "text/x-planted"
    )
    for first, last in RANGES:
        assert s3.get_object(Bucket="data", Key=NAMED, Range=f"bytes={first}-{last}")["Body"].read() == BODIES["large"][first : last + 1]
    assert s3.get_object(Bucket="data", Key="small")["Body"].read() == PLANTED


def store_secrets(key_file):
    text = key_file.read_text().split()[6]
    return [text.encode(), bytes.fromhex(text)]


def refused_start(server):
    """What a start says that is refused with the status 1."""
    command = [str(BINARY), "--data-dir", str(server.data_dir), "--listen", "127.0.0.1:0", *map(str, server.arguments)]
    done = subprocess.run(command, env=clean_environment(server.data_dir.parent), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("encrypted", ["writer", "standby", "both"])
def test_a_standby_of_an_encrypted_store_and_the_other_way_round(own_server, tmp_path, store_key, encrypted):
    users = ["--users", str(tmp_path / "users.toml")]
    opened = ["--encrypt-store", "--store-key-file", str(store_key)]
    tools(tmp_path, "remote", "key", tmp_path / "remote.key")
    remote = own_server("--bucket", "cold").start()
    config = write_section(tmp_path / "remote.toml", section_of(remote.url) | {"encryption_key_file": tmp_path / "remote.key"})
    of_writer = opened if encrypted != "standby" else []
    of_standby = opened if encrypted != "writer" else []
    writer = own_server("--bucket", "data", *users, *of_writer).start()
    writer.stop()
    done = run(TOOLS, writer, *of_writer[1:], "remote", "--config", str(config), "init", "--rounds", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    shipping = ["--config", str(config), "--ship", "sync"]
    writer.arguments += shipping
    writer.start()
    takes_writes(writer)
    plant(writer.client())
    standby = own_server("standby", *shipping, *users, *of_standby).start()
    writer.kill()
    promote(standby)
    takes_writes(standby)
    s3 = standby.client()
    check_planted(s3)
    s3.put_object(Bucket="data", Key="more", Body=PLANTED)
    standby.kill()
    standby.start()
    takes_writes(standby)
    check_planted(standby.client())
    standby.stop()
    verify(standby, tmp_path, *of_standby[1:])
    wanted = [*TEXTS, *store_secrets(store_key)]
    for server, is_encrypted in ((writer, bool(of_writer)), (standby, bool(of_standby))):
        assert (found_in([server.data_dir], wanted) == []) == is_encrypted
    assert found_in([remote.data_dir], wanted) == []
    # The logs of servers name keys.
    assert found_in([server.log for server in (remote, writer, standby)], [PLANTED, *store_secrets(store_key)]) == []
    keys = [(server.data_dir / "KEYS").read_bytes()[24:32] for server in (writer, standby) if (server.data_dir / "KEYS").exists()]
    assert len(set(keys)) == len(keys), "each directory has a key of its own"


def test_an_encrypted_store_sends_nothing_in_the_clear_unless_it_is_told_to(own_server, tmp_path, store_key):
    opened = ["--users", str(tmp_path / "users.toml"), "--encrypt-store", "--store-key-file", str(store_key)]
    remote = own_server("--bucket", "cold", "--bucket", "copy").start()
    config = write_section(tmp_path / "remote.toml", section_of(remote.url))
    mirrored = mirror_config(tmp_path / "mirror.toml", remote)
    fresh = own_server(*opened, "--config", str(config))
    fresh.data_dir.mkdir()
    assert "encryption_key_file" in refused_start(fresh) and not (fresh.data_dir / "KEYS").exists()
    standby = own_server("standby", *opened, "--config", str(config), "--ship", "sync")
    standby.data_dir.mkdir()
    assert "--remote-insecure true" in refused_start(standby) and not (standby.data_dir / "KEYS").exists()

    writer = own_server("--bucket", "data", *opened).start()
    writer.stop()
    done = run(TOOLS, writer, "--store-key-file", str(store_key), "remote", "--config", str(config), "init", "--rounds", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    own = list(writer.arguments)
    for more in (["--config", str(config)], ["--config", str(config), "--ship", "sync"], ["--config", str(mirrored)]):
        writer.arguments = [*own, *more]
        assert "--remote-insecure true" in refused_start(writer), more
    writer.arguments = [*own, "--config", str(config), "--read-only"]
    writer.start()
    writer.stop()
    writer.arguments = [*own, "--config", str(config), "--ship", "sync", "--remote-insecure", "true"]
    writer.start()
    takes_writes(writer)
    plant(writer.client())
    writer.stop()
    assert found_in([writer.data_dir], TEXTS) == [] and found_in([writer.log], [PLANTED]) == []
    assert found_in([remote.data_dir], [PLANTED]) != [], "the remote has it in the clear, as it was told to"


def test_a_tier_fills_an_encrypted_disk_with_encrypted_bytes(own_server, tmp_path, store_key):
    remote = own_server("--bucket", "cold").start()
    tools(tmp_path, "remote", "key", tmp_path / "remote.key")
    options = ["--users", str(tmp_path / "users.toml"), "--encrypt-store", "--store-key-file", str(store_key)]
    server = tiered(own_server, tmp_path, remote, *options, encryption_key_file=tmp_path / "remote.key")
    s3 = server.client()
    plant(s3)
    for number in range(14):
        s3.put_object(Bucket="data", Key=f"filler-{number}", Body=PLANTED * 20_000)
    shrink(server)
    s3 = server.client()
    for _ in range(2):
        check_planted(s3)
        for number in range(14):
            assert s3.get_object(Bucket="data", Key=f"filler-{number}")["Body"].read() == PLANTED * 20_000
        server.kill()
        server.start()
        s3 = server.client()
    server.kill()
    assert found_in([remote.data_dir, server.data_dir], [*TEXTS, *store_secrets(store_key)]) == []
    assert found_in([remote.log, server.log], [PLANTED, *store_secrets(store_key)]) == []


def test_an_encrypted_store_is_restored_from_its_remote(own_server, tmp_path, store_key):
    remote = own_server("--bucket", "cold").start()
    tools(tmp_path, "remote", "key", tmp_path / "remote.key")
    config = write_section(tmp_path / "remote.toml", section_of(remote.url) | {"encryption_key_file": tmp_path / "remote.key"})
    opened = ["--store-key-file", str(store_key)]
    users = ["--users", str(tmp_path / "users.toml")]
    writer = own_server("--bucket", "data", *users, "--encrypt-store", *opened).start()
    writer.stop()
    done = run(TOOLS, writer, *opened, "remote", "--config", str(config), "init", "--rounds", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    writer.arguments += ["--config", str(config), "--ship", "sync"]
    writer.start()
    takes_writes(writer)
    plant(writer.client())
    writer.kill()
    restored = own_server(*users, *opened, "--config", str(config), "--ship", "sync")
    inside = restored.data_dir / "store.key"
    restored.data_dir.mkdir()
    shutil.copy(store_key, inside)
    restore = ["remote", "--config", config, "restore", "--encrypt-store"]
    told = tools(tmp_path, "--data-dir", restored.data_dir, "--store-key-file", inside, *restore, code=2)
    assert not (restored.data_dir / "KEYS").exists(), told
    inside.unlink()
    tools(tmp_path, "--data-dir", restored.data_dir, *opened, *restore)
    restored.start()
    takes_writes(restored)
    check_planted(restored.client())
    restored.stop()
    verify(restored, tmp_path, *opened)
    assert found_in([server.data_dir for server in (remote, writer, restored)], [*TEXTS, *store_secrets(store_key)]) == []
    assert found_in([writer.log, restored.log], [PLANTED, *store_secrets(store_key)]) == []


def test_a_store_encrypted_with_encrypted_objects(own_server, tmp_path, store_key):
    """Both layers at once, rebuilt without the ring."""
    opened = ["--store-key-file", str(store_key)]
    keys = tmp_path / "ring" / "keys.toml"
    keys.parent.mkdir()
    users = ["--users", str(tmp_path / "users.toml"), "--keys-file", str(keys)]
    server = own_server("--bucket", "data", *users, "--encrypt-store", *opened).start()
    begun = fill(server.client())
    server.kill()
    aside = keys.rename(tmp_path / "aside.toml")
    tools(tmp_path, "--data-dir", server.data_dir, *opened, "rebuild", "--replace")
    server.start()
    check_without_ring(server.client())
    server.stop()
    aside.rename(keys)
    server.start()
    s3 = server.client()
    check(s3)
    complete(s3, begun)
    check(s3, BODIES)
    server.stop()
    verify(server, tmp_path, *opened)
    names = [f"{kind}-large".encode() for kind in KINDS]
    secrets = [PLANTED, *secrets_of(keys), *store_secrets(store_key)]
    assert found_in([server.data_dir], [*names, *secrets]) == [] and found_in([server.log], secrets) == []


def test_one_of_two_key_files_is_missed_by_name_and_put_back(own_server, tmp_path, store_key):
    opened = ["--store-key-file", str(store_key)]
    server = own_server("--bucket", "data", "--users", str(tmp_path / "users.toml"), "--encrypt-store", *opened).start()
    plant(server.client())
    server.stop()
    at = ["--data-dir", server.data_dir, *opened]
    for name, damage in (("KEYS", None), ("KEYS.copy", None), ("KEYS.copy", b"\x01"), ("KEYS", b"\x01")):
        file = server.data_dir / name
        whole = file.read_bytes()
        file.unlink() if damage is None else file.write_bytes(whole[:70] + damage + whole[71:])
        before = {path.name: path.read_bytes() for path in server.data_dir.glob("KEYS*")}
        server.log.write_text("")
        server.start()
        server.stop()
        assert f"{name}: " in server.log.read_text() and "store-key mend" in server.log.read_text()
        assert f"finding: {name}" in tools(tmp_path, *at, "verify", code=1)
        found = json.loads(tools(tmp_path, "--json", *at, "doctor", server.data_dir, code=1))["findings"]
        assert [finding for finding in found if finding["check"] == "store-key" and name in finding["what"]]
        assert "store-key mend" in tools(tmp_path, *at, "store-key", "remove", "1", code=2)
        assert {path.name: path.read_bytes() for path in server.data_dir.glob("KEYS*")} == before, "nothing is repaired in silence"
        assert f"{name}: " in tools(tmp_path, *at, "store-key", "mend")
        assert "nothing was written" in tools(tmp_path, *at, "store-key", "mend")
        assert (server.data_dir / "KEYS").read_bytes() == (server.data_dir / "KEYS.copy").read_bytes()
        verify(server, tmp_path, *opened)
    server.log.write_text("")
    server.start()
    check_planted(server.client())
    assert "mend" not in server.log.read_text()


def test_a_key_file_in_the_directory_is_refused_by_every_command(own_server, tmp_path, store_key):
    opened = ["--store-key-file", str(store_key)]
    plain = own_server("--bucket", "data").start()
    plain.stop()
    inside = plain.data_dir / "store.key"
    shutil.copy(store_key, inside)
    told = tools(tmp_path, "--data-dir", plain.data_dir, "--store-key-file", inside, "encrypt", code=2)
    assert "in the data directory" in told and not (plain.data_dir / "KEYS").exists()
    linked = tmp_path / "link.key"
    linked.symlink_to(inside)
    told = tools(tmp_path, "--data-dir", plain.data_dir, "--store-key-file", linked, "encrypt", code=2)
    assert "in the data directory" in told and not (plain.data_dir / "KEYS").exists()
    told = tools(tmp_path, "--data-dir", plain.data_dir, "store-key", "create", plain.data_dir / "new.key", code=2)
    assert "in the data directory" in told and not (plain.data_dir / "new.key").exists()
    inside.unlink()
    tools(tmp_path, "--data-dir", plain.data_dir, *opened, "encrypt")
    tools(tmp_path, "store-key", "create", tmp_path / "second.key")
    shutil.copy(tmp_path / "second.key", inside)
    before = (plain.data_dir / "KEYS").read_bytes()
    told = tools(tmp_path, "--data-dir", plain.data_dir, *opened, "store-key", "add", inside, code=2)
    assert "in the data directory" in told and (plain.data_dir / "KEYS").read_bytes() == before
    tools(tmp_path, "--data-dir", plain.data_dir, *opened, "store-key", "add", tmp_path / "second.key")
