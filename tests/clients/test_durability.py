"""What 200 promises, seen from outside: the system calls of the server, in the order in which it made them."""

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass

import pytest

SYNCS = ("fdatasync", "fsync")
WRITES = ("pwrite64", "pwritev", "write", "writev")
SENDS = ("sendto", "sendmsg", "write", "writev")
ANSWER = '"HTTP/1.1 200'


@dataclass
class Call:
    """A system call: `began` and `ended` are line numbers of the trace, so that they tell what came first."""

    name: str
    file: str
    text: str
    began: int
    ended: int


def calls_of(path):
    """The calls in a file that strace has written. One that another thread interrupted stands on two lines."""
    pending, calls = {}, []
    for number, line in enumerate(path.read_text(errors="replace").splitlines()):
        thread, _, text = line.partition(" ")
        text, began = text.strip(), number
        if text.endswith("<unfinished ...>"):
            pending[thread] = text.removesuffix("<unfinished ...>"), number
            continue
        if resumed := re.match(r"<\.\.\. \w+ resumed>", text):
            head, began = pending.pop(thread)
            text = head + text[resumed.end():]
        if call := re.match(r"(\w+)\(\d+<([^>]*)>", text):
            calls.append(Call(call.group(1), call.group(2), text, began, number))
    return calls


def calls_until_answered(path, start):
    """The calls from line `start` on up to the 200, which is the last of them."""
    for _ in range(1000):
        calls = [call for call in calls_of(path) if call.began >= start]
        for i, call in enumerate(calls):
            if call.name in SENDS and ANSWER in call.text:
                return calls[: i + 1]
        time.sleep(0.01)
    raise AssertionError("no 200 was traced")


@pytest.fixture
def traced(own_server, tmp_path):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    probe = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"strace cannot attach to a process here: {probe.stderr.strip()}")
    path = tmp_path / "trace"
    what = "trace=" + ",".join({*SYNCS, *WRITES, *SENDS})
    # -D keeps the server our child and strace a grandchild, so that signals reach the server.
    return own_server(wrapper=["strace", "-D", "-f", "-y", "-s", "64", "-e", what, "-o", str(path)]).start(), path


@pytest.mark.parametrize("size", [100, 1_000_000])
def test_what_a_put_wrote_is_synced_before_it_is_answered(traced, size):
    server, trace = traced
    client = server.client()
    client.create_bucket(Bucket="traced")
    start = len(trace.read_text(errors="replace").splitlines())
    client.put_object(Bucket="traced", Key="k", Body=b"x" * size)
    *calls, answer = calls_until_answered(trace, start)

    written = {call.file: call.ended for call in calls if call.name in WRITES and call.file.endswith((".log", ".segment"))}
    assert {os.path.splitext(file)[1] for file in written} == {".log", ".segment"}
    for file, last_write in written.items():
        assert any(
            call.name in SYNCS and call.file == file and call.text.endswith("= 0")
            and call.began > last_write and call.ended < answer.began
            for call in calls
        ), f"{file} was not synced between its last write and the answer"


def test_a_delete_is_synced_before_it_is_answered(traced):
    server, trace = traced
    client = server.client()
    client.create_bucket(Bucket="traced")
    client.put_object(Bucket="traced", Key="k", Body=b"x")
    start = len(trace.read_text(errors="replace").splitlines())
    client.delete_objects(Bucket="traced", Delete={"Objects": [{"Key": "k"}]})
    *calls, answer = calls_until_answered(trace, start)
    assert any(
        call.name in SYNCS and call.file.endswith(".log") and call.text.endswith("= 0") and call.ended < answer.began
        for call in calls
    )
