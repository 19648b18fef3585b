"""A load that asks a server for all the memory it can get: over raw sockets, so that nothing is retried and every answer is
seen. The server lets anonymous users do everything; only signed chunks are signed."""

import base64
import collections
import contextlib
import hashlib
import hmac
import socket
import threading
import time
import urllib.parse

from siltstone import ACCESS_KEY, REGION, SECRET_KEY

MIB = 1 << 20
BUCKET = "/siege"
CHUNK = 16 * MIB
# How often a request is repeated after the siege: the server still has to notice that its clients have gone.
ATTEMPTS = 200
ANYTHING = '[[user]]\nname = "anonymous"\nallow = [{ actions = ["*"], resources = ["*"] }]\n'


class Wire:
    """A connection that sends requests and reads answers."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, method, target, body=b"", headers=()):
        lines = [f"{method} {target} HTTP/1.1", "Host: siege", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        # What was refused early may be cut: the answer is there to be read all the same.
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(body)

    def answer(self):
        """Status, headers in lower case, and body."""
        head = self.until(b"\r\n\r\n").decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:])}
        return int(head[0].split()[1]), headers, self.exactly(int(headers.get("content-length", 0)))

    def ask(self, method, target, body=b"", headers=()):
        self.send(method, target, body, headers)
        return self.answer()

    def until(self, end):
        while end not in self.received:
            self.more()
        found, self.received = self.received.split(end, 1)
        return found

    def exactly(self, length):
        parts, missing = [self.received[:length]], length - len(self.received)
        self.received = self.received[length:]
        while missing > 0:
            parts.append(self.socket.recv(min(missing, MIB)))
            if not parts[-1]:
                raise ConnectionError("the answer ends early")
            missing -= len(parts[-1])
        return b"".join(parts)

    def more(self):
        received = self.socket.recv(65536)
        if not received:
            raise ConnectionError("there is no answer")
        self.received += received


def pages(port):
    """The numbers that the server tells of itself."""
    with Wire(port) as wire:
        lines = wire.ask("GET", "/-/metrics")[2].decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def fill(port, count, threads=16):
    """Puts so many objects into the bucket, of which a few have names that are as long as can be and grow when they are encoded."""

    def put(numbers):
        with Wire(port) as wire:
            for batch in (numbers[at : at + 50] for at in range(0, len(numbers), 50)):
                for number in batch:
                    wire.send("PUT", target(number), b"%d" % number)
                assert [wire.answer()[0] for _ in batch] == [200] * len(batch)

    def target(number):
        name = "long/" + "%01" * 1000 + f"{number:08}" if number % 100 == 0 else f"plain/{number:08}"
        return f"{BUCKET}/{name}"

    together([lambda at=at: put(range(at, count, threads)) for at in range(threads)])


def together(works):
    """Does all of that at once; what fails in one of them fails here."""
    failures = []

    def run(work):
        try:
            work()
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if failures:
        raise failures[0]


class Siege:
    """All kinds of costly requests at once, for some seconds. What is accepted must be right, and what is refused must say so."""

    def __init__(self, port, seconds):
        self.port = port
        self.end = time.monotonic() + seconds
        self.answers = collections.Counter()
        self.lock = threading.Lock()
        self.kept = {}

    def run(self, crowd=1):
        with contextlib.ExitStack() as stack, Wire(self.port) as wire:
            self.large = bytes(range(256)) * (64 * MIB // 256)
            assert wire.ask("PUT", f"{BUCKET}/large", self.large)[0] == 200
            status, _, made = wire.ask("POST", f"{BUCKET}/parts?uploads")
            assert status == 200
            self.upload = made.split(b"<UploadId>")[1].split(b"<")[0].decode()
            assert wire.ask("PUT", f"{BUCKET}/parts?partNumber=1&uploadId={self.upload}", b"one")[0] == 200
            for _ in range(600 * crowd):
                self.hold(stack, b"GET / HTTP/1.1\r\nHost: siege\r\nX-Much: " + b"y" * 12000)
            for _ in range(40 * crowd):
                self.hold(stack, f"GET {BUCKET}/large HTTP/1.1\r\nHost: siege\r\n\r\n".encode())
            for _ in range(20 * crowd):
                self.hold(stack, f"GET {LISTED} HTTP/1.1\r\nHost: siege\r\n\r\n".encode())
            kinds = self.kinds()
            together([lambda kind=kind, name=name: self.repeat(kind, name) for kind in kinds for name in range(6 * crowd)])

    def kinds(self):
        return [self.parts, self.chunks, self.deletions, self.completions, self.lists, self.trees, self.reads, self.small]

    def hold(self, stack, sent):
        """A client that sends this and then does nothing."""
        wire = stack.enter_context(Wire(self.port))
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.socket.sendall(sent)

    def repeat(self, kind, name):
        while time.monotonic() < self.end:
            with contextlib.suppress(ConnectionError), Wire(self.port) as wire:
                while time.monotonic() < self.end:
                    self.judge(kind.__name__, *kind(wire, name))

    def judge(self, kind, answer, expected, is_right=lambda body: True):
        status, headers, body = answer
        with self.lock:
            self.answers[kind, status] += 1
        if status == 503:
            assert b"<Code>SlowDown</Code>" in body and int(headers["retry-after"]) > 0, body
            if headers.get("connection") == "close":
                raise ConnectionError("it was turned away")
            time.sleep(0.05)
        else:
            assert status == expected and is_right(body), f"{kind}: {status} {headers} {body[:300]}"

    def keep(self, key, answer, data):
        """Remembers what was accepted."""
        if answer[0] == 200:
            assert answer[1]["etag"] == f'"{hashlib.md5(data).hexdigest()}"'
            with self.lock:
                self.kept[key] = hashlib.md5(data).hexdigest()
        return answer, 200

    def parts(self, wire, name):
        data = bytes([name]) * (16 * MIB)
        target = f"{BUCKET}/parts?partNumber={name + 2}&uploadId={self.upload}"
        answer = wire.ask("PUT", target, data)
        assert answer[0] != 200 or answer[1]["etag"] == f'"{hashlib.md5(data).hexdigest()}"'
        return answer, 200

    def chunks(self, wire, name):
        data = bytes([name ^ 0xFF]) * CHUNK
        headers, body = signed(f"{BUCKET}/chunks-{name}", data)
        return self.keep(f"chunks-{name}", wire.ask("PUT", f"{BUCKET}/chunks-{name}", body, headers), data)

    def deletions(self, wire, name):
        keys = "".join(f"<Object><Key>no-{name}-{n:03}-{'&gt;' * 240}</Key></Object>" for n in range(1000))
        body = f"<Delete>{keys}</Delete>".encode()
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        answer = wire.ask("POST", f"{BUCKET}?delete", body, [("Content-MD5", md5)])
        return answer, 200, lambda body: body.count(b"<Deleted>") == 1000

    def completions(self, wire, _):
        part = "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part>"
        parts = "".join(part.format(n, "0" * 32) for n in range(1, 10_001))
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        return wire.ask("POST", f"{BUCKET}/parts?uploadId={self.upload}", body), 400, lambda body: b"InvalidPart" in body

    def trees(self, wire, _):
        body = b"<Tagging>" + b"<a/>" * (MIB // 4 - 10) + b"</Tagging>"
        return wire.ask("PUT", f"{BUCKET}/large?tagging", body), 400, lambda body: b"MalformedXML" in body

    def lists(self, wire, _):
        return wire.ask("GET", LISTED), 200, lambda body: body.count(b"<Key>") == 1000

    def reads(self, wire, _):
        return wire.ask("GET", f"{BUCKET}/large"), 200, lambda body: body == self.large

    def small(self, wire, name):
        data = b"%d" % name * 2000
        answer = wire.ask("PUT", f"{BUCKET}/small-{name}", data)
        if answer[0] == 200:
            assert wire.ask("GET", f"{BUCKET}/small-{name}")[2] == data
        return self.keep(f"small-{name}", answer, data)

    def check_served(self):
        """After the siege every kind is served. During it a kind may be refused each time: that is a matter of chance."""
        for kind in self.kinds():
            assert any(self.attempt(kind) != 503 for _ in range(ATTEMPTS)), kind.__name__

    def attempt(self, kind):
        with Wire(self.port) as wire:
            answer, expected, *is_right = kind(wire, 0)
            with contextlib.suppress(ConnectionError):
                self.judge(kind.__name__, answer, expected, *is_right)
            return answer[0]

    def check_kept(self):
        """What was accepted is there."""
        with Wire(self.port) as wire:
            for key, md5 in self.kept.items():
                status, _, body = wire.ask("GET", f"{BUCKET}/{key}")
                assert (status, hashlib.md5(body).hexdigest()) == (200, md5), key


LISTED = f"{BUCKET}?list-type=2&prefix=long/&encoding-type=url"


def signed(path, data):
    """Headers and body of a put in one signed chunk (S3 API reference, "Transferring payload in multiple chunks")."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
    last_length = len(f"0;chunk-signature={'0' * 64}\r\n\r\n")
    length = len(f"{len(data):x};chunk-signature={'0' * 64}\r\n") + len(data) + 2 + last_length
    headers = {
        "host": "siege",
        "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "x-amz-date": stamp,
        "x-amz-decoded-content-length": str(len(data)),
    }
    names = ";".join(headers)
    listed = "".join(f"{name}:{value}\n" for name, value in headers.items())
    canonical = f"PUT\n{urllib.parse.quote(path)}\n\n{listed}\n{names}\n{headers['x-amz-content-sha256']}"
    key = f"AWS4{SECRET_KEY}".encode()
    for part in (stamp[:8], REGION, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")

    def sign(kind, rest):
        return hmac.digest(key, f"{kind}\n{stamp}\n{scope}\n{rest}".encode(), "sha256").hex()

    signature = sign("AWS4-HMAC-SHA256", hashlib.sha256(canonical.encode()).hexdigest())
    seed = signature
    body = []
    for piece in (data, b""):
        hashes = f"{hashlib.sha256().hexdigest()}\n{hashlib.sha256(piece).hexdigest()}"
        seed = sign("AWS4-HMAC-SHA256-PAYLOAD", f"{seed}\n{hashes}")
        body += [f"{len(piece):x};chunk-signature={seed}\r\n".encode(), piece, b"\r\n"]
    body = b"".join(body)
    assert len(body) == length
    authorization = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope},SignedHeaders={names},Signature={signature}"
    sent = [(name, value) for name, value in headers.items() if name != "host"]
    return [*sent, ("Authorization", authorization)], body
