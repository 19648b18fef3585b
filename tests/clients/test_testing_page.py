"""The page "S3 for your tests": each fixture, run as it is printed by the tools of its language."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pages import blocks
from siltstone import BINARY, ROOT, clean_environment
from test_minio_go import LIBRARIES

MODULES = Path(__file__).with_name("js") / "node_modules"


def installed(name):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")


@pytest.fixture
def run(tmp_path):
    """Runs a command in an empty directory, where `siltstone` is the one that is tested; gives what it said."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "siltstone").symlink_to(BINARY)

    def run(*command, **more):
        environment = clean_environment(tmp_path, **more)
        environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
        # Toolchains are found by the home of the user.
        for name in ("RUSTUP_HOME", "CARGO_HOME"):
            environment.setdefault(name, str(Path.home() / f".{name.split('_')[0].lower()}"))
        done = subprocess.run(
            [str(word) for word in command], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def test_the_first_line_that_is_said(tmp_path):
    page = (ROOT / "src/guide/testing.md").read_text()
    command, said = page.split("```text\n")[1].split("\n```")[0].splitlines()
    command = command.replace(" siltstone ", f" exec {shlex.quote(str(BINARY))} ").replace("DIR", str(tmp_path / "data"))
    server = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=clean_environment(tmp_path))
    line = server.stdout.readline()
    server.terminate()
    server.wait()
    assert re.sub(r":\d+$", "", line.strip()) == re.sub(r":\d+$", "", said)


def the_block(heading, language):
    [block] = blocks("testing", heading, language)
    return block


def test_python(run, tmp_path):
    (tmp_path / "test_page.py").write_text(the_block("Python", "python"))
    assert "1 passed" in run(sys.executable, "-m", "pytest", "-q", "test_page.py")


def test_javascript(run, tmp_path):
    installed("node")
    if not MODULES.is_dir():
        pytest.skip("the modules of Node.js are not installed")
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "page.test.mjs").write_text(the_block("JavaScript", "js"))
    assert "# pass 1" in run("node", "--test", "--test-reporter=tap", "page.test.mjs")


def test_go(run, tmp_path):
    installed("go")
    if not (LIBRARIES / "src/github.com/minio/minio-go/v7").is_dir():
        pytest.skip("minio-go is not installed")
    (tmp_path / "page_test.go").write_text(the_block("Go", "go"))
    settings = {"GO111MODULE": "off", "GOFLAGS": "", "GOPATH": str(LIBRARIES), "GOCACHE": os.environ.get("GOCACHE", str(tmp_path / "cache"))}
    assert "ok" in run("go", "test", "page_test.go", **settings)


def test_rust(run, tmp_path):
    installed("rustc")
    (tmp_path / "page.rs").write_text(the_block("Rust", "rust,ignore"))
    run("rustc", "--edition", "2024", "--test", "page.rs")
    assert "1 passed" in run(tmp_path / "page")


def test_a_shell(run):
    run("bash", "-euo", "pipefail", "-c", the_block("A shell", "sh"))
