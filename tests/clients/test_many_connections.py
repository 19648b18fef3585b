"""Many connections at once: idle ones cost next to nothing, a burst is served, and slow clients hold up nobody else."""

import contextlib
import hashlib
import resource
import selectors
import socket

import pytest

IDLE = 5_000
BURST = 1_000
SLOW = 1_000
MEMORY_MAX_MIB = 64
HEALTH = b"GET /-/health HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(autouse=True)
def descriptors():
    """As many as may be had; a machine that grants too few is told so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < IDLE + 500:
        pytest.skip(f"{hard} open files are too few for {IDLE} connections")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def status(server, name):
    """A number from the server's /proc/PID/status."""
    with open(f"/proc/{server.process.pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))


def connect(server):
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(connection, request=HEALTH):
    connection.sendall(request)
    return receive(connection)


def receive(connection):
    """The head of one answer, whose body is read past."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        assert more, f"the connection ended behind {received!r}"
        received += more
    head, rest = received.split(b"\r\n\r\n", 1)
    lines = [line.split(b": ", 1) for line in head.split(b"\r\n")[1:]]
    length = next((int(value) for name, value in lines if name.lower() == b"content-length"), 0)
    while len(rest) < length:
        rest += connection.recv(65536)
    return head


def works(server, bucket, rounds=20):
    """A client of the ordinary kind puts and gets."""
    s3 = server.client()
    for number in range(rounds):
        body = hashlib.sha256(str(number).encode()).digest() * 128
        s3.put_object(Bucket=bucket, Key=f"k{number}", Body=body)
        assert s3.get_object(Bucket=bucket, Key=f"k{number}")["Body"].read() == body


@pytest.fixture
def running(own_server):
    server = own_server("--idle-timeout", "10m").start()
    server.client().create_bucket(Bucket="busy")
    return server


def test_five_thousand_idle_connections_cost_little(running):
    works(running, "busy")
    threads = status(running, "Threads:")
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(running)) for _ in range(IDLE)]
        for connection in connections:
            assert ask(connection).startswith(b"HTTP/1.1 200")
        works(running, "busy")
        assert status(running, "Threads:") <= threads + 1
        peak_mib = status(running, "VmHWM:") / 1024
        assert peak_mib < MEMORY_MAX_MIB, f"{peak_mib:.1f} MiB"
        print(f"{IDLE} idle connections: {peak_mib:.1f} MiB at the most, {status(running, 'Threads:')} threads")
        for connection in connections[::100]:
            assert ask(connection).startswith(b"HTTP/1.1 200"), "an idle connection still serves"
    running.stop()


def test_a_burst_of_a_thousand_connections_is_served(running):
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for _ in range(BURST):
            connection = stack.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", running.port))
            selector.register(connection, selectors.EVENT_WRITE)
        answers = []
        while len(answers) < BURST:
            events = selector.select(timeout=60)
            assert events, f"{len(answers)} of {BURST} are answered"
            for key, mask in events:
                if mask & selectors.EVENT_WRITE:
                    key.fileobj.send(HEALTH)
                    selector.modify(key.fileobj, selectors.EVENT_READ)
                else:
                    answers.append(key.fileobj.recv(65536)[:12])
                    selector.unregister(key.fileobj)
    assert set(answers) == {b"HTTP/1.1 200"}
    running.stop()


def test_slow_clients_hold_up_nobody_else(running):
    s3 = running.client()
    s3.put_object(Bucket="busy", Key="large", Body=bytes(8 << 20))
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "busy", "Key": "large"}, ExpiresIn=600)
    target = url.split(f":{running.port}", 1)[1]
    put = s3.generate_presigned_url("put_object", Params={"Bucket": "busy", "Key": "slow"}, ExpiresIn=600)
    put_target = put.split(f":{running.port}", 1)[1]
    with contextlib.ExitStack() as stack:
        for number in range(SLOW):
            connection = stack.enter_context(connect(running))
            if number % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n\r\n".encode())
            else:
                head = f"PUT {put_target} HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nContent-Length: 100000\r\n\r\n"
                connection.sendall(head.encode() + b"a few bytes")
        # None of them moves on. Everybody else is served all the same.
        works(running, "busy")
    works(running, "busy")
