"""The container image: its configuration, and its programs in its root, which is read-only, under the uid of nobody."""

import os
import re
import signal
import subprocess
from contextlib import contextmanager
from http.client import HTTPConnection

import boto3
import pytest

from image import NOBODY, contained
from packages import run
from siltstone import BINARY, ROOT, STOP_SECONDS_MAX

UNPACKED_MAX_BYTES = 18_000_000
KEYS = {"SILTSTONE_ACCESS_KEY": "suite", "SILTSTONE_SECRET_KEY": "suite/secret+key=="}


@pytest.fixture
def data(tmp_path):
    """A directory for /data, which belongs to root."""
    data = tmp_path / "data"
    data.mkdir()
    return data


@contextmanager
def started(image, data, *arguments, **environment):
    """A container with these arguments; gives its port. It stops as by `docker stop`."""
    # A port of its own; without it the command is that of the image or of a compose file.
    command = [*image.config["Entrypoint"], *arguments, "--listen", "127.0.0.1:0"]
    path = dict(entry.split("=", 1) for entry in image.config["Env"])
    with open(data.with_name("stderr"), "ab") as stderr:
        server = subprocess.Popen(
            contained(image, data, *command), env={**path, "PATH": os.environ["PATH"], **KEYS, **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True,
        )
    line = server.stdout.readline()
    found = re.fullmatch(r"listening on http://127\.0\.0\.1:(\d+)\n", line)
    assert found, f"{line!r} {data.with_name('stderr').read_text()}"
    yield int(found.group(1))
    server.send_signal(signal.SIGTERM)
    assert server.wait(STOP_SECONDS_MAX) == 0
    server.stdout.close()


def client(port):
    return boto3.client(
        "s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
        aws_access_key_id=KEYS["SILTSTONE_ACCESS_KEY"], aws_secret_access_key=KEYS["SILTSTONE_SECRET_KEY"],
    )


def page(port, path):
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def test_the_image_is_small_and_has_nothing_but_the_programs(image):
    assert sum(layer.stat().st_size for layer in image.layers) < UNPACKED_MAX_BYTES
    files = {str(path.relative_to(image.root)) for path in image.entries if path.is_file() and not path.is_symlink()}
    assert files == {"bin/siltstone", "usr/share/doc/siltstone/LICENSE"}
    links = {path for path in image.entries if path.is_symlink()}
    assert {path.name for path in links} == {"minio", "mc", "curl", "wget", "docker-entrypoint.sh"}
    assert {path.resolve() for path in links} == {image.root / "bin/siltstone"}
    assert (image.root / "data").stat().st_mode & 0o7777 == 0o1777


def test_the_configuration_is_that_of_a_server(image):
    config = image.config
    assert (config["Entrypoint"], config["Cmd"]) == (["/bin/siltstone"], ["server", "/data"])
    assert (config["ExposedPorts"], config["Volumes"]) == ({"9000/tcp": {}}, {"/data": {}})
    assert config["User"] == ""
    assert config["Healthcheck"]["Test"] == ["CMD", "/bin/siltstone", "health"]
    version = run(image.root / "bin/siltstone", "--version").split()[1]
    assert {tag.split("/")[-1] for tag in image.tags} == {f"siltstone:{version}"}


@pytest.mark.parametrize(
    "command",
    [None, ["server", "/data", "--console-address", ":9001"], ["minio", "server", "/data"]],
    ids=["its own", "of MinIO", "of MinIO with its name"],
)
def test_the_image_serves_under_any_uid_with_a_read_only_root(image, data, command):
    os.chown(data, NOBODY, NOBODY)
    with started(image, data, *(command or image.config["Cmd"])) as port:
        s3 = client(port)
        s3.create_bucket(Bucket="photos")
        s3.put_object(Bucket="photos", Key="cat", Body=b"meow")
        health = [*image.config["Healthcheck"]["Test"][1:], "--url", f"http://127.0.0.1:{port}"]
        assert run(*contained(image, data, *health)) == "ready\n"
        console = 9001 if command and "--console-address" in command else port
        assert "<title>Sign in" in page(console, "/-/console/")
    with started(image, data, *(command or image.config["Cmd"])) as port:
        assert client(port).get_object(Bucket="photos", Key="cat")["Body"].read() == b"meow"
    assert (data / "meta").stat().st_uid == NOBODY


def test_the_health_check_fails_without_a_server(image, data):
    check = contained(image, data, *image.config["Healthcheck"]["Test"][1:], "--url", "http://127.0.0.1:1")
    assert subprocess.run(check, capture_output=True).returncode == 1


def test_a_directory_of_another_user_is_refused_with_the_chown_that_helps(image, data):
    command = contained(image, data, *image.config["Entrypoint"], *image.config["Cmd"])
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1
    assert f"runs as uid {NOBODY}, gid {NOBODY}; /data belongs to uid 0, gid 0" in refused.stderr
    advice = re.search(r"As root, run: (chown .*) /data$", refused.stderr.strip()).group(1)
    run(*advice.split(), data)
    with started(image, data, *image.config["Cmd"]):
        pass


def test_the_tools_of_the_host_read_the_volume_of_the_image(image, data):
    os.chown(data, NOBODY, NOBODY)
    with started(image, data, *image.config["Cmd"]) as port:
        client(port).create_bucket(Bucket="photos")
    assert "buckets 1" in run(BINARY.with_name("siltstone-tools"), "--data-dir", data, "verify")


@pytest.mark.parametrize("page", ["README.md", "src/guide/packages.md"])
def test_the_command_of_the_manual_starts_this_image(image, page):
    ports, volume, tag = re.search(
        r"docker run -p (\S+) -v \w+:(\S+) (siltstone:[\d.]+)", (ROOT / page).read_text()
    ).groups()
    assert {f"{ports.split(':')[1]}/tcp": {}} == image.config["ExposedPorts"]
    assert {volume: {}} == image.config["Volumes"]
    assert tag in {tag.split("/")[-1] for tag in image.tags}


def test_the_users_are_listed_in_a_container_by_the_command_of_the_guide(image, data):
    page = (ROOT / "src/guide/packages.md").read_text()
    words = re.search(r"^docker exec CONTAINER (.*)$", page, re.M).group(1).split()
    os.chown(data, NOBODY, NOBODY)
    with started(image, data, *image.config["Cmd"]) as port:
        own = dict(entry.split("=", 1) for entry in image.config["Env"])
        # A container has the port 9000, where the server is looked for, to itself.
        environment = {"PATH": f"{own['PATH']}:{os.environ['PATH']}", "SILTSTONE_LISTEN": f"127.0.0.1:{port}", **KEYS}
        listed = run(*contained(image, data, "/bin/siltstone", *words[1:]), env=environment)
    assert words[0] == "siltstone" and "admin" in listed
