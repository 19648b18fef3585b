"""What everyone may do: bucket policies, public access blocks, ownership controls and ACLs, as boto3 sets them."""

import json

import pytest

from siltstone import ACCESS_KEY, SECRET_KEY
from test_access import fetch
from test_objects import refusal

USERS = f"""
[[user]]
name = "admin"
access_key = "{ACCESS_KEY}"
secret_key = "{SECRET_KEY}"

[[user.allow]]
actions = ["*"]
resources = ["*"]

[[user]]
name = "ann"
access_key = "ann"
secret_key = "the-secret-of-ann"

[[user.allow]]
actions = ["CreateBucket"]
resources = ["*"]

[[user.allow]]
actions = ["*"]
resources = ["@owned"]

[[user]]
name = "bob"
access_key = "bob"
secret_key = "the-secret-of-bob"
"""


def policy(bucket, *statements):
    """A policy of statements about objects: (effect, actions, keys, more)."""
    listed = [
        {"Effect": effect, "Principal": "*", "Action": actions, "Resource": f"arn:aws:s3:::{bucket}/{keys}", **more}
        for effect, actions, keys, more in statements
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": listed})


@pytest.fixture
def guarded(own_server, tmp_path):
    users = tmp_path / "users.toml"
    users.write_text(USERS)
    users.chmod(0o600)
    return own_server("--users", str(users)).start()


def by(server, user):
    return server.client(access_key=user, secret_key=f"the-secret-of-{user}")


def test_everyone_reads_a_public_prefix_and_nothing_else(server, s3, bucket):
    for key in ("pub/a", "private"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    text = policy(bucket, ("Allow", "s3:GetObject", "pub/*", {}))
    s3.put_bucket_policy(Bucket=bucket, Policy=text)
    assert s3.get_bucket_policy(Bucket=bucket)["Policy"] == text
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"] == {"IsPublic": True}
    at = f"{server.url}/{bucket}"
    assert fetch(f"{at}/pub/a") == (200, b"x")
    assert [fetch(f"{at}/{key}")[0] for key in ("private", "pub/absent", "", "?list-type=2")] == [403] * 4
    assert fetch(f"{at}/pub/a", b"y", "PUT")[0] == 403
    s3.delete_bucket_policy(Bucket=bucket)
    assert fetch(f"{at}/pub/a")[0] == 403
    assert refusal(s3.get_bucket_policy, Bucket=bucket) == ("NoSuchBucketPolicy", 404)


def test_a_policy_that_is_not_understood_is_refused(s3, bucket):
    text = policy(bucket, ("Allow", "s3:GetObject", "*", {"Condition": {"ArnLike": {"aws:SourceArn": "x"}}}))
    assert refusal(s3.put_bucket_policy, Bucket=bucket, Policy=text) == ("MalformedPolicy", 400)


def test_an_address_is_denied_also_to_a_presigned_url(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})
    outside = {"Condition": {"NotIpAddress": {"aws:SourceIp": "192.0.2.0/24"}}}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, ("Deny", "s3:GetObject", "*", outside)))
    assert refusal(s3.get_object, Bucket=bucket, Key="k") == ("AccessDenied", 403)
    assert fetch(url)[0] == 403
    inside = {"Condition": {"NotIpAddress": {"aws:SourceIp": ["127.0.0.0/8", "192.0.2.0/24"]}}}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, ("Deny", "s3:GetObject", "*", inside)))
    assert fetch(url) == (200, b"x")


def test_a_denied_user_signs_in_vain(guarded):
    ann, bob = by(guarded, "ann"), by(guarded, "bob")
    ann.create_bucket(Bucket="photos")
    ann.put_object(Bucket="photos", Key="k", Body=b"x")
    assert refusal(bob.get_object, Bucket="photos", Key="k") == ("AccessDenied", 403)
    assert refusal(bob.get_bucket_policy, Bucket="photos") == ("AccessDenied", 403)
    ann.put_bucket_policy(Bucket="photos", Policy=policy("photos", ("Allow", ["s3:GetObject", "s3:PutObject"], "*", {})))
    url = bob.generate_presigned_url("get_object", {"Bucket": "photos", "Key": "k"})
    assert fetch(url) == (200, b"x")
    deny = {"Principal": {"AWS": "arn:aws:iam::123456789012:user/bob"}}
    everyone = ("Allow", ["s3:GetObject", "s3:PutObject"], "*", {})
    ann.put_bucket_policy(Bucket="photos", Policy=policy("photos", everyone, ("Deny", "s3:GetObject", "*", deny)))
    assert fetch(url)[0] == 403
    bob.put_object(Bucket="photos", Key="from-bob", Body=b"y")
    assert refusal(bob.create_bucket, Bucket="bobs") == ("AccessDenied", 403)


def test_a_block_refuses_and_restricts(server, s3, bucket):
    assert refusal(s3.get_public_access_block, Bucket=bucket) == ("NoSuchPublicAccessBlockConfiguration", 404)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    public = policy(bucket, ("Allow", "s3:GetObject", "*", {}))
    s3.put_bucket_policy(Bucket=bucket, Policy=public)
    assert fetch(f"{server.url}/{bucket}/k")[0] == 200
    settings = dict.fromkeys(["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"], True)
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=settings)
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"] == settings
    assert fetch(f"{server.url}/{bucket}/k")[0] == 403
    assert refusal(s3.put_bucket_policy, Bucket=bucket, Policy=public) == ("AccessDenied", 403)
    s3.delete_public_access_block(Bucket=bucket)
    assert fetch(f"{server.url}/{bucket}/k")[0] == 200


def ownership_of(s3, bucket):
    return s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]


def test_acls_are_off_until_the_ownership_has_them(server, s3, bucket):
    assert ownership_of(s3, bucket) == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    assert refusal(s3.put_object, ACL="public-read", **put) == ("AccessControlListNotSupported", 400)
    s3.put_object(ACL="bucket-owner-full-control", **put)
    owner = s3.get_bucket_acl(Bucket=bucket)["Owner"]
    full = {"Grantee": {"Type": "CanonicalUser", "ID": owner["ID"], "DisplayName": owner["DisplayName"]},
            "Permission": "FULL_CONTROL"}
    assert s3.get_object_acl(Bucket=bucket, Key="k")["Grants"] == [full]
    for ownership in ("ObjectWriter", "BucketOwnerPreferred"):
        rules = [{"ObjectOwnership": ownership}]
        s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": rules})
        assert ownership_of(s3, bucket) == rules
        s3.put_object(ACL="public-read", **put)
        assert fetch(f"{server.url}/{bucket}/k") == (200, b"x")
        group = {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}
        listed = s3.get_object_acl(Bucket=bucket, Key="k")
        assert listed["Grants"] == [{"Grantee": group, "Permission": "READ"}, full]
        s3.put_object_acl(Bucket=bucket, Key="k", ACL="private")
        assert fetch(f"{server.url}/{bucket}/k")[0] == 403
        given = {"Owner": listed["Owner"], "Grants": listed["Grants"]}
        s3.put_object_acl(Bucket=bucket, Key="k", AccessControlPolicy=given)
        assert fetch(f"{server.url}/{bucket}/k")[0] == 200
        s3.put_object_acl(Bucket=bucket, Key="k", GrantRead=f'id="{owner["ID"]}"')
        assert fetch(f"{server.url}/{bucket}/k")[0] == 403
        assert refusal(s3.put_object_acl, Bucket=bucket, Key="k", GrantRead='id="other"') == ("InvalidArgument", 400)
        s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
        assert fetch(f"{server.url}/{bucket}")[0] == 200
        s3.put_bucket_acl(Bucket=bucket, ACL="private")


def test_acls_let_users_in_by_their_names(guarded):
    ann = by(guarded, "ann")
    bob = by(guarded, "bob")
    ann.create_bucket(Bucket="shared", ObjectOwnership="ObjectWriter")
    of_ann = {"Bucket": "shared", "Key": "of-ann"}
    ann.put_object(Body=b"a", GrantRead='id="bob"', **of_ann)
    assert bob.get_object(**of_ann)["Body"].read() == b"a"
    for call in (bob.get_object_acl, bob.delete_object):
        assert refusal(call, **of_ann) == ("AccessDenied", 403)
    assert refusal(bob.put_object, Body=b"b", **of_ann) == ("AccessDenied", 403)
    assert refusal(bob.list_objects_v2, Bucket="shared") == ("AccessDenied", 403)
    shown = [(grant["Grantee"]["ID"], grant["Permission"]) for grant in ann.get_object_acl(**of_ann)["Grants"]]
    assert shown == [("bob", "READ")], "a list of grants says what the owner has, too"
    ann.put_object_acl(GrantReadACP='id="bob"', **of_ann)
    assert bob.get_object_acl(**of_ann)["Owner"]["ID"] == "ann"
    assert refusal(bob.get_object, **of_ann) == ("AccessDenied", 403)
    ann.put_bucket_acl(Bucket="shared", GrantRead='id="bob"', GrantWrite='id="bob"')
    assert [it["Key"] for it in bob.list_objects_v2(Bucket="shared")["Contents"]] == ["of-ann"]
    of_bob = {"Bucket": "shared", "Key": "of-bob"}
    bob.put_object(Body=b"b", **of_bob)
    guarded.stop()
    guarded.start()
    bob = by(guarded, "bob")
    ann = by(guarded, "ann")
    assert bob.get_object_acl(**of_bob)["Owner"]["ID"] == "bob"
    assert bob.get_object(**of_bob)["Body"].read() == b"b"
    assert refusal(bob.delete_object, **of_ann) == ("AccessDenied", 403)
    bob.delete_object(**of_bob)
    by_mail = 'emailAddress="bob@example.com"'
    assert refusal(ann.put_object_acl, GrantRead=by_mail, **of_ann) == ("UnresolvableGrantByEmailAddress", 400)


def test_a_bucket_is_created_with_its_acl(server, s3, bucket):
    name = f"{bucket}-open"
    s3.create_bucket(Bucket=name, ACL="public-read", ObjectOwnership="ObjectWriter")
    assert fetch(f"{server.url}/{name}")[0] == 200
    refused = refusal(s3.create_bucket, Bucket=f"{bucket}-closed", ACL="public-read")
    assert refused == ("InvalidBucketAclWithObjectOwnership", 400)


def test_the_form_of_minio_has_acls_from_the_start(own_server):
    server = own_server("--object-ownership", "ObjectWriter").start()
    s3 = server.client()
    s3.create_bucket(Bucket="open")
    s3.put_object(Bucket="open", Key="k", Body=b"x", ACL="public-read")
    assert fetch(f"{server.url}/open/k") == (200, b"x")


def test_access_outlives_a_restart(own_server):
    server = own_server("--object-ownership", "ObjectWriter").start()
    s3 = server.client()
    s3.create_bucket(Bucket="open")
    s3.put_object(Bucket="open", Key="acl", Body=b"x", ACL="public-read")
    s3.put_object(Bucket="open", Key="policy", Body=b"x")
    s3.put_bucket_policy(Bucket="open", Policy=policy("open", ("Allow", "s3:GetObject", "policy", {})))
    server.kill()
    server.start()
    assert [fetch(f"{server.url}/open/{key}")[0] for key in ("acl", "policy", "other")] == [200, 200, 403]
