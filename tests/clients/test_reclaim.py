"""Room is won back while the server is killed again and again: nothing acknowledged is lost, nothing deleted comes back."""

import json
import os
import random
import subprocess
import threading

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from siltstone import BINARY, IS_LONG

KILLS = 20 if IS_LONG else 8
SEGMENT = 1 << 20
KEYS = [f"k{number}" for number in range(40)]
SIZES = [0, 900, 9_000, 60_000, 200_000, 700_000]
ABSENT = None

TOOLS = BINARY.with_name("siltstone-tools")
ONE_ATTEMPT = Config(retries={"total_max_attempts": 1}, read_timeout=20)


def content(seed):
    draw = random.Random(seed)
    return draw.randbytes(draw.choice(SIZES))


def read(client, key):
    try:
        return client.get_object(Bucket="churn", Key=key)["Body"].read()
    except client.exceptions.NoSuchKey:
        return ABSENT


def expected(seed):
    return ABSENT if seed is ABSENT else content(seed)


def churn_until_killed(server, client, draw, known):
    """Puts and deletes until the server is gone. Gives the key whose last change nobody was told of, and what it would be."""
    killer = threading.Timer(draw.uniform(0.2, 2.5), server.process.kill)
    killer.start()
    while True:
        key, seed = draw.choice(KEYS), draw.choice([ABSENT, *[draw.getrandbits(32)] * 4])
        try:
            if seed is ABSENT:
                client.delete_object(Bucket="churn", Key=key)
            else:
                client.put_object(Bucket="churn", Key=key, Body=content(seed))
        except (BotoCoreError, ClientError):
            killer.join()
            server.kill()
            return key, seed
        known[key] = seed


def tool(server, *arguments):
    command = [str(TOOLS), "--data-dir", str(server.data_dir), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def check(client, known):
    for key in KEYS:
        assert read(client, key) == expected(known.get(key, ABSENT)), key


@pytest.mark.skipif(not TOOLS.exists(), reason=f"{TOOLS} was not built")
def test_a_server_that_is_killed_while_it_wins_back_room(own_server):
    seed = int(os.environ.get("SILTSTONE_TEST_SEED", "1"))
    print(f"SILTSTONE_TEST_SEED={seed}")
    draw, known = random.Random(seed), {}
    server = own_server("--segment-size", "1MiB").start()
    server.client().create_bucket(Bucket="churn")
    for _ in range(KILLS):
        client = server.client(config=ONE_ATTEMPT)
        key, in_doubt = churn_until_killed(server, client, draw, known)
        server.start()
        client = server.client()
        if read(client, key) == expected(in_doubt):
            known[key] = in_doubt
        check(client, known)
    server.kill()
    found = tool(server, "verify")
    live = sum(segment["live"] for segment in found["segments"])
    allocated = sum(file.stat().st_blocks * 512 for file in (server.data_dir / "data").iterdir())
    assert allocated <= 2 * live + 8 * SEGMENT, f"{allocated} bytes for {live} that live"

    done = tool(server, "compact", "--segment-size", "1MiB")
    assert done["after"]["data_bytes"] <= 1.5 * done["live_bytes"], done
    assert tool(server, "verify")["findings"] == []
    server.start()
    check(server.client(), known)
    server.stop()
