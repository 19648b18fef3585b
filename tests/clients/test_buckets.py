"""Buckets, and the errors of the protocol as botocore reads them."""

import socket

import boto3
import pytest
from botocore.config import Config

from test_objects import refusal


def test_a_bucket_lives_from_create_to_delete(s3):
    made = s3.create_bucket(Bucket="life-of-a-bucket")
    assert made["Location"] == "/life-of-a-bucket"
    assert s3.head_bucket(Bucket="life-of-a-bucket")["BucketRegion"] == "eu"
    assert s3.get_bucket_location(Bucket="life-of-a-bucket")["LocationConstraint"] == "eu"
    assert "life-of-a-bucket" in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    s3.delete_bucket(Bucket="life-of-a-bucket")
    assert refusal(s3.head_bucket, Bucket="life-of-a-bucket") == ("404", 404)


def test_buckets_are_listed_by_name(s3, bucket):
    names = [b["Name"] for b in s3.list_buckets()["Buckets"]]
    assert bucket in names and names == sorted(names)


@pytest.mark.parametrize("region", ["eu", "us-east-1"])
def test_both_regions_of_the_signature_are_served(server, region):
    name = f"signed-for-{region}"
    client = server.client(region=region)
    client.create_bucket(Bucket=name)
    client.put_object(Bucket=name, Key="k", Body=b"x")
    assert client.get_object(Bucket=name, Key="k")["Body"].read() == b"x"


def test_another_region_is_named_as_wrong(server):
    code, status = refusal(server.client(region="ap-south-2").list_buckets)
    assert (code, status) == ("AuthorizationHeaderMalformed", 400)


def test_a_location_constraint_may_name_the_region(s3):
    s3.create_bucket(Bucket="constrained", CreateBucketConfiguration={"LocationConstraint": "eu"})
    wrong = {"LocationConstraint": "mars-north-1"}
    assert refusal(s3.create_bucket, Bucket="marsian", CreateBucketConfiguration=wrong) == (
        "InvalidLocationConstraint", 400,
    )


def test_refusals_of_bucket_operations(s3, bucket):
    assert refusal(s3.create_bucket, Bucket=bucket) == ("BucketAlreadyOwnedByYou", 409)
    assert refusal(s3.create_bucket, Bucket="Upper_Case") == ("InvalidBucketName", 400)
    assert refusal(s3.list_objects_v2, Bucket="no-such-bucket") == ("NoSuchBucket", 404)
    assert refusal(s3.get_object, Bucket="no-such-bucket", Key="k") == ("NoSuchBucket", 404)
    assert refusal(s3.delete_bucket, Bucket="no-such-bucket") == ("NoSuchBucket", 404)
    assert refusal(s3.put_object, Bucket="no-such-bucket", Key="k") == ("NoSuchBucket", 404)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert refusal(s3.delete_bucket, Bucket=bucket) == ("BucketNotEmpty", 409)


def test_configurations_that_were_never_set_say_so(s3, bucket):
    assert refusal(s3.get_bucket_cors, Bucket=bucket) == ("NoSuchCORSConfiguration", 404)
    assert refusal(s3.get_bucket_policy, Bucket=bucket) == ("NoSuchBucketPolicy", 404)
    assert refusal(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == (
        "NoSuchLifecycleConfiguration", 404,
    )
    assert refusal(s3.get_bucket_website, Bucket=bucket) == ("NoSuchWebsiteConfiguration", 404)


def test_configurations_that_were_never_set_have_the_defaults_of_s3(s3, bucket):
    def answer(call, **more):
        told = call(Bucket=bucket, **more)
        return {name: value for name, value in told.items() if name != "ResponseMetadata"}

    assert answer(s3.get_bucket_accelerate_configuration) == {}
    assert answer(s3.get_bucket_logging) == {}
    assert answer(s3.get_bucket_request_payment) == {"Payer": "BucketOwner"}
    for kind in ("analytics", "intelligent_tiering", "inventory", "metrics"):
        assert answer(getattr(s3, f"list_bucket_{kind}_configurations")) == {"IsTruncated": False}
        absent = refusal(getattr(s3, f"get_bucket_{kind}_configuration"), Bucket=bucket, Id="x")
        assert absent == ("NoSuchConfiguration", 404)
    payer = {"Payer": "BucketOwner"}
    answer(s3.put_bucket_request_payment, RequestPaymentConfiguration=payer)
    answer(s3.put_bucket_logging, BucketLoggingStatus={})


def test_operations_that_are_not_served_say_so(s3, bucket):
    requester = {"Payer": "Requester"}
    once = {"Bucket": bucket, "RequestPaymentConfiguration": requester}
    assert refusal(s3.put_bucket_request_payment, **once) == ("NotImplemented", 501)


def test_an_error_names_its_request(s3):
    with pytest.raises(s3.exceptions.NoSuchBucket) as caught:
        s3.list_objects_v2(Bucket="no-such-bucket")
    meta = caught.value.response["ResponseMetadata"]
    assert meta["RequestId"] and meta["RequestId"] == meta["HTTPHeaders"]["x-request-id"]


def test_a_bucket_may_be_named_by_the_host(own_server, monkeypatch):
    """`bucket.DOMAIN:PORT`, once the operator has set the domain; the client's resolver is told where that is."""
    server = own_server("--domain", "s3.test").start()
    plain = server.client()
    plain.create_bucket(Bucket="by-host")
    resolve = socket.getaddrinfo

    def here(host, *arguments, **more):
        return resolve("127.0.0.1" if host.endswith("s3.test") else host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    settings = server.settings() | {"endpoint_url": f"http://s3.test:{server.port}"}
    by_host = Config(s3={"addressing_style": "virtual"})
    virtual = boto3.session.Session().client("s3", config=by_host, **settings)
    seen = []
    virtual.meta.events.register("before-send.s3", lambda request, **_: seen.append(request.url))
    virtual.put_object(Bucket="by-host", Key="a key/with+odd", Body=b"x")
    assert seen == [f"http://by-host.s3.test:{server.port}/a%20key/with%2Bodd"]
    assert plain.get_object(Bucket="by-host", Key="a key/with+odd")["Body"].read() == b"x"
    assert [item["Key"] for item in virtual.list_objects_v2(Bucket="by-host")["Contents"]] == ["a key/with+odd"]


def test_tags_of_a_bucket_come_back_as_they_were_set(s3, bucket):
    assert refusal(s3.get_bucket_tagging, Bucket=bucket) == ("NoSuchTagSet", 404)
    tags = [{"Key": "team", "Value": "größer"}, {"Key": "empty", "Value": ""}]
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    many = [{"Key": str(n), "Value": ""} for n in range(51)]
    assert refusal(s3.put_bucket_tagging, Bucket=bucket, Tagging={"TagSet": many}) == ("BadRequest", 400)
    s3.delete_bucket_tagging(Bucket=bucket)
    assert refusal(s3.get_bucket_tagging, Bucket=bucket) == ("NoSuchTagSet", 404)
