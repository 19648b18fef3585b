"""More requests at once than there are workers and places in the queue: each is served or told to come later, at once."""

import collections
import threading
import time

import siege
from siege import Wire

CLIENTS = 200
# The answers of each kind that are waited for, and how long.
ANSWERS_MIN = 2 * CLIENTS
SECONDS_MAX = 300


def test_what_is_too_much_is_refused_and_afterwards_all_is_served(own_server, tmp_path):
    users = tmp_path / "users.toml"
    users.write_text(siege.ANYTHING)
    server = own_server("--users", str(users), "--log-level", "warn", "--workers", "2", "--queue", "4").start()
    server.client().create_bucket(Bucket=siege.BUCKET.strip("/"))
    siege.fill(server.port, 1000, threads=2)
    answers, lock = collections.Counter(), threading.Lock()
    end = time.monotonic() + SECONDS_MAX

    def are_enough():
        return min(answers[200], answers[503]) >= ANSWERS_MIN

    def ask():
        with Wire(server.port) as wire:
            while not are_enough() and time.monotonic() < end:
                status, headers, body = wire.ask("GET", f"{siege.BUCKET}?list-type=2")
                with lock:
                    answers[status] += 1
                if status == 503:
                    assert b"<Code>SlowDown</Code>" in body and headers["retry-after"] == "1"
                    assert "connection" not in headers, "it may come back on the same connection"
                else:
                    assert (status, body.count(b"<Key>")) == (200, 1000)

    siege.together([ask] * CLIENTS)
    print(dict(answers))
    assert set(answers) == {200, 503} and are_enough(), answers
    with Wire(server.port) as wire:
        for number in range(100):
            assert wire.ask("PUT", f"{siege.BUCKET}/after-{number}", b"all is well")[0] == 200
    server.stop()
