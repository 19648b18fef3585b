"""Where the packages are, and what their tests need of the host."""

import os
import shutil
import subprocess

import pytest

from siltstone import BINARY, ROOT

PACKAGES = ROOT / "target/package"
SOURCES = ROOT / "tools/package"


def package(pattern):
    """The package whose name matches; build.sh has just made it."""
    found = sorted(PACKAGES.glob(pattern), key=lambda path: path.stat().st_mtime)
    assert found, f"there is no {pattern} in {PACKAGES}: run tools/package/build.sh"
    return found[-1]


def needs(*tools):
    """Skips the test where the host lacks one of the programs."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def needs_root():
    if os.geteuid() != 0:
        pytest.skip("only root can start containers")


def run(*command, **more):
    """Runs what has to end well, and gives its output."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more,
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout
