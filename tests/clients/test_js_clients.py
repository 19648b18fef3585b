"""The AWS SDK for JavaScript v3 and minio-js, unmodified, by the programs in js/. run.sh installs them if Node.js is there."""

import shutil
import subprocess
from pathlib import Path

import pytest

from siltstone import ACCESS_KEY, REGION, SECRET_KEY, clean_environment

PROGRAMS = Path(__file__).with_name("js")


def node(program, server, bucket, home):
    if shutil.which("node") is None or not (PROGRAMS / "node_modules").is_dir():
        pytest.skip("Node.js of version 20 or later, with npm, is not installed")
    environment = clean_environment(
        home, ENDPOINT=server.url, ACCESS_KEY=ACCESS_KEY, SECRET_KEY=SECRET_KEY, REGION=REGION, BUCKET=f"{bucket}-js"
    )
    return subprocess.run(
        ["node", str(PROGRAMS / program)],
        cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
    )


def test_aws_sdk_for_javascript(server, bucket, tmp_path):
    done = node("aws_sdk.mjs", server, bucket, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_minio_js(server, bucket, tmp_path):
    done = node("minio_js.mjs", server, bucket, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
