"""The server behind its own certificate, as clients see it that know the authority."""

import io
import shutil
import signal
import subprocess
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import SSLError

from siltstone import Server


class Authority:
    """An authority made for one test, and the files of the server that it vouches for."""

    def __init__(self, directory):
        self.directory = directory
        self.path = directory / "ca.pem"
        self.certificate = directory / "server.pem"
        self.key = directory / "server.key"
        self.openssl("req", "-x509", *self.new_key("ca.key"), "-days", "2", "-subj", "/CN=authority", "-out", self.path)
        self.issue()

    def issue(self, subject="one"):
        """Makes the server's certificate, anew where there is one."""
        request = self.directory / "request.pem"
        names = self.directory / "names"
        names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")
        self.openssl("req", *self.new_key(self.key.name), "-subj", f"/CN={subject}", "-out", request)
        self.openssl(
            "x509", "-req", "-in", request, "-CA", self.path, "-CAkey", self.directory / "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", names, "-out", self.certificate,
        )
        self.key.chmod(0o600)

    def new_key(self, name):
        return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.directory / name

    @staticmethod
    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority, tmp_path_factory):
    files = ["--tls-cert", str(authority.certificate), "--tls-key", str(authority.key)]
    server = Server(tmp_path_factory.mktemp("tls") / "data", *files, scheme="https").start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def s3(server, authority):
    client = server.client(verify=str(authority.path))
    client.create_bucket(Bucket="tls")
    return client


def captured(s3):
    """What the client sends, in the order in which it sends it."""
    sent = []
    s3.meta.events.register("before-send.s3", lambda request, **_: sent.append(dict(request.headers)))
    return sent


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def test_a_stranger_to_the_authority_is_not_connected(server):
    client = server.client(Config(retries={"total_max_attempts": 1}))
    with pytest.raises(SSLError):
        client.list_buckets()


def test_bodies_with_unsigned_trailers_and_no_length_are_taken(server, authority):
    """What the SDKs send over TLS by default: the checksum behind the body, no signature of it, and for what cannot be
    measured no length either."""
    s3 = server.client(verify=str(authority.path))
    s3.create_bucket(Bucket="trailers")
    sent = captured(s3)

    class Unmeasured(io.RawIOBase):
        """A body of which nobody can tell the length."""

        def __init__(self, data):
            self.data = io.BytesIO(data)

        def readable(self):
            return True

        def read(self, count=-1):
            return self.data.read(count)

    for key, data in [("small", b"hello"), ("empty", b""), ("large", bytes(range(256)) * 20_000)]:
        s3.put_object(Bucket="trailers", Key=key, Body=data)
        assert s3.get_object(Bucket="trailers", Key=key)["Body"].read() == data
        s3.put_object(Bucket="trailers", Key=f"{key}-streamed", Body=io.BytesIO(data))
        got = s3.get_object(Bucket="trailers", Key=f"{key}-streamed", ChecksumMode="ENABLED")
        assert got["Body"].read() == data and got["ChecksumCRC32"]
        s3.upload_fileobj(Unmeasured(data), "trailers", f"{key}-unmeasured")
        assert s3.get_object(Bucket="trailers", Key=f"{key}-unmeasured")["Body"].read() == data
    puts = [headers for headers in sent if "X-Amz-Trailer" in headers]
    assert puts, sent
    assert {text(headers["X-Amz-Content-SHA256"]) for headers in puts} == {"STREAMING-UNSIGNED-PAYLOAD-TRAILER"}
    assert any(text(headers.get("Transfer-Encoding")) == "chunked" for headers in puts)


def test_large_objects_in_parts_and_ranges(s3):
    data = bytes(range(256)) * 4096 * 20
    s3.upload_fileobj(io.BytesIO(data), "tls", "parts")
    got = io.BytesIO()
    s3.download_fileobj("tls", "parts", got)
    assert got.getvalue() == data
    got = s3.get_object(Bucket="tls", Key="parts", Range="bytes=1000000-8999999")["Body"].read()
    assert got == data[1000000:9000000]


def test_curl_reads_and_writes_by_presigned_addresses(server, s3, authority, tmp_path):
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    v4 = server.client(Config(signature_version="s3v4"), verify=str(authority.path))
    put = v4.generate_presigned_url("put_object", Params={"Bucket": "tls", "Key": "curl"})
    get = v4.generate_presigned_url("get_object", Params={"Bucket": "tls", "Key": "curl"})
    given = tmp_path / "given"
    given.write_bytes(b"curl" * 100_000)

    def curl(*arguments):
        return subprocess.run(["curl", "-sS", "--fail", *map(str, arguments)], capture_output=True)

    for version in ["--tls-max", "1.2"], ["--tlsv1.3"]:
        done = curl("--cacert", authority.path, *version, "-T", given, put)
        assert done.returncode == 0, done.stderr
        done = curl("--cacert", authority.path, *version, get)
        assert (done.returncode, done.stdout) == (0, given.read_bytes()), done.stderr
    assert curl(get).returncode == 60, "the authority is not known"
    assert curl("--cacert", authority.path, "--tls-max", "1.1", get).returncode != 0
    assert curl(get.replace("https://", "http://")).returncode != 0


def test_the_aws_command_line_copies_there_and_back(server, s3, authority, tmp_path):
    given = tmp_path / "given"
    given.write_bytes(b"0123456789" * 2_000_000)
    server.aws("--ca-bundle", authority.path, "s3", "cp", given, "s3://tls/aws", home=tmp_path)
    server.aws("--ca-bundle", authority.path, "s3", "cp", "s3://tls/aws", tmp_path / "got", home=tmp_path)
    assert (tmp_path / "got").read_bytes() == given.read_bytes()


def shown_by(server):
    """The subject of the certificate that the server shows."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}"]
    said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    return next(line.split("=")[-1].strip() for line in said.splitlines() if line.startswith("subject"))


def wait_until(holds):
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about")


def test_a_renewed_certificate_is_shown_after_sighup_and_a_broken_one_is_not(own_server, tmp_path):
    authority = Authority(tmp_path)
    files = ["--tls-cert", str(authority.certificate), "--tls-key", str(authority.key)]
    server = own_server(*files, scheme="https").start()
    s3 = server.client(verify=str(authority.path))
    s3.create_bucket(Bucket="kept")
    assert shown_by(server) == "one"

    whole = authority.certificate.read_bytes()
    authority.certificate.write_bytes(whole[:100])
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the certificate is unchanged" in server.log.read_text())
    assert shown_by(server) == "one"

    authority.issue("two")
    authority.key.chmod(0o644)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: shown_by(server) == "two")
    assert "a private key should have mode 600" in server.log.read_text()
    s3.head_bucket(Bucket="kept")
    server.stop()
