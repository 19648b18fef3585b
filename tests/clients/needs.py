"""What tests need of the host."""

import os
import shutil

import pytest


def needs(*tools):
    """Skips the test where the host lacks one of the programs."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def needs_root():
    if os.geteuid() != 0:
        pytest.skip("only root can make containers and networks")
