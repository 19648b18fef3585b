"""Starting, killing and asking a server; what every test of the suite shares."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import boto3
from botocore.config import Config

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("SILTSTONE_BIN", ROOT / "target/release/siltstone"))
VENV_BIN = Path(sys.executable).parent

ACCESS_KEY = "suite"
SECRET_KEY = "suite/secret+key=="
REGION = "eu"

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30

# An ordinary run leaves out repetitions, as .ci/run --all does not.
IS_LONG = "SILTSTONE_LONG_TESTS" in os.environ


def clean_environment(home, **more):
    """The environment of this process without anything that would steer a client or a server."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SILTSTONE_", "MINIO_", "RUSTFS_", "BOTO"))}
    path = f"{VENV_BIN}{os.pathsep}{kept.get('PATH', '')}"
    kept.update(PATH=path, HOME=str(home))
    kept.update(AWS_CONFIG_FILE=f"{home}/aws-config", AWS_SHARED_CREDENTIALS_FILE=f"{home}/no-such-file")
    kept.update(AWS_EC2_METADATA_DISABLED="true", **more)
    return kept


def free_port():
    """A port that no server has, outside the range from which the kernel takes ports for connections and for servers that name none: after
    a server has ended, a connection could have its port when it starts again."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as limits:
        first_taken = int(limits.read().split()[0])
    while True:
        port = random.randrange(10_000, max(first_taken, 20_000))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Server:
    """A server process on a data directory of its own. `url` is valid once it has started."""

    def __init__(self, data_dir, *arguments, wrapper=(), scheme="http", binary=BINARY):
        self.data_dir = Path(data_dir)
        self.arguments = list(arguments)
        self.wrapper = list(wrapper)
        self.binary = binary
        self.scheme = scheme
        self.log = self.data_dir.with_name(self.data_dir.name + ".stderr")
        self.port = free_port()
        self.process = None

    def start(self):
        """Starts the server and waits until it accepts connections; a restart takes the same port again."""
        command = [*self.wrapper, str(self.binary), "--data-dir", str(self.data_dir)]
        command += ["--listen", f"127.0.0.1:{self.port}", *self.arguments]
        environment = clean_environment(
            self.data_dir.parent, SILTSTONE_ACCESS_KEY=ACCESS_KEY, SILTSTONE_SECRET_KEY=SECRET_KEY
        )
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        line = self.process.stdout.readline()
        found = re.fullmatch(rf"listening on {self.scheme}://127\.0\.0\.1:(\d+)\n", line)
        assert found, f"instead of its address the server said {line!r}; its log: {self.log.read_text()}"
        self.port = int(found.group(1))
        return self

    def stop(self):
        """Ends the server as an operator does, and holds it to its exit status."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(STOP_SECONDS_MAX) == 0, self.log.read_text()
        self.process.stdout.close()

    def kill(self):
        """Ends the server as a power cut does, as far as a process can tell."""
        self.process.kill()
        self.process.wait(STOP_SECONDS_MAX)
        self.process.stdout.close()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def settings(self, access_key=ACCESS_KEY, secret_key=SECRET_KEY, region=REGION):
        """What a client needs to know, and nothing else: all else is the client's default."""
        return {
            "endpoint_url": self.url,
            "region_name": region,
            "aws_access_key_id": access_key,
            "aws_secret_access_key": secret_key,
        }

    def client(self, config=None, verify=None, **settings):
        return boto3.session.Session().client("s3", config=config, verify=verify, **self.settings(**settings))

    def resource(self, **settings):
        return boto3.session.Session().resource("s3", **self.settings(**settings))

    def anonymous(self):
        from botocore import UNSIGNED

        config = Config(signature_version=UNSIGNED)
        return boto3.session.Session().client("s3", endpoint_url=self.url, region_name=REGION, config=config)

    def aws(self, *arguments, home, check=True, **popen):
        """Runs the aws command line; gives the finished process with its output as text."""
        done = subprocess.run(
            [str(VENV_BIN / "aws"), *map(str, arguments)],
            env=self.aws_environment(home), stdin=subprocess.DEVNULL, capture_output=True, text=True, **popen,
        )
        assert not check or done.returncode == 0, f"aws {arguments}: {done.stdout}{done.stderr}"
        return done

    def aws_environment(self, home):
        return clean_environment(
            home,
            AWS_ACCESS_KEY_ID=ACCESS_KEY,
            AWS_SECRET_ACCESS_KEY=SECRET_KEY,
            AWS_DEFAULT_REGION=REGION,
            AWS_ENDPOINT_URL=self.url,
        )
