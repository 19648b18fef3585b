"""An encrypted data directory: what is on the disk, who opens it, and the conversion of one in the clear."""

import hashlib
import hmac
import os
import shutil
import signal
import struct
import subprocess
import time
import zlib

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from siltstone import BINARY, Server, clean_environment

TOOLS = BINARY.with_name("siltstone-tools")
PLAIN = b"a planted text that no disk has by chance. "
KEY = "a-planted-key/of-an-object.txt"
META = "a-planted-value-of-metadata"
BUCKET = "a-planted-bucket"
PASSPHRASE = "correct horse battery staple"


def tools(tmp_path, *arguments, check=True):
    done = subprocess.run([str(TOOLS), *map(str, arguments)], env=clean_environment(tmp_path), capture_output=True, text=True)
    assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done


def put_all(client):
    client.create_bucket(Bucket=BUCKET)
    client.put_object(Bucket=BUCKET, Key=KEY, Body=PLAIN, Metadata={"planted": META})
    client.put_object(Bucket=BUCKET, Key="large", Body=PLAIN * 100_000)
    upload = client.create_multipart_upload(Bucket=BUCKET, Key="parts")["UploadId"]
    part = client.upload_part(Bucket=BUCKET, Key="parts", UploadId=upload, PartNumber=1, Body=PLAIN * 3)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    client.complete_multipart_upload(Bucket=BUCKET, Key="parts", UploadId=upload, MultipartUpload=parts)


def check_all(client):
    found = client.get_object(Bucket=BUCKET, Key=KEY)
    assert (found["Body"].read(), found["Metadata"]) == (PLAIN, {"planted": META})
    assert client.get_object(Bucket=BUCKET, Key="large")["Body"].read() == PLAIN * 100_000
    assert client.get_object(Bucket=BUCKET, Key="large", Range="bytes=70001-70100")["Body"].read() == (PLAIN * 100_000)[70001:70101]
    assert client.get_object(Bucket=BUCKET, Key="parts")["Body"].read() == PLAIN * 3


def shown_in(directory):
    """The planted texts that a reader of the disk finds, and where."""
    found = []
    for path in (path for path in directory.rglob("*") if path.is_file()):
        content = path.read_bytes()
        wanted = [PLAIN[:20], KEY.encode(), META.encode(), BUCKET.encode(), b"text/plain", b"binary/octet-stream"]
        found += [(path.name, text) for text in wanted if text in content]
    return found


def contents(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "store.key"
    tools(tmp_path, "store-key", "create", path)
    assert path.stat().st_mode & 0o777 == 0o600
    return path


@pytest.fixture
def make(tmp_path):
    servers = []

    def start(data_dir, *arguments):
        servers.append(Server(data_dir, "--users", tmp_path / "users.toml", *arguments).start())
        return servers[-1]

    yield start
    for server in servers:
        if server.is_running():
            server.kill()


# The state in KEYS of a directory that is encrypted as a whole (data-format.md, section 21).
CONVERTED = 1


def refused(tmp_path, data_dir, *arguments):
    """What a start says that is refused with the status 1, and writes nothing."""
    before = contents(data_dir)
    command = [str(BINARY), "--data-dir", str(data_dir), "--listen", "127.0.0.1:0", *map(str, arguments)]
    done = subprocess.run(command, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert {name: text for name, text in contents(data_dir).items() if name != "LOCK"} == {
        name: text for name, text in before.items() if name != "LOCK"
    }
    return done.stderr


def hkdf(secret, salt, info, length):
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)


def decrypted(data_dir, key_file):
    """Every file of a directory, decrypted by section 21 of data-format.md alone."""
    keys = (data_dir / "KEYS").read_bytes()
    assert keys[:8] == b"SiltKeys" and zlib.crc32(keys[:4092]) == struct.unpack("<I", keys[4092:])[0]
    key_id, slot = keys[24:32], keys[64:192]
    secret = bytes.fromhex(key_file.read_text().split()[6])
    assert slot[16:24] == hmac.digest(secret, b"siltstone store key file 1 id", hashlib.sha256)[:8]
    wrapping = hkdf(secret, slot[32:64], b"siltstone store slot 1", 32)
    key = AESGCM(wrapping).decrypt(bytes(12), slot[64:112], slot[:64] + key_id)
    assert hmac.digest(key, b"siltstone store key 1 id", hashlib.sha256)[:8] == key_id
    plain = {}
    for path in [*(data_dir / "data").iterdir(), *(data_dir / "meta").iterdir()]:
        page, blocks = path.read_bytes()[:4096], path.read_bytes()[4096:]
        if not page:
            continue
        assert page[:8] == b"SiltSalt" and page[16:24] == key_id
        cipher = algorithms.AES(hkdf(key, page[24:56], b"siltstone store file 1", 64))
        text = bytearray()
        for unit in range(0, len(blocks), 4096):
            part = blocks[unit : unit + 4096].ljust(4096, b"\0")
            decryptor = Cipher(cipher, modes.XTS((unit // 4096).to_bytes(16, "little"))).decryptor()
            clear = decryptor.update(part) + decryptor.finalize()
            for at in range(0, 4096, 16):
                stored = part[at : at + 16]
                text += bytes(16) if stored == bytes(16) or stored[:15] == b"siltstone-end-0" else clear[at : at + 16]
        plain[path.name] = bytes(text)
    return plain


def test_the_directory_shows_nothing_and_opens_with_its_key_alone(make, tmp_path, key_file):
    data_dir = tmp_path / "data"
    server = make(data_dir, "--encrypt-store", "--store-key-file", key_file)
    put_all(server.client())
    server.kill()
    assert shown_in(data_dir) == []
    server.start()
    check_all(server.client())
    limits = open(f"/proc/{server.process.pid}/limits").read().splitlines()
    assert next(line for line in limits if line.startswith("Max core file size")).split()[4:6] == ["0", "0"]
    server.stop()
    assert shown_in(data_dir) == []
    assert PLAIN[:20] not in server.log.read_bytes() and key_file.read_bytes().split()[6] not in server.log.read_bytes()
    tools(tmp_path, "--data-dir", data_dir, "--store-key-file", key_file, "verify")
    for command in ("verify", "stats"):
        assert "--store-key-file" in tools(tmp_path, "--data-dir", data_dir, command, check=False).stderr
    files = decrypted(data_dir, key_file)
    segments = b"".join(text for name, text in files.items() if name.endswith(".segment"))
    logs = b"".join(text for name, text in files.items() if name.endswith((".log", ".checkpoint")))
    assert PLAIN * 3 in segments and KEY.encode() in logs and META.encode() in logs
    dumped = tools(tmp_path, "--store-key-file", key_file, "dump", *(data_dir / "data").glob("*.segment"))
    assert KEY in dumped.stdout


def test_what_does_not_open_it_is_refused_by_name(make, tmp_path, key_file):
    data_dir = tmp_path / "data"
    server = make(data_dir, "--encrypt-store", "--store-key-file", key_file)
    put_all(server.client())
    server.stop()
    phrase, wrong, other = (tmp_path / name for name in ("phrase", "wrong", "other.key"))
    phrase.write_text(PASSPHRASE + "\n")
    wrong.write_text(PASSPHRASE + "r\n")
    tools(tmp_path, "store-key", "create", other)
    tools(tmp_path, "--data-dir", data_dir, "--store-key-file", key_file, "store-key", "add", phrase)
    server.arguments = [*server.arguments[:2], "--store-key-file", str(phrase)]
    server.start()
    check_all(server.client())
    server.stop()
    assert "name the file with its key" in refused(tmp_path, data_dir)
    assert "opens no slot" in refused(tmp_path, data_dir, "--store-key-file", wrong)
    assert "no slot for the key file" in refused(tmp_path, data_dir, "--store-key-file", other)
    assert "No such file" in refused(tmp_path, data_dir, "--store-key-file", tmp_path / "missing")
    (data_dir / "meta" / "planted").write_bytes(PLAIN)
    assert "meta/planted is not encrypted" in refused(tmp_path, data_dir, "--store-key-file", phrase)
    (data_dir / "meta" / "planted").unlink()
    (data_dir / "KEYS").rename(tmp_path / "KEYS")
    lost = tools(tmp_path, "--data-dir", data_dir, "--store-key-file", key_file, "verify", check=False)
    assert lost.returncode == 1 and "store-key mend" in lost.stdout + lost.stderr, lost
    (data_dir / "KEYS.copy").rename(tmp_path / "KEYS.copy")
    assert "neither KEYS nor KEYS.copy" in refused(tmp_path, data_dir, "--store-key-file", phrase)
    assert "neither KEYS nor KEYS.copy" in refused(tmp_path, data_dir)
    (tmp_path / "KEYS").rename(data_dir / "KEYS")
    remove = ["--data-dir", data_dir, "--store-key-file", phrase, "store-key", "remove", "1"]
    assert tools(tmp_path, *remove, check=False).returncode != 0
    tools(tmp_path, "--data-dir", data_dir, "--store-key-file", phrase, "store-key", "mend")
    tools(tmp_path, *remove)
    assert "no slot for the key file" in refused(tmp_path, data_dir, "--store-key-file", key_file)
    tools(tmp_path, "--data-dir", data_dir, "--store-key-file", phrase, "verify")


def test_a_new_store_is_not_encrypted_with_what_is_beside_it_or_weak(tmp_path, key_file):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    weak = tmp_path / "weak"
    weak.write_text("secret\n")
    assert "at least 12 characters" in refused(tmp_path, data_dir, "--encrypt-store", "--store-key-file", weak)
    assert "name a file with a key" in refused(tmp_path, data_dir, "--encrypt-store")
    assert "is not encrypted" in refused(tmp_path, data_dir, "--store-key-file", key_file)
    shutil.copy(key_file, data_dir / "store.key")
    told = refused(tmp_path, data_dir, "--encrypt-store", "--store-key-file", data_dir / "store.key")
    assert "it is in the data directory" in told
    assert not (data_dir / "KEYS").exists()


def test_a_backup_of_it_is_encrypted_and_restored(make, tmp_path, key_file):
    data_dir, backup, restored = (tmp_path / name for name in ("data", "backup", "restored"))
    server = make(data_dir, "--encrypt-store", "--store-key-file", key_file, "--segment-size", "1MiB")
    put_all(server.client())
    for _ in range(2):
        tools(tmp_path, "--data-dir", data_dir, "--store-key-file", key_file, "backup", "--verify", backup)
        assert shown_in(backup) == []
    server.stop()
    tools(tmp_path, "--data-dir", restored, "--store-key-file", key_file, "restore", backup)
    assert shown_in(restored) == []
    again = make(restored, "--store-key-file", key_file)
    check_all(again.client())
    again.client().put_object(Bucket=BUCKET, Key="more", Body=PLAIN)
    again.stop()
    tools(tmp_path, "--data-dir", backup / "b", "--store-key-file", key_file, "verify")
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "CURRENT").write_text("in the clear")
    told = tools(tmp_path, "--data-dir", data_dir, "--store-key-file", key_file, "backup", plain, check=False)
    assert told.returncode == 2 and "in the clear" in told.stderr


def test_a_conversion_that_is_killed_goes_on(make, tmp_path, key_file):
    data_dir = tmp_path / "data"
    server = make(data_dir, "--segment-size", "1MiB")
    put_all(server.client())
    for number in range(30):
        server.client().put_object(Bucket=BUCKET, Key=f"more-{number}", Body=os.urandom(700_000))
    server.stop()
    assert shown_in(data_dir) != []
    command = [str(TOOLS), "--data-dir", str(data_dir), "--store-key-file", str(key_file), "encrypt"]
    cut_off = 0
    for delay in range(1, 200):
        process = subprocess.Popen(command, env=clean_environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay * 0.02)
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:
            break
        keys = data_dir / "KEYS"
        # It may be killed after its last write, and before its end.
        if keys.exists() and int.from_bytes(keys.read_bytes()[12:16], "little") == CONVERTED:
            break
        if keys.exists():
            cut_off += 1
            assert "not finished" in refused(tmp_path, data_dir, "--store-key-file", key_file)
    else:
        raise AssertionError("the conversion comes to no end")
    assert cut_off > 0
    assert shown_in(data_dir) == []
    # A kill between the last writes of KEYS and of KEYS.copy leaves an older copy, which nothing
    # but this command writes again, and which `verify` names until then.
    tools(tmp_path, "--data-dir", data_dir, "--store-key-file", key_file, "store-key", "mend")
    server.arguments += ["--store-key-file", str(key_file)]
    server.start()
    check_all(server.client())
    server.stop()
    tools(tmp_path, "--data-dir", data_dir, "--store-key-file", key_file, "verify")
    assert len(decrypted(data_dir, key_file)) > 5
