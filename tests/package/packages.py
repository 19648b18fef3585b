"""Where the packages are, and what they are made of."""

import subprocess

from siltstone import ROOT

PACKAGES = ROOT / "target/package"
SOURCES = ROOT / "tools/package"


def package(pattern):
    """The package whose name matches; build.sh has just made it."""
    found = sorted(PACKAGES.glob(pattern), key=lambda path: path.stat().st_mtime)
    assert found, f"there is no {pattern} in {PACKAGES}: run tools/package/build.sh"
    return found[-1]


def run(*command, **more):
    """Runs what has to end well, and gives its output."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more,
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout
