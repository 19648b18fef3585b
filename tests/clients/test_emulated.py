"""A server that is killed and started again, and whose directory is verified: what the programs of another architecture are tried
with under an emulator (tools/package/cross.sh), beside tests of clients."""

import hashlib
import subprocess

from siltstone import BINARY

OBJECTS = {f"key-{n}": hashlib.shake_256(str(n).encode()).digest(n * 40_000) for n in range(8)}


def tool(data_dir, *arguments):
    done = subprocess.run([BINARY.with_name("siltstone-tools"), "--data-dir", data_dir, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_killed_server_has_every_object_again_and_a_clean_directory(own_server):
    server = own_server().start()
    client = server.client()
    client.create_bucket(Bucket="kept")
    for key, body in OBJECTS.items():
        client.put_object(Bucket="kept", Key=key, Body=body)
    server.kill()
    server.start()
    client = server.client()
    for key, body in OBJECTS.items():
        assert client.get_object(Bucket="kept", Key=key)["Body"].read() == body
    client.delete_object(Bucket="kept", Key="key-0")
    server.stop()
    assert "buckets 1" in tool(server.data_dir, "verify")
    assert f"{len(OBJECTS) - 1}" in tool(server.data_dir, "stats")
    tool(server.data_dir, "compact")
    server.start()
    assert server.client().list_objects_v2(Bucket="kept")["KeyCount"] == len(OBJECTS) - 1
    server.stop()
