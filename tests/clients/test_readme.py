"""The quick start of README.md, run as it is printed."""

import json
import os
import pty
import re
import shlex
import subprocess
import threading
import time
from pathlib import Path

import pytest

from siltstone import BINARY, IS_LONG, ROOT, STOP_SECONDS_MAX, clean_environment


README = (ROOT / "README.md").read_text()


def section(heading):
    return re.search(rf"^## {heading}\n(.*?)^## ", README, re.M | re.S).group(1)


def blocks_of_the_quick_start():
    return re.findall(r"^```(?:sh|python)\n(.*?)^```", section("Quick start"), re.M | re.S)


def shell(script, cwd, environment, **more):
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script], cwd=cwd, env=environment, stdin=subprocess.DEVNULL, text=True, **more
    )


def start_command():
    """The first block. In an ordinary run the program that it names is one that was compiled before: the suite's, which
    comes from the same sources, in place of minutes of compiling."""
    command = blocks_of_the_quick_start()[0]
    if IS_LONG:
        return command
    assert re.match(r"cargo run --release( -- |\n)", command), command
    described = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"],
        cwd=ROOT, check=True, stdin=subprocess.DEVNULL, capture_output=True,
    )
    [package] = json.loads(described.stdout)["packages"]
    run_by_cargo = package["default_run"]
    assert run_by_cargo in [target["name"] for target in package["targets"] if target["kind"] == ["bin"]]
    assert run_by_cargo == BINARY.name
    return re.sub(r"^cargo run --release( --)?", shlex.quote(str(BINARY)), command)


class Terminal:
    """What a process shows on its standard error, which it takes for a terminal."""

    def __init__(self):
        self.controller, self.device = pty.openpty()
        self.text = ""
        self.reader = threading.Thread(target=self.read)

    def read(self):
        # Reading fails once nobody has the device open any more.
        try:
            while piece := os.read(self.controller, 4096):
                self.text += piece.decode(errors="replace").replace("\r\n", "\n")
        except OSError:
            pass

    def begin(self):
        """The process has the device now."""
        os.close(self.device)
        self.reader.start()

    def end(self):
        self.reader.join()
        os.close(self.controller)


@pytest.fixture
def started(tmp_path):
    """The server as `start_command` starts it, and what it showed. Only the data directory and the port are moved out
    of the way of others; `exec` makes the server our own child."""
    environment = clean_environment(
        Path.home(), SILTSTONE_DATA_DIR=str(tmp_path / "data"), SILTSTONE_LISTEN="127.0.0.1:0"
    )
    terminal = Terminal()
    command = f"exec {start_command()}"
    server = shell(command, ROOT, environment, stdout=subprocess.PIPE, stderr=terminal.device)
    terminal.begin()
    assert server.stdout.readline().startswith("listening on http://"), terminal.text
    # All of it was written before that line; it may be read a little later.
    for _ in range(500):
        if "aws s3 ls" in terminal.text:
            break
        time.sleep(0.01)
    yield terminal.text
    server.terminate()
    assert server.wait(STOP_SECONDS_MAX) == 0
    server.stdout.close()
    terminal.end()


def test_the_quick_start_works_as_printed(started, tmp_path):
    """The lines that the server offers for pasting, then the second block and the Python below it, in one shell in an
    empty directory."""
    offered = re.findall(r"^ *(export \w+=.*)$", started, re.M)
    _, use, python = blocks_of_the_quick_start()
    desk = tmp_path / "desk"
    desk.mkdir()
    script = "\n".join([*offered, use, f"python - <<'EOF'\n{python}EOF"])
    run = shell(script, desk, clean_environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output, _ = run.communicate()
    assert run.returncode == 0, output
    assert "make_bucket: my-bucket" in output
    assert "hello\n" in output and "b'hello'" in output
