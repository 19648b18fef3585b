"""Service accounts: made by the command, used by boto3, and narrower than their user."""

import json
import subprocess
import time

import boto3
import pytest
from botocore.exceptions import ClientError

from siltstone import ACCESS_KEY, SECRET_KEY, clean_environment

USERS = """
[[user]]
name = "ann"
access_key = "ann"
secret_key = "the-secret-of-ann"

[[user.allow]]
actions = ["GetObject", "PutObject", "ListBucket"]
resources = ["team", "team/*"]
"""
NARROW = {"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::team/ci/*"}]}


@pytest.fixture
def served(own_server, tmp_path):
    (tmp_path / "data-0").mkdir()
    (tmp_path / "data-0" / "users.toml").write_text(USERS)
    (tmp_path / "data-0" / "users.toml").chmod(0o600)
    server = own_server().start()
    server.client().create_bucket(Bucket="team")
    return server


def run(served, *arguments, access_key=ACCESS_KEY, secret_key=SECRET_KEY):
    """`siltstone service-account ...` at the server; what it says."""
    command = [str(served.binary), "service-account", *arguments, "--data-dir", str(served.data_dir),
               "--endpoint", served.url]
    environment = clean_environment(
        served.data_dir.parent, SILTSTONE_ACCESS_KEY=access_key, SILTSTONE_SECRET_KEY=secret_key
    )
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def client(served, shown):
    """A client with the keys that a command has shown."""
    keys = dict(line.removeprefix("export ").split("=", 1) for line in shown.splitlines())
    return boto3.session.Session().client(
        "s3", endpoint_url=served.url, region_name="eu", aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
    )


def refusal(call, **arguments):
    with pytest.raises(ClientError) as refused:
        call(**arguments)
    return refused.value.response["Error"]["Code"]


def test_a_user_makes_an_account_that_may_less(served, tmp_path):
    (tmp_path / "narrow.json").write_text(json.dumps(NARROW))
    own = {"access_key": "ann", "secret_key": "the-secret-of-ann"}
    made = run(served, "add", "ann", "ann-ci", "--policy", str(tmp_path / "narrow.json"), "--expires", "1day", **own)
    assert made.returncode == 0, made.stderr
    s3 = client(served, made.stdout)
    s3.put_object(Bucket="team", Key="ci/a", Body=b"a")
    assert s3.get_object(Bucket="team", Key="ci/a")["Body"].read() == b"a"
    assert refusal(s3.put_object, Bucket="team", Key="b", Body=b"b") == "AccessDenied"
    assert refusal(s3.list_objects_v2, Bucket="team") == "AccessDenied"
    listed = run(served, "list", "ann", **own)
    assert listed.stdout.startswith("ann-ci\t") and "the-secret" not in listed.stdout
    assert run(served, "add", "admin", "other", **own).returncode == 1
    assert run(served, "remove", "ann", "ann-ci").returncode == 0
    assert refusal(s3.get_object, Bucket="team", Key="ci/a") == "InvalidAccessKeyId"


def test_an_account_ends_at_its_time(served):
    made = run(served, "add", "ann", "short", "--expires", "3s")
    assert made.returncode == 0, made.stderr
    s3 = client(served, made.stdout)
    end = time.monotonic() + 60
    code = None
    while code is None:
        assert time.monotonic() < end, "it does not end"
        try:
            s3.list_objects_v2(Bucket="team")
            time.sleep(0.2)
        except ClientError as error:
            code = error.response["Error"]["Code"]
    assert code == "InvalidAccessKeyId"
