"""Compose files of MinIO and RustFS as they are: their entry point, command, environment and health check run word for word in the
unpacked image, in a network of its own. Only the engine is missing."""

import ctypes
import os
import re
import shlex
import subprocess
import threading
import time
from pathlib import Path

import pytest
import yaml

import test_compose as clients
from image import contained
from siltstone import ROOT, START_SECONDS_MAX, STOP_SECONDS_MAX

FILES = [*clients.FILES, *sorted((Path(__file__).parent / "compose").glob("*.yaml"))]
VOLUMES = ("/data", "/export", "/minio_data", "/bitnami/minio/data")
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def words(value):
    """The words of a command or an entry point. `$$` is how these files write a dollar sign."""
    found = shlex.split(value) if isinstance(value, str) else value
    return [word.replace("$$", "$") for word in found]


class Container(clients.Stack):
    """A stack in the unpacked image. What it names is not translated."""

    def __init__(self, file, home, image):
        super().__init__(file, home)
        self.image, self.port, self.console_port = image, clients.PORT, 9001
        self.volume = home / "volume"
        self.volume.mkdir()

    def on_this_machine(self, word):
        return word

    def environment(self):
        own = dict(entry.split("=", 1) for entry in self.image.config["Env"])
        return {"HOME": "/", **own, **super().environment()}

    def argv(self):
        """The words that an engine executes: an entry point of the file drops the command of the image."""
        entry_point = self.service.get("entrypoint")
        command = self.service.get("command")
        if entry_point is None:
            given = self.image.config["Entrypoint"]
            return [*given, *(self.image.config["Cmd"] if command is None else words(command))]
        return [*words(entry_point), *words(command or [])]

    def start(self):
        secrets = {f"/run/secrets/{name}": self.secret(name) for name in self.document.get("secrets", {})}
        binds = {**{volume: self.volume for volume in VOLUMES}, **secrets}
        if (self.image.root / "bin/busybox").exists():
            # As engines make it. The program itself has to know localhost without.
            hosts = self.home / "hosts"
            hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")
            binds["/etc/hosts"] = hosts
        self.log = self.home / "stderr"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                contained(self.image, self.volume, *self.argv(), uid=0, binds=binds, network=True),
                env={**self.environment(), "PATH": f"{self.environment()['PATH']}:{os.environ['PATH']}"},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
            )
        self.wait_until_healthy()
        return self

    def health_check(self):
        test = self.service.get("healthcheck", {}).get("test") or self.image.config["Healthcheck"]["Test"]
        if isinstance(test, str):
            test = ["CMD-SHELL", test]
        kind, *check = test
        return ["/bin/sh", "-c", *check] if kind == "CMD-SHELL" else check

    def wait_until_healthy(self):
        enter = ["nsenter", f"--target={self.process.pid}", "--mount", "--net", "--root"]
        last = time.monotonic() + START_SECONDS_MAX
        said = None
        while time.monotonic() < last and self.process.poll() is None:
            environment = {**self.environment(), "PATH": f"{self.environment()['PATH']}:{os.environ['PATH']}"}
            said = subprocess.run([*enter, *self.health_check()], env=environment, capture_output=True, text=True)
            if said.returncode == 0 and self.listens():
                return
            assert said.returncode != 2, said.stderr
            time.sleep(0.05)
        raise AssertionError(f"it does not become healthy: {said} {self.log.read_text()}")

    def listens(self):
        """Whether the process has become the server: a check without --fail succeeds with any answer."""
        return Path(f"/proc/{self.process.pid}/root/bin/siltstone").exists()

    def in_its_network(self, function):
        """Runs the function with the network of the container."""
        failures = []

        def work():
            try:
                with open(f"/proc/{self.process.pid}/ns/net") as network:
                    assert libc.setns(network.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
                function()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        for failure in failures:
            raise failure

    def try_project(self):
        for name in self.project.get("made", []):
            self.client().head_bucket(Bucket=name)
        self.initialise()
        if self.has_console():
            page = clients.http.request("GET", f"{self.url}/-/console/")
            assert page.status == 404
        for name in self.project["calls"]:
            clients.CALLS[name](self)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_compose_file_works_word_for_word(file, tmp_path, image, debug_image):
    kind = yaml.safe_load(clients.interpolated(file.read_text())).get("x-image")
    works(Container(file, tmp_path, debug_image if kind == "debug" else image))


def test_the_compose_file_of_the_guide_works(tmp_path, image):
    page = (ROOT / "src/guide/minio.md").read_text()
    text = re.search(r"^```yaml\n(.*?)^```", page, re.M | re.S).group(1)
    tags = [tag.split("/")[-1] for tag in image.tags]
    tag = next(tag for tag in tags if f"image: {tag} " in text)
    file = tmp_path / "compose.yaml"
    project = "x-project: {user: admin, password: change-me-please, buckets: [photos], calls: [ranges, metadata]}\n"
    file.write_text(text.replace(tag, "minio/minio") + project)
    works(Container(file, tmp_path, image))


def works(container):
    try:
        container.start()
        container.in_its_network(container.try_project)
        container.process.terminate()
        assert container.process.wait(STOP_SECONDS_MAX) == 0, container.log.read_text()
    finally:
        container.process.kill()


def test_there_are_ten_files_more():
    assert len(FILES) >= 22
