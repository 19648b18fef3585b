"""The quick start of README.md, run as it is printed."""

import re
import subprocess
from pathlib import Path

import pytest

from siltstone import ROOT, STOP_SECONDS_MAX, clean_environment


README = (ROOT / "README.md").read_text()


def section(heading):
    return re.search(rf"^## {heading}\n(.*?)^## ", README, re.M | re.S).group(1)


def blocks_of_the_quick_start():
    return re.findall(r"^```(?:sh|python)\n(.*?)^```", section("Quick start"), re.M | re.S)


def shell(script, cwd, environment, **more):
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script], cwd=cwd, env=environment, stdin=subprocess.DEVNULL, text=True, **more
    )


@pytest.fixture
def started(tmp_path):
    """The server as the first block starts it, and what it said. Only the data directory and the port are moved out
    of the way of others; `exec` makes the server our own child."""
    environment = clean_environment(
        Path.home(), SILTSTONE_DATA_DIR=str(tmp_path / "data"), SILTSTONE_LISTEN="127.0.0.1:0"
    )
    said = tmp_path / "said"
    with open(said, "wb") as stderr:
        command = f"exec {blocks_of_the_quick_start()[0]}"
        server = shell(command, ROOT, environment, stdout=subprocess.PIPE, stderr=stderr)
    assert server.stdout.readline().startswith("listening on http://"), said.read_text()
    yield said.read_text()
    server.terminate()
    assert server.wait(STOP_SECONDS_MAX) == 0
    server.stdout.close()


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
