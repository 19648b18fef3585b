"""The image in a container engine: podman, called by the name of docker, runs the commands of the guide as they are printed. Only ports,
and the names of containers and volumes, are moved out of the way of others."""

import json
import os
import re
import shlex
import subprocess
import time
from contextlib import contextmanager

import boto3
import pytest
import urllib3
import yaml

from needs import needs, needs_root
from packages import ROOT, SOURCES, package, run
from siltstone import BINARY, START_SECONDS_MAX, clean_environment, free_port

KEYS = {"SILTSTONE_ACCESS_KEY": "suite", "SILTSTONE_SECRET_KEY": "suite/secret+key=="}

# Limits that a container, in which the suite itself may run, can grant. runc, since crun refuses a host that has both versions of control
# groups.
SETTINGS = """
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_config_dir = "{networks}"
"""


class Engine:
    """An engine with a storage of its own. `run` is a shell for which docker is this engine."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "containers.conf").write_text(SETTINGS.format(networks=folder / "networks"))
        docker = folder / "bin/docker"
        docker.parent.mkdir()
        options = ["--root", folder / "images", "--runroot", folder / "run", "--storage-driver", "vfs", "--log-level", "error"]
        docker.write_text(f'#!/bin/sh\nexec podman {shlex.join(map(str, options))} "$@"\n')
        docker.chmod(0o755)
        # Nobody but the tests asks for the health.
        more = {"CONTAINERS_CONF": str(folder / "containers.conf"), "DISABLE_HC_SYSTEMD": "true"}
        self.environment = clean_environment(folder, **more, **KEYS)
        self.environment["PATH"] = os.pathsep.join([str(docker.parent), str(BINARY.parent), self.environment["PATH"]])

    def run(self, script):
        return run("bash", "-euo", "pipefail", "-c", script, env=self.environment, cwd=self.folder)

    def is_healthy(self, container):
        check = ["docker", "healthcheck", "run", container]
        return subprocess.run(check, env=self.environment, capture_output=True).returncode == 0

    def wait_until_healthy(self, container):
        last = time.monotonic() + START_SECONDS_MAX
        while not self.is_healthy(container):
            assert time.monotonic() < last, self.run(f"docker logs {container} 2>&1")
            time.sleep(0.1)

    def end(self):
        self.run("docker rm --all --force --time 0 && docker volume rm --all --force && docker rmi --all --force")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    needs("podman", "runc", "iptables")
    needs_root()
    made = Engine(tmp_path_factory.mktemp("engine"))
    for archive in ("*-image.tar", "*-image-debug.tar"):
        made.run(f"docker load -i {package(archive)}")
    yield made
    made.end()


def version():
    return run(BINARY, "--version").split()[1]


def page(name):
    return (ROOT / name).read_text()


def client(port, **keys):
    keys = keys or {"aws_access_key_id": KEYS["SILTSTONE_ACCESS_KEY"], "aws_secret_access_key": KEYS["SILTSTONE_SECRET_KEY"]}
    return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1", **keys)


def started(engine, command, name):
    """Runs a `docker run` of the guide in the background; gives the port that clients reach it by."""
    port = free_port()
    command, count = re.subn(r"-p 9000:9000", f"--detach --name {name} -p 127.0.0.1:{port}:9000", command)
    assert count == 1, command
    engine.run(command)
    engine.wait_until_healthy(name)
    return port


def test_the_image_serves_in_an_engine_by_the_commands_of_the_guide(engine):
    text = page("src/guide/packages.md")
    load, start = re.search(r"^```sh\n(docker load .*)\n(docker run .*)\n```", text, re.M).groups()
    assert load.replace("x86_64", os.uname().machine) == f"docker load -i {package('*-image.tar').name}"
    port = started(engine, start, "plain")
    # It has made keys, which are taken out without a shell.
    copy = " ".join(re.search(r"`(docker cp\s+CONTAINER:/data/users\.toml \.)`", text).group(1).split())
    engine.run(copy.replace("CONTAINER", "plain"))
    users = (engine.folder / "users.toml").read_text()
    keys = {f"aws_{name}": re.search(f'^{key} = "(.*)"', users, re.M).group(1) for name, key in
            (("access_key_id", "access_key"), ("secret_access_key", "secret_key"))}
    client(port, **keys).create_bucket(Bucket="photos")
    listed = re.search(r"^docker exec CONTAINER .*$", text, re.M).group(0)
    assert "admin" in engine.run(listed.replace("CONTAINER", "plain"))
    stats = " ".join(re.search(r"`(siltstone-tools --data-dir \"\$\(docker\s.*?stats)`", text, re.S).group(1).split())
    assert "buckets" in engine.run(stats)
    # It ends by SIGTERM, with 0, and its volume outlives it.
    assert engine.run("docker stop --time 30 plain && docker inspect --format '{{.State.ExitCode}}' plain").split()[-1] == "0"
    engine.run("docker rm plain")
    port = started(engine, start, "plain")
    assert [bucket["Name"] for bucket in client(port, **keys).list_buckets()["Buckets"]] == ["photos"]


def test_a_server_for_tests_is_started_by_the_command_of_the_guide(engine):
    text = page("src/guide/testing.md")
    command = " ".join(re.search(r"`(docker run .*?)`", text, re.S).group(1).split())
    keys = dict(re.findall(r"-e SILTSTONE_(ACCESS|SECRET)_KEY=(\w+)", command))
    s3 = client(started(engine, command, "tests"), aws_access_key_id=keys["ACCESS"], aws_secret_access_key=keys["SECRET"])
    s3.put_object(Bucket="test", Key="a", Body=b"hello")
    assert s3.get_object(Bucket="test", Key="a")["Body"].read() == b"hello"
    engine.run("docker stop tests")


def test_a_small_container_serves_by_the_command_of_the_guide(engine):
    command = re.search(r"^docker run --memory .*\\\n.*$", page("src/guide/appliances.md"), re.M).group(0)
    command = command.replace('"$PWD/', f'"{ROOT}/').replace("-v siltstone:", "-v small:")
    options = "-e SILTSTONE_ACCESS_KEY -e SILTSTONE_SECRET_KEY -p 9000:9000"
    s3 = client(started(engine, command.replace("-p 9000:9000", options), "small"))
    s3.create_bucket(Bucket="photos")
    s3.put_object(Bucket="photos", Key="large", Body=bytes(20 << 20))
    assert len(s3.get_object(Bucket="photos", Key="large")["Body"].read()) == 20 << 20
    limit = engine.run("docker inspect --format '{{.HostConfig.Memory}} {{.State.OOMKilled}}' small").split()
    assert limit == [str(96 << 20), "false"]


@contextmanager
def composed(engine, project, text, service):
    """A compose file whose ports are free ones; gives the container of the service, and the port for each of its ports."""
    document = yaml.safe_load(text)
    ports = {mapping.split(":")[1]: free_port() for mapping in document["services"][service]["ports"]}
    document["services"][service]["ports"] = [f"127.0.0.1:{port}:{within}" for within, port in ports.items()]
    folder = engine.folder / project
    folder.mkdir()
    (folder / "compose.yaml").write_text(yaml.safe_dump(document))
    compose = f"cd {project} && podman-compose --podman-path ../bin/docker"
    engine.run(f"{compose} up --detach")
    container = engine.run(f"docker ps --filter name={project} --format '{{{{.Names}}}}'").strip()
    engine.wait_until_healthy(container)
    yield container, ports
    engine.run(f"{compose} down")


def test_the_compose_file_starts_the_server(engine):
    """With its user, its read-only root and without capabilities."""
    text = (SOURCES / "compose.yaml").read_text()
    with composed(engine, "own", text, "siltstone") as (container, ports):
        s3 = client(ports["9000"])
        s3.create_bucket(Bucket="photos")
        s3.put_object(Bucket="photos", Key="a", Body=b"hello")
        told = engine.run(f"docker inspect --format '{{{{.Config.User}}}} {{{{.HostConfig.ReadonlyRootfs}}}} {{{{.BoundingCaps}}}}' {container}")
        assert told.split() == ["1000:1000", "true", "[]"]


def test_the_compose_file_of_minio_serves_objects_and_a_console(engine):
    """Without its second service, which is an image of MinIO's client."""
    text = re.search(r"^```yaml\n(.*?)^```", page("src/guide/minio.md"), re.M | re.S).group(1)
    document = yaml.safe_load(text)
    del document["services"]["buckets"]
    with composed(engine, "moved", yaml.safe_dump(document), "minio") as (_, ports):
        s3 = client(ports["9000"], aws_access_key_id="admin", aws_secret_access_key="change-me-please")
        s3.create_bucket(Bucket="photos")
        assert "<title>Sign in" in urllib3.request("GET", f"http://127.0.0.1:{ports['9001']}/").data.decode()
        led = urllib3.request("GET", f"http://127.0.0.1:{ports['9000']}/", headers={"Accept": "text/html"}, redirect=False)
        # The port is the one that the server knows; within a container it cannot learn which one is published for it.
        assert (led.status, led.headers["Location"]) == (303, "http://127.0.0.1:9001/-/console/")


def test_drives_of_minio_move_over_by_the_command_of_the_guide(engine):
    command = re.search(r"`(docker run --rm --entrypoint siltstone-tools .*)`", page("src/guide/minio.md")).group(1)
    drive = engine.folder / "drive"
    (drive / "photos").mkdir(parents=True)
    (drive / ".minio.sys").mkdir()
    this = "01000000-0000-0000-0000-000000000001"
    sets = {"version": "3", "this": this, "sets": [[this]], "distributionAlgo": "SIPMOD+PARITY"}
    written = {"version": "1", "format": "xl-single", "id": this, "xl": sets}
    (drive / ".minio.sys/format.json").write_text(json.dumps(written))
    engine.run(command.replace("OLD:", f"{drive}:").replace("objects:", "imported:"))
    start = f"docker run -e SILTSTONE_ACCESS_KEY -e SILTSTONE_SECRET_KEY -p 9000:9000 -v imported:/data siltstone:{version()}"
    s3 = client(started(engine, start, "imported"))
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["photos"]
