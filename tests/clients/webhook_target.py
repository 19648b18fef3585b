"""A target of webhooks: an HTTP server that keeps what it accepts, and fails as it is told.

As a program: webhook_target.py PORT FILE appends each accepted record to FILE before it answers, so that it may be killed at any time.
"""

import hashlib
import hmac
import json
import os
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Target:
    """Answers as `behaviour` says: accept, fail (500), later (503 with `retry_after`), refuse (422 for keys with "poison"), hang, reset or
    slow. `tests` has the messages that are no records."""

    def __init__(self, port=0, secret=None, file=None):
        self.behaviour = "accept"
        self.secret = secret
        self.records = []
        self.tests = []
        self.retry_after = None
        self.arrivals = []
        self.check = lambda header, body: None
        self.requests = 0
        self.largest_batch = 0
        self.released = threading.Event()
        self.lock = threading.Lock()
        self.file = open(file, "ab") if file else None
        target = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                target.answer(self)

            def log_message(self, *_):
                pass

        ThreadingHTTPServer.request_queue_size = 64
        ThreadingHTTPServer.allow_reuse_address = True
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/in?from=siltstone"

    def answer(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        self.check(request.headers["X-Siltstone-Signature"], body)
        with self.lock:
            self.requests += 1
            self.arrivals.append(time.monotonic())
            behaviour = self.behaviour
        if behaviour == "hang":
            self.released.wait()
            request.close_connection = True
            return
        if behaviour == "reset":
            linger = struct.pack("ii", 1, 0)
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            request.close_connection = True
            return
        if behaviour == "slow":
            time.sleep(0.3)
        failures = {"fail": 500, "later": 503}
        status = failures.get(behaviour) or self.status(request, body)
        if status == 200:
            self.keep(json.loads(body))
        request.send_response(status)
        request.send_header("Content-Length", "2")
        if behaviour == "later":
            request.send_header("Retry-After", self.retry_after)
        request.end_headers()
        request.wfile.write(b"ok")

    def status(self, request, body):
        if self.secret and not is_signed(self.secret, request.headers["X-Siltstone-Signature"], body):
            return 401
        message = json.loads(body)
        is_poison = any("poison" in record["s3"]["object"]["key"] for record in message.get("Records", []))
        return 422 if self.behaviour == "refuse" and is_poison else 200

    def keep(self, message):
        with self.lock:
            if "Records" not in message:
                self.tests.append(message)
                return
            self.largest_batch = max(self.largest_batch, len(message["Records"]))
            self.records += message["Records"]
            if self.file:
                self.file.write(b"".join(json.dumps(record).encode() + b"\n" for record in message["Records"]))
                self.file.flush()
                os.fsync(self.file.fileno())

    def keys(self):
        with self.lock:
            return [record["s3"]["object"]["key"] for record in self.records]


def is_signed(secret, header, body):
    """The check of a signature, as the page `webhooks` shows it."""
    fields = dict(field.split("=", 1) for field in (header or "t=0,v1=").split(","))
    expected = hmac.new(secret, fields["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, fields["v1"]) and abs(time.time() - int(fields["t"])) < 300


if __name__ == "__main__":
    served = Target(int(sys.argv[1]), file=sys.argv[2]).start()
    print("ready", flush=True)
    served.thread.join()
