"""The end of a server under load: what was answered is there, and no answer is cut."""

import http.client
import threading
import time
import urllib.parse

import pytest
from botocore.config import Config

SHUTDOWN_SECONDS = 10
LARGE = bytes(range(256)) * 4096 * 4


class Load:
    """Clients that put and get over connections of their own until the server is gone."""

    def __init__(self, server, s3, count):
        self.address = urllib.parse.urlsplit(server.url).netloc
        self.s3 = s3
        self.answered = {}
        self.unanswered = []
        self.cut = []
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        for thread in self.threads:
            thread.join()

    def run(self, number):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        for turn in range(1_000_000):
            key = f"{number}-{turn}"
            # Some fit into one packet, some take a while.
            body = (key * (1 if turn % 3 else 20_000)).encode()
            try:
                if not self.ask(connection, "PUT", "put_object", key, body):
                    return
                self.answered[key] = body
                if not self.ask(connection, "GET", "get_object", "large"):
                    return
            except ConnectionRefusedError:
                return

    def ask(self, connection, method, operation, key, body=None):
        """Whether there was an answer and another request may follow. One that ends half-way is noted."""
        url = self.s3.generate_presigned_url(operation, Params={"Bucket": "load", "Key": key})
        try:
            connection.request(method, url.split(self.address, 1)[1], body)
            answer = connection.getresponse()
        except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected):
            self.unanswered.append(key)
            return False
        try:
            got = answer.read()
        except (http.client.IncompleteRead, ConnectionResetError) as error:
            self.cut.append((key, error))
            return False
        if answer.status == 503:
            return False
        if answer.status != 200 or (method == "GET" and got != LARGE):
            self.cut.append((key, answer.status, got[:1000]))
            return False
        return True


@pytest.mark.parametrize("engine", ["direct", "tiny_http"])
def test_what_was_answered_is_there_and_no_answer_is_cut(own_server, engine):
    server = own_server("--http-engine", engine, "--shutdown-timeout", f"{SHUTDOWN_SECONDS}s").start()
    s3 = server.client(Config(signature_version="s3v4"))
    s3.create_bucket(Bucket="load")
    s3.put_object(Bucket="load", Key="large", Body=LARGE)
    with Load(server, s3, 12) as load:
        deadline = time.monotonic() + 60
        while len(load.answered) < 60 and time.monotonic() < deadline:
            time.sleep(0.01)
        begun = time.monotonic()
        server.stop()
        took = time.monotonic() - begun
    assert len(load.answered) >= 60 and not load.cut, load.cut
    # The store is closed after the last request; a busy host gets some time for it.
    assert took < SHUTDOWN_SECONDS + 5

    server.start()
    s3 = server.client()
    for key, body in load.answered.items():
        assert s3.get_object(Bucket="load", Key=key)["Body"].read() == body, key
