"""IAM's calls by boto3 and the aws command line: users, keys, groups, policies, roles and providers as programs manage those of AWS."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from siltstone import ACCESS_KEY, SECRET_KEY

USERS = """# Made by hand.
[[user]]
name = "ann"
access_key = "ann"
secret_key = "the-secret-of-ann"

[[user.allow]]
actions = ["GetObject"]
resources = ["team/*"]
"""
ACCOUNT = "000000000000"


def allowing(actions, *resources):
    statement = {"Effect": "Allow", "Action": actions, "Resource": list(resources)}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


WRITES = allowing(["s3:PutObject", "s3:GetObject"], "arn:aws:s3:::team/*")
TRUSTS_ANN = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:user/ann"}, "Action": "sts:AssumeRole"}],
})


@pytest.fixture
def served(own_server, tmp_path):
    (tmp_path / "data-0").mkdir()
    (tmp_path / "data-0" / "users.toml").write_text(USERS)
    (tmp_path / "data-0" / "users.toml").chmod(0o600)
    server = own_server("--audit-log", str(tmp_path / "audit.log")).start()
    server.client().create_bucket(Bucket="team")
    return server


def iam(server, access_key=ACCESS_KEY, secret_key=SECRET_KEY, token=None, service="iam"):
    return boto3.session.Session().client(
        service, endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=access_key, aws_secret_access_key=secret_key,
        aws_session_token=token, config=Config(retries={"total_max_attempts": 1}),
    )


def users_file(server):
    return (server.data_dir / "users.toml").read_text()


def refusal(call, **named):
    with pytest.raises(ClientError) as error:
        call(**named)
    answer = error.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def s3_of(server, key):
    return server.client(access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"])


def test_a_user_gets_keys_and_a_policy_and_goes(served, tmp_path):
    root = iam(served)
    made = root.create_user(UserName="deploy", Path="/")["User"]
    assert made["Arn"] == f"arn:aws:iam::{ACCOUNT}:user/deploy" and made["UserId"].startswith("AIDA")
    assert root.get_user(UserName="deploy")["User"] == made
    assert refusal(root.create_user, UserName="Deploy") == (409, "EntityAlreadyExists")
    key = root.create_access_key(UserName="deploy")["AccessKey"]
    assert key["Status"] == "Active"
    s3 = s3_of(served, key)
    assert refusal(s3.put_object, Bucket="team", Key="a", Body=b"a")[1] == "AccessDenied"
    root.put_user_policy(UserName="deploy", PolicyName="writes", PolicyDocument=WRITES)
    s3.put_object(Bucket="team", Key="a", Body=b"a")
    shown = root.get_user_policy(UserName="deploy", PolicyName="writes")
    assert shown["PolicyDocument"] == json.loads(WRITES)
    assert root.list_user_policies(UserName="deploy")["PolicyNames"] == ["writes"]
    own = iam(served, key["AccessKeyId"], key["SecretAccessKey"])
    assert own.get_user()["User"] == made
    assert iam(served, key["AccessKeyId"], key["SecretAccessKey"], service="sts").get_caller_identity()["UserId"] == made["UserId"]
    for call in (own.list_users, own.list_groups, own.list_policies, own.list_roles, own.get_account_summary):
        assert refusal(call) == (403, "AccessDenied")
    for name in ("ann", "nobody"):
        with pytest.raises(ClientError) as error:
            own.delete_user(UserName=name)
        told = error.value.response["Error"]
        assert told["Code"] == "AccessDenied" and name not in told["Message"]
    for _ in range(2):
        assert refusal(root.delete_user, UserName="deploy") == (409, "DeleteConflict")
        if key:
            root.delete_access_key(UserName="deploy", AccessKeyId=key["AccessKeyId"])
            key = None
    root.delete_user_policy(UserName="deploy", PolicyName="writes")
    root.delete_user(UserName="deploy")
    assert refusal(root.get_user, UserName="deploy") == (404, "NoSuchEntity")
    assert users_file(served).strip() == USERS.strip()
    lines = (tmp_path / "audit.log").read_text()
    told = [json.loads(line) for line in lines.splitlines()]
    of_deploy = [line["action"] for line in told if line.get("subject") == "deploy"]
    assert of_deploy == ["CreateUser", "RotateKeys", "ChangeUser", "DeleteUser", "RotateKeys", "DeleteUser", "ChangeUser", "DeleteUser"]
    assert any(line["action"] == "DeleteUser" and line["user"] == "deploy" and line.get("error") for line in told)


def test_the_secret_of_a_key_is_shown_once(served, tmp_path):
    root = iam(served)
    root.create_user(UserName="deploy")
    key = root.create_access_key(UserName="deploy")["AccessKey"]
    assert key["SecretAccessKey"] in users_file(served)
    for path in (tmp_path / "audit.log", served.log):
        assert key["SecretAccessKey"] not in path.read_text()


def test_keys_are_two_and_may_rest(served):
    root = iam(served)
    root.create_user(UserName="deploy")
    root.put_user_policy(UserName="deploy", PolicyName="writes", PolicyDocument=WRITES)
    keys = [root.create_access_key(UserName="deploy")["AccessKey"] for _ in range(2)]
    assert refusal(root.create_access_key, UserName="deploy") == (409, "LimitExceeded")

    def states():
        listed = root.list_access_keys(UserName="deploy")["AccessKeyMetadata"]
        assert all("CreateDate" in key for key in listed), listed
        return {it["AccessKeyId"]: it["Status"] for it in listed}

    for resting, other in (keys, reversed(keys)):
        root.update_access_key(UserName="deploy", AccessKeyId=resting["AccessKeyId"], Status="Inactive")
        assert states() == {resting["AccessKeyId"]: "Inactive", other["AccessKeyId"]: "Active"}
        assert refusal(s3_of(served, resting).get_object, Bucket="team", Key="a")[1] == "InvalidAccessKeyId"
        s3_of(served, other).put_object(Bucket="team", Key="a", Body=b"a")
        root.update_access_key(UserName="deploy", AccessKeyId=resting["AccessKeyId"], Status="Active")
    # The one that was made first is the previous one, the other takes its place.
    session = iam(served, keys[1]["AccessKeyId"], keys[1]["SecretAccessKey"], service="sts").get_session_token()["Credentials"]
    temporary = iam(served, session["AccessKeyId"], session["SecretAccessKey"], session["SessionToken"], service="sts")
    temporary.get_caller_identity()
    root.delete_access_key(UserName="deploy", AccessKeyId=keys[1]["AccessKeyId"])
    assert refusal(temporary.get_caller_identity)[0] == 403
    assert states() == {keys[0]["AccessKeyId"]: "Active"}
    s3_of(served, keys[0]).put_object(Bucket="team", Key="a", Body=b"a")
    assert refusal(root.delete_access_key, UserName="deploy", AccessKeyId=keys[1]["AccessKeyId"]) == (404, "NoSuchEntity")
    root.delete_access_key(UserName="deploy", AccessKeyId=keys[0]["AccessKeyId"])
    assert states() == {}


def test_groups_policies_and_their_members(served):
    root = iam(served)
    group = root.create_group(GroupName="writers")["Group"]
    assert group["GroupId"].startswith("AGPA") and group["Arn"] == f"arn:aws:iam::{ACCOUNT}:group/writers"
    policy = root.create_policy(PolicyName="team-writes", PolicyDocument=WRITES)["Policy"]
    assert policy["Arn"] == f"arn:aws:iam::{ACCOUNT}:policy/team-writes"
    assert refusal(root.create_policy, PolicyName="team-Writes", PolicyDocument=WRITES) == (409, "EntityAlreadyExists")
    assert refusal(root.create_policy, PolicyName="readonly", PolicyDocument=WRITES) == (409, "EntityAlreadyExists")
    root.attach_group_policy(GroupName="writers", PolicyArn=policy["Arn"])
    root.add_user_to_group(GroupName="writers", UserName="ann")
    ann = served.client(access_key="ann", secret_key="the-secret-of-ann")
    ann.put_object(Bucket="team", Key="a", Body=b"a")
    assert [it["UserName"] for it in root.get_group(GroupName="writers")["Users"]] == ["ann"]
    assert [it["GroupName"] for it in root.list_groups_for_user(UserName="ann")["Groups"]] == ["writers"]
    attached = root.list_attached_group_policies(GroupName="writers")["AttachedPolicies"]
    assert attached == [{"PolicyName": "team-writes", "PolicyArn": policy["Arn"]}]
    assert root.get_policy(PolicyArn=policy["Arn"])["Policy"]["AttachmentCount"] == 1
    assert [it["GroupName"] for it in root.list_entities_for_policy(PolicyArn=policy["Arn"])["PolicyGroups"]] == ["writers"]
    # One version, which the next one replaces.
    assert refusal(root.create_policy_version, PolicyArn=policy["Arn"], PolicyDocument=WRITES) == (409, "LimitExceeded")
    reads = allowing("s3:GetObject", "arn:aws:s3:::team/*")
    version = root.create_policy_version(PolicyArn=policy["Arn"], PolicyDocument=reads, SetAsDefault=True)["PolicyVersion"]
    assert version["VersionId"] == "v1" and version["IsDefaultVersion"]
    assert refusal(ann.put_object, Bucket="team", Key="a", Body=b"a")[1] == "AccessDenied"
    assert root.get_policy_version(PolicyArn=policy["Arn"], VersionId="v1")["PolicyVersion"]["Document"] == json.loads(reads)
    assert [it["VersionId"] for it in root.list_policy_versions(PolicyArn=policy["Arn"])["Versions"]] == ["v1"]
    assert refusal(root.delete_policy, PolicyArn=policy["Arn"]) == (409, "DeleteConflict")
    assert refusal(root.delete_group, GroupName="writers") == (409, "DeleteConflict")
    root.remove_user_from_group(GroupName="writers", UserName="ann")
    assert refusal(root.remove_user_from_group, GroupName="writers", UserName="ann") == (404, "NoSuchEntity")
    assert refusal(root.delete_group, GroupName="writers") == (409, "DeleteConflict")
    root.detach_group_policy(GroupName="writers", PolicyArn=policy["Arn"])
    assert refusal(root.detach_group_policy, GroupName="writers", PolicyArn=policy["Arn"]) == (404, "NoSuchEntity")
    root.put_group_policy(GroupName="writers", PolicyName="own", PolicyDocument=WRITES)
    assert refusal(root.delete_group, GroupName="writers") == (409, "DeleteConflict")
    root.delete_group_policy(GroupName="writers", PolicyName="own")
    root.delete_group(GroupName="writers")
    root.delete_policy(PolicyArn=policy["Arn"])
    assert users_file(served).strip() == USERS.strip()


def test_ready_made_policies_are_those_of_aws(served):
    root = iam(served)
    of_aws = {it["PolicyName"]: it["Arn"] for it in root.list_policies(Scope="AWS")["Policies"]}
    assert of_aws["readonly"] == "arn:aws:iam::aws:policy/readonly" and len(of_aws) == 5
    assert root.list_policies(Scope="Local")["Policies"] == []
    root.attach_user_policy(UserName="ann", PolicyArn=of_aws["readwrite"])
    served.client(access_key="ann", secret_key="the-secret-of-ann").put_object(Bucket="team", Key="a", Body=b"a")
    assert [it["PolicyName"] for it in root.list_policies(OnlyAttached=True)["Policies"]] == ["readwrite"]
    assert refusal(root.delete_policy, PolicyArn=of_aws["readonly"])[0] in (400, 404)
    for arn in ("arn:aws:iam::aws:policy/AdministratorAccess", f"arn:aws:iam::{ACCOUNT}:policy/readonly", f"arn:aws:iam::{ACCOUNT}:policy/a/b"):
        assert refusal(root.attach_user_policy, UserName="ann", PolicyArn=arn) == (404, "NoSuchEntity")
    assert refusal(root.attach_user_policy, UserName="ann", PolicyArn="arn:aws:s3:::a-bucket-of-this") == (400, "InvalidInput")


def test_roles_are_made_and_assumed(served):
    root = iam(served)
    role = root.create_role(RoleName="lake", AssumeRolePolicyDocument=TRUSTS_ANN, MaxSessionDuration=7200)["Role"]
    assert role["AssumeRolePolicyDocument"] == json.loads(TRUSTS_ANN) and role["MaxSessionDuration"] == 7200
    root.put_role_policy(RoleName="lake", PolicyName="writes", PolicyDocument=WRITES)
    assert root.get_role(RoleName="lake")["Role"] == role
    assert [it["RoleName"] for it in root.list_roles()["Roles"]] == ["lake"]
    sts = iam(served, "ann", "the-secret-of-ann", service="sts")
    session = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="job-1", DurationSeconds=7200)["Credentials"]
    s3 = boto3.session.Session().client(
        "s3", endpoint_url=served.url, region_name="eu", aws_access_key_id=session["AccessKeyId"],
        aws_secret_access_key=session["SecretAccessKey"], aws_session_token=session["SessionToken"],
    )
    s3.put_object(Bucket="team", Key="a", Body=b"a")
    # Rights of the session are not those of the administration.
    of_session = iam(served, session["AccessKeyId"], session["SecretAccessKey"], session["SessionToken"])
    assert refusal(of_session.list_users) == (403, "AccessDenied")
    assert refusal(of_session.get_user) == (400, "ValidationError")
    root.update_role(RoleName="lake", MaxSessionDuration=3600)
    assert refusal(sts.assume_role, RoleArn=role["Arn"], RoleSessionName="job-1", DurationSeconds=7200)[1] == "ValidationError"
    service = json.loads(TRUSTS_ANN)
    service["Statement"][0]["Principal"] = {"Service": "ec2.amazonaws.com"}
    unknown = TRUSTS_ANN.replace("user/ann", "user/nobody")
    for document in (json.dumps(service), unknown, "{}"):
        assert refusal(root.update_assume_role_policy, RoleName="lake", PolicyDocument=document) == (400, "MalformedPolicyDocument")
    other = json.loads(TRUSTS_ANN)
    other["Statement"][0]["Condition"] = {"StringEquals": {"sts:ExternalId": "tenant 7"}}
    root.update_assume_role_policy(RoleName="lake", PolicyDocument=json.dumps(other))
    assert root.get_role(RoleName="lake")["Role"]["AssumeRolePolicyDocument"] == other
    assert refusal(sts.assume_role, RoleArn=role["Arn"], RoleSessionName="job-1")[1] == "AccessDenied"
    assert root.list_instance_profiles_for_role(RoleName="lake")["InstanceProfiles"] == []
    assert refusal(root.delete_role, RoleName="lake") == (409, "DeleteConflict")
    root.delete_role_policy(RoleName="lake", PolicyName="writes")
    root.delete_role(RoleName="lake")
    assert refusal(s3.put_object, Bucket="team", Key="a", Body=b"a")[1] == "InvalidToken"
    # A role of the same name is another one.
    again = root.create_role(RoleName="lake", AssumeRolePolicyDocument=TRUSTS_ANN)["Role"]
    assert again["RoleId"] != role["RoleId"] and again["MaxSessionDuration"] == 3600
    root.attach_role_policy(RoleName="lake", PolicyArn="arn:aws:iam::aws:policy/readwrite")
    assert refusal(s3.put_object, Bucket="team", Key="a", Body=b"a")[1] == "InvalidToken"
    assert [it["PolicyName"] for it in root.list_attached_role_policies(RoleName="lake")["AttachedPolicies"]] == ["readwrite"]


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Provider:
    """A provider of identities on this host, which counts the requests for its keys."""

    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.asked = 0
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                provider.asked += 1
                document = json.dumps(provider.documents()[self.path]).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(document)))
                self.end_headers()
                self.wfile.write(document)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.name = f"localhost:{self.http.server_port}/realms/a"
        self.url = f"http://{self.name}"

    def documents(self):
        point = self.key.public_key().public_numbers()
        x, y = (encoded(number.to_bytes(32, "big")) for number in (point.x, point.y))
        key = {"kty": "EC", "crv": "P-256", "kid": "1", "use": "sig", "x": x, "y": y}
        return {
            "/realms/a/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/realms/a/keys": {"keys": [key]},
        }

    def token(self, **claims):
        now = int(time.time())
        claims = {"iss": self.url, "sub": "job-7", "aud": "sts", "iat": now, "exp": now + 600, **claims}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "ES256", "kid": "1"}, claims))
        r, s = utils.decode_dss_signature(self.key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


@pytest.fixture
def provider():
    provider = Provider()
    yield provider
    provider.http.shutdown()


def trusting(arn, provider, subject="job-*"):
    condition = {"StringLike": {f"{provider.name}:sub": subject}}
    statement = {"Effect": "Allow", "Principal": {"Federated": arn}, "Action": "sts:AssumeRoleWithWebIdentity", "Condition": condition}
    return {"Version": "2012-10-17", "Statement": [statement]}


def test_providers_are_made_changed_and_deleted(served, tmp_path):
    root = iam(served)
    thumbprint = "0f" * 20
    arn = root.create_open_id_connect_provider(
        Url="https://id.example:8443/realms/a", ClientIDList=["sts", "other", "sts"], ThumbprintList=[thumbprint]
    )["OpenIDConnectProviderArn"]
    assert arn == f"arn:aws:iam::{ACCOUNT}:oidc-provider/id.example:8443/realms/a"
    assert root.list_open_id_connect_providers()["OpenIDConnectProviderList"] == [{"Arn": arn}]

    def shown():
        provider = root.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
        return provider["Url"], provider["ClientIDList"], provider["ThumbprintList"]

    assert shown() == ("id.example:8443/realms/a", ["sts", "other"], [thumbprint])
    root.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=arn, ClientID="third")
    root.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=arn, ClientID="third")
    for client in ("other", "unknown"):
        root.remove_client_id_from_open_id_connect_provider(OpenIDConnectProviderArn=arn, ClientID=client)
    root.update_open_id_connect_provider_thumbprint(OpenIDConnectProviderArn=arn, ThumbprintList=["ab" * 20, "cd" * 20])
    assert shown() == ("id.example:8443/realms/a", ["sts", "third"], ["ab" * 20, "cd" * 20])
    served.stop()
    served.start()
    assert shown()[1] == ["sts", "third"], "durable"
    assert root.get_account_summary()["SummaryMap"]["Providers"] == 1
    taken = refusal(root.create_open_id_connect_provider, Url="https://id.example:8443/realms/a", ClientIDList=["x"])
    assert taken == (409, "EntityAlreadyExists")
    for wrong in (
        {"Url": "http://id.example"}, {"Url": "https://id.example/?a=b"}, {"Url": "https://" + "a" * 250},
        {"Url": "https://b.example", "ThumbprintList": ["0f"  * 20 + "-"]},
        {"Url": "https://b.example", "ClientIDList": [f"client-{number}" for number in range(101)]},
    ):
        assert refusal(root.create_open_id_connect_provider, **wrong)[0] == 400, wrong
    unknown = f"arn:aws:iam::{ACCOUNT}:oidc-provider/unknown.example"
    for call in (root.get_open_id_connect_provider, root.delete_open_id_connect_provider):
        assert refusal(call, OpenIDConnectProviderArn=unknown) == (404, "NoSuchEntity")
        assert refusal(call, OpenIDConnectProviderArn="arn:aws:iam::aws:policy/readonly") == (400, "InvalidInput")
    # Who lacks the permission does not learn which there are.
    ann = iam(served, "ann", "the-secret-of-ann")
    for known in (arn, unknown):
        for call in (ann.get_open_id_connect_provider, ann.delete_open_id_connect_provider):
            assert refusal(call, OpenIDConnectProviderArn=known) == (403, "AccessDenied")
    for number in range(15):
        root.create_open_id_connect_provider(Url=f"https://id{number}.example")
    assert refusal(root.create_open_id_connect_provider, Url="https://more.example") == (409, "LimitExceeded")
    for listed in root.list_open_id_connect_providers()["OpenIDConnectProviderList"]:
        root.delete_open_id_connect_provider(OpenIDConnectProviderArn=listed["Arn"])
    assert users_file(served).strip() == USERS.strip()
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    of_provider = [line for line in lines if line.get("subject") == "https://id.example:8443/realms/a" and not line.get("error")]
    assert [line["action"] for line in of_provider] == ["CreateIssuer", "ChangeIssuer", "ChangeIssuer", "ChangeIssuer", "DeleteIssuer"]


def test_tokens_of_a_provider_assume_the_roles_that_trust_them(served, provider):
    root = iam(served)
    sts = boto3.session.Session().client(
        "sts", endpoint_url=served.url, region_name="us-east-1", config=Config(signature_version=UNSIGNED, retries={"total_max_attempts": 1})
    )
    arn = root.create_open_id_connect_provider(Url=provider.url)["OpenIDConnectProviderArn"]
    document = trusting(arn, provider)
    role = root.create_role(RoleName="ci", AssumeRolePolicyDocument=json.dumps(document))["Role"]
    assert role["AssumeRolePolicyDocument"] == document == root.get_role(RoleName="ci")["Role"]["AssumeRolePolicyDocument"]
    root.put_role_policy(RoleName="ci", PolicyName="writes", PolicyDocument=WRITES)

    def assume(token, role=role["Arn"]):
        return sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="job", WebIdentityToken=token)["Credentials"]

    def s3_of_session(session):
        return boto3.session.Session().client(
            "s3", endpoint_url=served.url, region_name="eu", aws_access_key_id=session["AccessKeyId"],
            aws_secret_access_key=session["SecretAccessKey"], aws_session_token=session["SessionToken"],
        )

    # Without clients it vouches for nobody, and is not even asked.
    assert refusal(assume, token=provider.token()) == (400, "InvalidIdentityToken") and provider.asked == 0
    root.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=arn, ClientID="sts")
    s3 = s3_of_session(assume(provider.token()))
    s3.put_object(Bucket="team", Key="a", Body=b"a")
    assert refusal(s3.delete_object, Bucket="team", Key="a")[1] == "AccessDenied"
    for claims, code in (({"aud": "other"}, "InvalidIdentityToken"), ({"sub": "x"}, "AccessDenied"), ({"exp": 1}, "ExpiredTokenException")):
        assert refusal(assume, token=provider.token(**claims))[1] == code, claims
    head, _, signature = provider.token().rpartition(".")
    forged = head + "." + signature[:-4] + ("AAAA" if signature[-4:] != "AAAA" else "BBBB")
    assert refusal(assume, token=forged) == (400, "InvalidIdentityToken")
    # A document without a condition on the subject, or about an unknown provider, changes nothing.
    without = trusting(arn, provider)
    without["Statement"][0]["Condition"] = {"StringEquals": {f"{provider.name}:aud": "sts"}}
    of_none = trusting(arn + "/b", provider)
    for wrong in (without, of_none):
        assert refusal(root.update_assume_role_policy, RoleName="ci", PolicyDocument=json.dumps(wrong)) == (400, "MalformedPolicyDocument")
    root.update_assume_role_policy(RoleName="ci", PolicyDocument=json.dumps(trusting(arn, provider, "other")))
    assert refusal(assume, token=provider.token())[1] == "AccessDenied"
    root.update_assume_role_policy(RoleName="ci", PolicyDocument=json.dumps(document))
    s3.put_object(Bucket="team", Key="a", Body=b"a")
    # The sessions end with the provider; one of the same URL is another one.
    root.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)
    assert refusal(s3.put_object, Bucket="team", Key="a", Body=b"a")[1] == "InvalidToken"
    assert root.get_role(RoleName="ci")["Role"]["AssumeRolePolicyDocument"] == document, "the role stays"
    assert refusal(assume, token=provider.token())[1] == "InvalidIdentityToken"
    root.create_open_id_connect_provider(Url=provider.url, ClientIDList=["sts"])
    assert refusal(s3.put_object, Bucket="team", Key="a", Body=b"a")[1] == "InvalidToken"
    s3_of_session(assume(provider.token())).put_object(Bucket="team", Key="a", Body=b"b")


def test_what_cannot_be_kept_is_refused_by_its_name(served):
    root = iam(served)
    for call, named in (
        (root.create_user, {"UserName": "x", "Path": "/teams/"}),
        (root.create_user, {"UserName": "x", "Tags": [{"Key": "a", "Value": "b"}]}),
        (root.create_user, {"UserName": "x", "PermissionsBoundary": f"arn:aws:iam::{ACCOUNT}:policy/x-x-x"}),
        (root.create_user, {"UserName": "a/b"}),
        (root.create_policy, {"PolicyName": "x", "PolicyDocument": WRITES, "Description": "of x"}),
        (root.create_role, {"RoleName": "x", "AssumeRolePolicyDocument": TRUSTS_ANN, "MaxSessionDuration": 50_000}),
        (root.list_users, {"MaxItems": 1001}),
    ):
        assert refusal(call, **named)[0] == 400, named
    assert refusal(root.update_user, UserName="ann", NewUserName="anna") == (409, "EntityTemporarilyUnmodifiable")
    root.update_user(UserName="ann", NewPath="/")
    for document in ("{}", "no policy", '{"Version": "2012-10-17", "Statement": []}', WRITES.replace("Allow", "Permit")):
        assert refusal(root.put_user_policy, UserName="ann", PolicyName="x", PolicyDocument=document) == (400, "MalformedPolicyDocument")
    assert refusal(root.create_login_profile, UserName="ann", Password="x") == (400, "InvalidAction")
    assert refusal(root.delete_login_profile, UserName="ann") == (404, "NoSuchEntity")
    for call in (root.list_ssh_public_keys, root.list_mfa_devices, root.list_signing_certificates, root.list_service_specific_credentials):
        assert call(UserName="ann")["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert root.list_virtual_mfa_devices()["VirtualMFADevices"] == []
    # The administrator comes from the environment.
    assert refusal(root.create_access_key) == (400, "ValidationError")
    assert refusal(root.put_user_policy, UserName="admin", PolicyName="x", PolicyDocument=WRITES) == (400, "ValidationError")
    assert refusal(root.create_user, UserName="admin") == (409, "EntityAlreadyExists")
    assert users_file(served) == USERS


def test_lists_come_in_pages(served):
    root = iam(served)
    names = {f"u{number}" for number in range(7)}
    for name in names:
        root.create_user(UserName=name)
    for size in (1, 3, 100):
        pages = root.get_paginator("list_users").paginate(PaginationConfig={"PageSize": size})
        listed = [user["UserName"] for page in pages for user in page["Users"]]
        assert listed == sorted(names | {"admin", "ann"})
    assert root.list_users(PathPrefix="/teams/")["Users"] == []


def test_changes_at_the_same_time_are_all_there(served):
    names = [f"u{number}" for number in range(12)]
    threads = [threading.Thread(target=lambda name=name: iam(served).create_user(UserName=name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {user["UserName"] for user in iam(served).list_users()["Users"]} == {*names, "ann", "admin"}


def test_a_file_that_cannot_be_written_is_left_as_it_is(served):
    before = users_file(served)
    # The new file is written beside it.
    path = served.data_dir / "users.toml"
    path.write_text(before + "\n[[broken")
    assert refusal(iam(served).create_user, UserName="x") == (500, "ServiceFailure")
    assert path.read_text() == before + "\n[[broken"
    served.client(access_key="ann", secret_key="the-secret-of-ann")
    path.write_text(before)
    iam(served).create_user(UserName="x")


def test_the_aws_command_line(served, tmp_path):
    def aws(*arguments, check=True):
        done = served.aws("iam", *arguments, home=tmp_path, check=check)
        return json.loads(done.stdout) if done.stdout.strip() else done

    assert aws("create-user", "--user-name", "deploy")["User"]["UserName"] == "deploy"
    (tmp_path / "writes.json").write_text(WRITES)
    made = aws("create-policy", "--policy-name", "writes", "--policy-document", f"file://{tmp_path}/writes.json")
    aws("attach-user-policy", "--user-name", "deploy", "--policy-arn", made["Policy"]["Arn"])
    aws("create-group", "--group-name", "writers")
    aws("add-user-to-group", "--group-name", "writers", "--user-name", "deploy")
    (tmp_path / "trust.json").write_text(TRUSTS_ANN)
    aws("create-role", "--role-name", "lake", "--assume-role-policy-document", f"file://{tmp_path}/trust.json")
    key = aws("create-access-key", "--user-name", "deploy")["AccessKey"]
    s3_of(served, key).put_object(Bucket="team", Key="a", Body=b"a")
    assert {user["UserName"] for user in aws("list-users")["Users"]} == {"admin", "ann", "deploy"}
    assert aws("get-user")["User"]["UserName"] == "admin"
    assert aws("get-account-summary")["SummaryMap"]["Users"] == 3
    refused = aws("delete-user", "--user-name", "deploy", check=False)
    assert "DeleteConflict" in refused.stderr
