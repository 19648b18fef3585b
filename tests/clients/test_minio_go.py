"""minio-go, unmodified, with the requests that mc and the init programs of stacks make."""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from siltstone import ACCESS_KEY, SECRET_KEY, Server, clean_environment

SOURCES = Path(__file__).with_name("minio_go")
# Where Debian's packages of Go libraries lie.
LIBRARIES = Path("/usr/share/gocode")
STEPS = ["probe", "objects", "parts", "presign", "versions", "policy", "encryption"]

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if shutil.which("go") is None or not (LIBRARIES / "src/github.com/minio/minio-go/v7").is_dir():
        pytest.skip("minio-go is not installed (apt-get install golang-go golang-github-minio-minio-go-v7-dev)")
    home = tmp_path_factory.mktemp("go")
    built = home / "minio_go"
    environment = clean_environment(
        home, GO111MODULE="off", GOFLAGS="", GOPATH=str(LIBRARIES), GOCACHE=os.environ.get("GOCACHE", str(home / "cache"))
    )
    subprocess.run(["go", "build", "-o", str(built), "."], cwd=SOURCES, env=environment, check=True, timeout=600)
    return built


@pytest.fixture(scope="module", params=["serve", "server"])
def endpoint(request, tmp_path_factory):
    """A server in its own form, and one in that of MinIO: the form and the address."""
    data = tmp_path_factory.mktemp(request.param) / "data"
    defaults = [] if request.param == "serve" else ["server"]
    server = Server(data, *defaults).start()
    yield request.param, f"127.0.0.1:{server.port}"
    server.stop()


def run(program, endpoint, step, home):
    bucket = f"minio-go-{next(numbers)}"
    environment = clean_environment(
        home, ENDPOINT=endpoint[1], ACCESS_KEY=ACCESS_KEY, SECRET_KEY=SECRET_KEY, BUCKET=bucket
    )
    return subprocess.run([str(program), step], env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("step", STEPS)
def test_minio_go(program, endpoint, step, tmp_path):
    done = run(program, endpoint, step, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_region_of_the_client_is_accepted_in_the_form_of_minio(program, endpoint, tmp_path):
    done = run(program, endpoint, "region", tmp_path)
    assert (done.returncode == 0) == (endpoint[0] == "server"), done.stdout + done.stderr
