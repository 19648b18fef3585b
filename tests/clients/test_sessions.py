"""Keys for a while: the calls of STS by boto3 and the aws command line, and what their keys are good for."""

import json
import signal
import time
import urllib.error
import urllib.request

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from siltstone import ACCESS_KEY, SECRET_KEY

USERS = """
[[user]]
name = "catalogue"
access_key = "catalogue"
secret_key = "the-catalogue-secret"

[[user.allow]]
actions = ["TagSession"]
resources = ["*"]

[[role]]
name = "lake"
assumed_by = ["catalogue", "admin"]
max_duration = "12h"

[[role.allow]]
actions = ["GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload", "ListBucket"]
resources = ["lake/warehouse/*"]
"""
ROLE = "arn:aws:iam::000000000000:role/lake"


def table_policy(table):
    """What catalogues of lakehouses send: no Resource in one statement, actions of other services."""
    return json.dumps({
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": ["s3:GetObject", "s3:GetObjectVersion", "s3:PutObject", "s3:DeleteObject"],
             "Resource": f"arn:aws:s3:::lake/warehouse/{table}/*"},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::lake",
             "Condition": {"StringLike": {"s3:prefix": [f"warehouse/{table}/*"]}}},
            {"Effect": "Allow", "Action": "s3:GetBucketLocation"},
            {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": "*"},
        ],
    })


@pytest.fixture
def served(own_server, tmp_path):
    (tmp_path / "data-0").mkdir()
    (tmp_path / "data-0" / "users.toml").write_text(USERS)
    (tmp_path / "data-0" / "users.toml").chmod(0o600)
    server = own_server().start()
    server.client().create_bucket(Bucket="lake")
    return server


def sts(server, **settings):
    return boto3.session.Session().client("sts", **server.settings(**settings))


def catalogue(server):
    return sts(server, access_key="catalogue", secret_key="the-catalogue-secret")


def s3_of(server, credentials, **more):
    return boto3.session.Session().client(
        "s3",
        endpoint_url=server.url,
        region_name="eu",
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
        config=Config(signature_version="s3v4"),
        **more,
    )


def refusal(call, *arguments, **named):
    with pytest.raises(ClientError) as error:
        call(*arguments, **named)
    return error.value.response["Error"]["Code"]


def test_a_catalogue_hands_out_keys_for_a_table(served):
    answer = catalogue(served).assume_role(
        RoleArn=ROLE, RoleSessionName="polaris-1", DurationSeconds=900, Policy=table_policy("orders"),
        Tags=[{"Key": "tenant", "Value": "a"}],
    )
    assert answer["AssumedRoleUser"]["Arn"] == "arn:aws:sts::000000000000:assumed-role/lake/polaris-1"
    assert 0 < answer["PackedPolicySize"] <= 100
    s3 = s3_of(served, answer["Credentials"])
    s3.put_object(Bucket="lake", Key="warehouse/orders/data.parquet", Body=b"rows")
    assert s3.get_object(Bucket="lake", Key="warehouse/orders/data.parquet")["Body"].read() == b"rows"
    listed = s3.list_objects_v2(Bucket="lake", Prefix="warehouse/orders/")
    assert [it["Key"] for it in listed["Contents"]] == ["warehouse/orders/data.parquet"]
    for key in ["warehouse/customers/data.parquet", "warehouse/orders-2/x", "elsewhere"]:
        assert refusal(s3.put_object, Bucket="lake", Key=key, Body=b"x") == "AccessDenied"
        assert refusal(s3.get_object, Bucket="lake", Key=key) == "AccessDenied"
    assert refusal(s3.list_objects_v2, Bucket="lake", Prefix="warehouse/") == "AccessDenied"
    assert refusal(s3.list_buckets) == "AccessDenied"
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "lake", "Key": "warehouse/orders/data.parquet"})
    assert "X-Amz-Security-Token" in url
    assert urllib.request.urlopen(url).read() == b"rows"
    other = s3.generate_presigned_url("get_object", Params={"Bucket": "lake", "Key": "warehouse/customers/x"})
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(other)
    assert error.value.code == 403
    post = s3.generate_presigned_post("lake", "warehouse/orders/form")
    assert post["fields"]["x-amz-security-token"] == answer["Credentials"]["SessionToken"]


def test_sessions_of_users_and_of_those_whom_they_let_in(served):
    served.client().put_object(Bucket="lake", Key="a", Body=b"a")
    admin = sts(served)
    me = admin.get_caller_identity()
    assert (me["Arn"], me["Account"]) == ("arn:aws:iam::000000000000:user/admin", "000000000000")
    own = admin.get_session_token()["Credentials"]
    assert s3_of(served, own).get_object(Bucket="lake", Key="a")["Body"].read() == b"a"
    read = json.dumps({"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/*"}]})
    guest = admin.get_federation_token(Name="guest", Policy=read, DurationSeconds=3600)
    assert guest["FederatedUser"]["Arn"] == "arn:aws:sts::000000000000:federated-user/guest"
    s3 = s3_of(served, guest["Credentials"])
    assert s3.get_object(Bucket="lake", Key="a")["Body"].read() == b"a"
    assert refusal(s3.put_object, Bucket="lake", Key="a", Body=b"b") == "AccessDenied"
    powerless = s3_of(served, admin.get_federation_token(Name="nobody")["Credentials"])
    assert refusal(powerless.get_object, Bucket="lake", Key="a") == "AccessDenied"
    of_session = sts(served, access_key=own["AccessKeyId"], secret_key=own["SecretAccessKey"])
    assert refusal(of_session.get_caller_identity) == "InvalidClientTokenId"


def test_refusals_have_the_names_that_clients_know(served):
    vend = catalogue(served)
    named = {"RoleArn": ROLE, "RoleSessionName": "job"}
    assert refusal(vend.assume_role, **named, Policy="{}") == "MalformedPolicyDocument"
    assert refusal(vend.assume_role, **{**named, "RoleArn": ROLE + "-2"}) == "AccessDenied"
    assert refusal(vend.assume_role, **named, DurationSeconds=43_201) == "ValidationError"
    assert refusal(sts(served, secret_key="wrong").get_caller_identity) == "SignatureDoesNotMatch"
    assert refusal(sts(served, access_key="nobody").get_caller_identity) == "InvalidClientTokenId"


def test_sessions_outlive_a_restart_and_end_by_revocation(served):
    credentials = catalogue(served).assume_role(RoleArn=ROLE, RoleSessionName="job")["Credentials"]
    s3 = s3_of(served, credentials)
    s3.put_object(Bucket="lake", Key="warehouse/a", Body=b"a")
    served.stop()
    served.start()
    assert s3.get_object(Bucket="lake", Key="warehouse/a")["Body"].read() == b"a"
    command = [str(served.binary), "user", "revoke-sessions", "lake", "--data-dir", str(served.data_dir),
               "--endpoint", served.url]
    from siltstone import clean_environment
    import subprocess
    environment = clean_environment(
        served.data_dir.parent, SILTSTONE_ACCESS_KEY=ACCESS_KEY, SILTSTONE_SECRET_KEY=SECRET_KEY
    )
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert refusal(s3.get_object, Bucket="lake", Key="warehouse/a") == "InvalidToken"
    fresh = catalogue(served).assume_role(RoleArn=ROLE, RoleSessionName="job")["Credentials"]
    assert s3_of(served, fresh).get_object(Bucket="lake", Key="warehouse/a")["Body"].read() == b"a"


def test_the_aws_command_line_assumes_a_role(served, tmp_path):
    said = served.aws("sts", "get-caller-identity", "--output", "json", home=tmp_path)
    assert json.loads(said.stdout)["Arn"] == "arn:aws:iam::000000000000:user/admin"
    said = served.aws(
        "sts", "assume-role", "--role-arn", ROLE, "--role-session-name", "cli", "--output", "json", home=tmp_path
    )
    credentials = json.loads(said.stdout)["Credentials"]
    s3_of(served, credentials).put_object(Bucket="lake", Key="warehouse/cli", Body=b"x")
