"""Rotation of the keys of encrypted objects, under load and with kills: no object is unreadable at any time."""

import base64
import hashlib
import json
import os
import random
import signal
import subprocess
import threading
import time

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from siltstone import ACCESS_KEY, BINARY, SECRET_KEY, clean_environment

ROUNDS = int(os.environ.get("ROTATION_ROUNDS", "6"))
KINDS = [{"ServerSideEncryption": "AES256"}, {"ServerSideEncryption": "aws:kms"}]
PATIENT = Config(retries={"max_attempts": 1}, read_timeout=20)


def key_command(server, *arguments):
    environment = clean_environment(
        server.data_dir.parent, SILTSTONE_ACCESS_KEY=ACCESS_KEY, SILTSTONE_SECRET_KEY=SECRET_KEY
    )
    command = [str(BINARY), "--data-dir", str(server.data_dir), "--listen", f"127.0.0.1:{server.port}", "key"]
    return subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, timeout=300)


def uses(server):
    done = key_command(server, "uses", "--json")
    assert done.returncode == 0, done.stderr
    return {key["id"]: key for key in json.loads(done.stdout)["keys"]}


def rotate(server, number):
    """Makes a key and retires all others; returns once the server has read the file."""
    ring = server.data_dir / "keys.toml"
    text = "".join(line for line in ring.read_text().splitlines(True) if not line.startswith("retired"))
    text = text.replace("[[key]]\n", "[[key]]\nretired = true\n")
    secret = base64.b64encode(os.urandom(32)).decode()
    text += f'\n[[key]]\nid = "key-{number}"\ncreated = "2126-01-01T00:00:{number:02}.000Z"\nsecret = "{secret}"\n'
    changed = ring.with_suffix(".changed")
    changed.write_text(text)
    changed.chmod(0o600)
    changed.rename(ring)
    server.process.send_signal(signal.SIGHUP)
    while uses(server).get(f"key-{number}", {}).get("state") != "current":
        time.sleep(0.05)


class Load:
    """Puts, copies and reads until the server is gone. `stored` has what was acknowledged."""

    def __init__(self, server, stored):
        self.server = server
        self.stored = stored
        self.lock = threading.Lock()
        self.wrong = []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(3)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        s3 = self.server.client(config=PATIENT)
        draw = random.Random()
        while not self.stopped.is_set():
            try:
                self.step(s3, draw, number)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                    self.wrong.append(repr(error))
                    return
            except BotoCoreError:
                return

    def step(self, s3, draw, number):
        kind = draw.choice(KINDS)
        name = f"{number}-{draw.randrange(1 << 60)}"
        with self.lock:
            source, digest = draw.choice(list(self.stored.items()))
        if draw.random() < 0.5:
            body = draw.randbytes(draw.choice([10, 5_000, 70_000, 300_000]))
            s3.put_object(Bucket="own", Key=name, Body=body, **kind)
            digest = hashlib.sha256(body).digest()
        else:
            s3.copy_object(Bucket="own", Key=name, CopySource={"Bucket": "own", "Key": source}, **kind)
        with self.lock:
            self.stored[name] = digest
        read = s3.get_object(Bucket="own", Key=source)["Body"].read()
        with self.lock:
            if hashlib.sha256(read).digest() != self.stored[source]:
                self.wrong.append(f"{source} has other bytes")

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        assert self.wrong == []


def check_all(server, stored):
    s3 = server.client()
    for name, digest in stored.items():
        assert hashlib.sha256(s3.get_object(Bucket="own", Key=name)["Body"].read()).digest() == digest, name


def begin_upload(s3, stored):
    """An upload with a part that was put and one that was copied."""
    body = os.urandom(5 << 20)
    s3.put_object(Bucket="own", Key="source", Body=body, ServerSideEncryption="AES256")
    stored["source"] = hashlib.sha256(body).digest()
    upload = s3.create_multipart_upload(Bucket="own", Key="parts", ServerSideEncryption="AES256")["UploadId"]
    place = {"Bucket": "own", "Key": "parts", "UploadId": upload}
    first = s3.upload_part(PartNumber=1, Body=body, **place)["ETag"]
    copied = s3.upload_part_copy(
        PartNumber=2, CopySource={"Bucket": "own", "Key": "source"}, CopySourceRange="bytes=1000-90000", **place
    )["CopyPartResult"]["ETag"]
    parts = [{"PartNumber": 1, "ETag": first}, {"PartNumber": 2, "ETag": copied}]
    return {**place, "MultipartUpload": {"Parts": parts}}, hashlib.sha256(body + body[1000:90_001]).digest()


def test_no_object_is_unreadable_while_keys_are_rotated_and_the_server_is_killed(own_server):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="own")
    stored = {}
    completion, assembled = begin_upload(s3, stored)
    for number in range(300):
        body = os.urandom(100 + number * 300)
        s3.put_object(Bucket="own", Key=f"first-{number}", Body=body, **KINDS[number % 2])
        stored[f"first-{number}"] = hashlib.sha256(body).digest()
    kills = 0
    for number in range(1, ROUNDS + 1):
        load = Load(server, stored)
        rotate(server, number)
        rewrap = threading.Thread(target=key_command, args=(server, "rewrap", "--rate", "300"))
        rewrap.start()
        time.sleep(random.uniform(0.1, 1.5))
        server.kill()
        kills += 1
        rewrap.join()
        load.stop()
        server.start()
        check_all(server, stored)
    load = Load(server, stored)
    done = key_command(server, "rewrap")
    assert done.returncode == 0 and "0 not opened" in done.stdout, done.stdout + done.stderr
    load.stop()
    # What was begun before the last rotation may have come after the walk had passed.
    assert key_command(server, "rewrap").returncode == 0
    server.client().complete_multipart_upload(**completion)
    stored["parts"] = assembled
    figures = uses(server)
    assert {key for key, of in figures.items() if of["uses"]} == {f"key-{ROUNDS}"}, figures

    # A key that something needs stays; the others go.
    refused = key_command(server, "destroy", f"key-{ROUNDS}", "--confirm", f"key-{ROUNDS}")
    assert refused.returncode == 1 and "need the key" in refused.stderr, refused.stderr
    for key, of in figures.items():
        if of["state"] == "retired":
            gone = key_command(server, "destroy", key, "--confirm", key)
            assert gone.returncode == 0, gone.stderr
    ring = (server.data_dir / "keys.toml").read_text()
    assert ring.count("[[key]]") == 1 and f"key-{ROUNDS}" in ring
    check_all(server, stored)
    server.process.send_signal(signal.SIGHUP)
    server.kill()
    server.start()
    check_all(server, stored)
    assert len(stored) > 302 and kills == ROUNDS
