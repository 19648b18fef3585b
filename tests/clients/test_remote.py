"""The probe of a remote: Siltstone is fit for all modes, and moto for those that need no decided races."""

import json
import subprocess

import boto3
from moto.server import ThreadedMotoServer

from siltstone import ACCESS_KEY, BINARY, SECRET_KEY, clean_environment

TOOLS = BINARY.with_name("siltstone-tools")


def probe(url, home, *more):
    """Probes the bucket `cold`."""
    client = boto3.client(
        "s3", endpoint_url=url, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name="us-east-1"
    )
    client.create_bucket(Bucket="cold")
    config = home / "remote.toml"
    config.write_text(f"[remote]\nendpoint = '{url}'\nbucket = 'cold'\nprefix = 'box'\n")
    done = subprocess.run(
        [str(TOOLS), "--json", "remote", "--config", str(config), "probe", *more],
        env=clean_environment(
            home, SILTSTONE_REMOTE_ACCESS_KEY=ACCESS_KEY, SILTSTONE_REMOTE_SECRET_KEY=SECRET_KEY
        ),
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert (done.returncode == 0) == report["fit"]["takeover"]
    assert client.list_objects_v2(Bucket="cold")["KeyCount"] == 0, "objects of the probe are left"
    return report


def test_siltstone_is_fit_for_all_modes(own_server, tmp_path):
    report = probe(own_server().start().url, tmp_path)
    assert report["fit"] == {"tier": True, "ship": True, "takeover": True}, report


def test_moto_keeps_objects(tmp_path):
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    moto.start()
    try:
        # Whether a race falls into its window is chance. The tests of the probe have a server whose window is as long as they like.
        report = probe("http://{}:{}".format(*moto.get_host_and_port()), tmp_path, "--rounds", "1")
    finally:
        moto.stop()
    assert report["fit"]["tier"] and report["fit"]["ship"], report
