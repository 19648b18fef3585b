"""The server behind nginx and HAProxy, with their files as the guide prints them: TLS ends there, and uploads pass as they come."""

import hashlib
import io
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from pages import blocks, replaced
from siltstone import ACCESS_KEY, REGION, SECRET_KEY, Server, free_port
from test_tls import Authority

LARGE = hashlib.shake_256(b"large").digest(20_000_000)
# What a proxy that decodes and encodes paths again would change, and clients sign.
KEYS = ["plain", "a b", "a+b", "a%2Fb", "a//b", "ä/ö?=&;", "../up", "100%"]
START_SECONDS_MAX = 20


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    return Authority(tmp_path_factory.mktemp("proxy-authority"))


def nginx(folder, authority, server, port):
    """The block of the page in a file that needs no right to write outside the folder."""
    [block] = blocks("applications", "Proxies", "nginx")
    site = replaced(block, {
        "127.0.0.1:9000": server.url.removeprefix("http://"), "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/ssl/chain.pem": authority.certificate, "/etc/ssl/key.pem": authority.key,
    })
    paths = "".join(f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off;\nuser root;\npid {folder}/pid;\nerror_log {folder}/errors;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{site}}}\n"
    )
    return ["nginx", "-c", str(config), "-e", f"{folder}/errors"]


def haproxy(folder, authority, server, port):
    [block] = blocks("applications", "Proxies", "haproxy")
    both = folder / "both.pem"
    both.write_text(authority.certificate.read_text() + authority.key.read_text())
    config = folder / "haproxy.cfg"
    config.write_text(replaced(block, {
        "127.0.0.1:9000": server.url.removeprefix("http://"), "bind :443": f"bind 127.0.0.1:{port}", "/etc/ssl/chain-and-key.pem": both,
    }))
    return ["haproxy", "-f", str(config), "-db"]


@pytest.fixture(scope="module", params=[nginx, haproxy], ids=lambda make: make.__name__)
def proxied(request, authority, tmp_path_factory):
    """The settings of a client that reaches a server through the proxy."""
    if shutil.which(request.param.__name__) is None:
        pytest.skip(f"{request.param.__name__} is not installed (apt-get install {request.param.__name__})")
    folder = tmp_path_factory.mktemp(request.param.__name__)
    server = Server(folder / "data").start()
    port = free_port()
    with open(folder / "said", "wb") as said:
        proxy = subprocess.Popen(request.param(folder, authority, server, port), stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    url = f"https://127.0.0.1:{port}"
    context = ssl.create_default_context(cafile=authority.path)
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            assert urllib.request.urlopen(f"{url}/-/health", context=context).status == 200
            break
        except OSError as error:
            assert proxy.poll() is None and time.monotonic() < deadline, f"{error}: {(folder / 'said').read_text()}"
            time.sleep(0.05)
    yield url, authority, folder
    proxy.terminate()
    proxy.wait()
    server.stop()


@pytest.fixture(scope="module")
def s3(proxied):
    url, authority, _ = proxied
    client = boto3.client(
        "s3", endpoint_url=url, region_name=REGION, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
        verify=str(authority.path), config=Config(retries={"max_attempts": 0}),
    )
    client.create_bucket(Bucket="behind")
    return client


def test_uploads_of_any_size_pass_and_come_back(s3, proxied):
    """More than nginx's usual 1 MiB, in one request and in parts; nothing of it is written to the proxy's disk."""
    s3.put_object(Bucket="behind", Key="one", Body=LARGE)
    s3.upload_fileobj(io.BytesIO(LARGE), "behind", "parts", Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
    for key in ("one", "parts"):
        assert hashlib.sha256(s3.get_object(Bucket="behind", Key=key)["Body"].read()).digest() == hashlib.sha256(LARGE).digest()
    assert s3.get_object(Bucket="behind", Key="one", Range="bytes=5-9")["Body"].read() == LARGE[5:10]
    _, _, folder = proxied
    buffered = [path for name in ("client_body", "proxy") for path in (folder / name).rglob("*") if path.is_file()]
    assert buffered == []


@pytest.mark.parametrize("key", KEYS)
def test_keys_pass_as_they_are(s3, key):
    s3.put_object(Bucket="behind", Key=key, Body=key.encode())
    assert s3.get_object(Bucket="behind", Key=key)["Body"].read() == key.encode()
    assert key in [each["Key"] for each in s3.list_objects_v2(Bucket="behind")["Contents"]]


def test_presigned_urls_are_of_the_proxy_with_its_port(s3, proxied):
    url, authority, _ = proxied
    s3.put_object(Bucket="behind", Key="shared", Body=b"hello")
    link = s3.generate_presigned_url("get_object", Params={"Bucket": "behind", "Key": "shared"})
    assert link.startswith(url)
    context = ssl.create_default_context(cafile=authority.path)
    assert urllib.request.urlopen(link, context=context).read() == b"hello"


def test_the_console_knows_its_address_and_metrics_are_not_shown(proxied):
    url, authority, _ = proxied
    context = ssl.create_default_context(cafile=authority.path)
    for path, status, text in [("/-/console/", 401, "<title>Sign in"), ("/-/metrics", 403, "")]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url + path, context=context)
        assert refused.value.code == status and text in refused.value.read().decode()
