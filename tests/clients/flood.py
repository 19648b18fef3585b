"""Many small requests of nobody in particular, in pipelines: faster than a client that waits for each answer."""

import itertools
import socket
import threading

CONNECTIONS = 16
PIPELINED_BYTES = 1 << 18
PIPELINED = 64

ANYBODY = """
[[user]]
name = "anonymous"

[[user.allow]]
actions = ["PutObject", "DeleteObject", "ListBucket", "GetObject"]
resources = ["*"]
"""


def allow_anybody(server):
    """Lets requests without a signature in; before the server starts."""
    server.data_dir.mkdir(parents=True, exist_ok=True)
    (server.data_dir / "users.toml").write_text(ANYBODY)


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.bytes = b""

    def statuses(self, requests):
        """Sends all requests, then reads the status of each answer. After the refusal of a large body the server closes."""
        found = []
        try:
            self.socket.sendall(b"".join(requests))
            for _ in requests:
                found.append(self.status())
        except ConnectionError:
            if not found or found[-1] < 400:
                raise
        return found

    def status(self):
        while (end := self.bytes.find(b"\r\n\r\n")) < 0:
            self.read()
        head, self.bytes = self.bytes[:end].lower(), self.bytes[end + 4:]
        length = 0
        if (at := head.find(b"content-length:")) >= 0:
            length = int(head[at + 15:].split(b"\r\n", 1)[0])
        while len(self.bytes) < length:
            self.read()
        self.bytes = self.bytes[length:]
        return int(head[9:12])

    def read(self):
        received = self.socket.recv(1 << 16)
        if not received:
            raise ConnectionError("the server closed the connection")
        self.bytes += received


def put(path, body=b""):
    return b"PUT /%s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def delete(path):
    return b"DELETE /%s HTTP/1.1\r\nhost: x\r\n\r\n" % path.encode()


def flood(port, count, request, until=None):
    """Makes the requests `request(n)` for all n below `count`, from several connections. Ends early after the status
    `until`. Gives the status of each that was made, by n."""
    numbers, found, stop, lock = iter(range(count)), {}, threading.Event(), threading.Lock()
    pipelined = max(1, min(PIPELINED, PIPELINED_BYTES // len(request(0)))) if count else 1
    failures = []

    def work():
        try:
            connection = Connection(port)
            while not stop.is_set():
                with lock:
                    batch = list(itertools.islice(numbers, pipelined))
                if not batch:
                    return
                statuses = connection.statuses([request(n) for n in batch])
                found.update(zip(batch, statuses))
                if until in statuses:
                    stop.set()
                elif len(statuses) < len(batch):
                    raise ConnectionError(f"closed after {statuses[-1]}")
        except BaseException as failure:
            failures.append(failure)
            stop.set()

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return found
