"""Versions, copies, tags and attributes through an unmodified boto3."""

import itertools

import pytest

from test_objects import refusal


@pytest.fixture
def versioned(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    return bucket


def test_a_bucket_has_no_versioning_until_it_is_set(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Suspended"


def test_every_version_can_be_read_and_removed(s3, versioned):
    ids = [s3.put_object(Bucket=versioned, Key="k", Body=text)["VersionId"] for text in (b"1", b"22", b"333")]
    assert len(set(ids)) == 3
    name = {"Bucket": versioned, "Key": "k"}
    for id_, text in zip(ids, (b"1", b"22", b"333")):
        got = s3.get_object(**name, VersionId=id_)
        assert (got["Body"].read(), got["VersionId"]) == (text, id_)
    assert s3.get_object(**name)["VersionId"] == ids[2]
    assert s3.delete_object(**name, VersionId=ids[2])["VersionId"] == ids[2]
    assert s3.get_object(**name)["Body"].read() == b"22"
    assert refusal(s3.get_object, **name, VersionId=ids[2]) == ("NoSuchVersion", 404)
    assert refusal(s3.get_object, **name, VersionId="no version") == ("InvalidArgument", 400)


def test_a_delete_marker_hides_and_its_removal_shows_again(s3, versioned):
    name = {"Bucket": versioned, "Key": "k"}
    s3.put_object(**name, Body=b"x")
    marker = s3.delete_object(**name)
    assert marker["DeleteMarker"] is True
    assert refusal(s3.get_object, **name) == ("NoSuchKey", 404)
    assert refusal(s3.get_object, **name, VersionId=marker["VersionId"]) == ("MethodNotAllowed", 405)
    assert s3.list_objects_v2(Bucket=versioned)["KeyCount"] == 0
    assert refusal(s3.delete_bucket, Bucket=versioned) == ("BucketNotEmpty", 409)
    s3.delete_object(**name, VersionId=marker["VersionId"])
    assert s3.get_object(**name)["Body"].read() == b"x"


def test_a_suspended_bucket_keeps_one_null_version(s3, versioned):
    name = {"Bucket": versioned, "Key": "k"}
    kept = s3.put_object(**name, Body=b"kept")["VersionId"]
    s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Suspended"})
    for text in (b"1", b"2"):
        s3.put_object(**name, Body=text)
    versions = s3.list_object_versions(Bucket=versioned)["Versions"]
    assert [(v["VersionId"], v["IsLatest"]) for v in versions] == [("null", True), (kept, False)]
    assert s3.get_object(**name, VersionId="null")["Body"].read() == b"2"


def test_all_versions_are_listed_whatever_the_size_of_a_page(s3, versioned):
    written = []
    for key, times in (("a", 3), ("b/1", 2), ("b/2", 1), ("c", 2)):
        of_key = [s3.put_object(Bucket=versioned, Key=key, Body=b"x")["VersionId"] for _ in range(times)]
        of_key += [s3.delete_object(Bucket=versioned, Key=key)["VersionId"]] if key == "c" else []
        written += [(key, id_) for id_ in reversed(of_key)]
    for size in (1, 2, 1000):
        pages = s3.get_paginator("list_object_versions").paginate(
            Bucket=versioned, PaginationConfig={"PageSize": size}
        )
        listed = [
            sorted(page.get("Versions", []) + page.get("DeleteMarkers", []), key=lambda v: written.index(name_of(v)))
            for page in pages
        ]
        assert [name_of(v) for v in itertools.chain(*listed)] == written
    latest = [v["Key"] for v in itertools.chain(*listed) if v["IsLatest"]]
    assert latest == ["a", "b/1", "b/2", "c"]
    grouped = s3.list_object_versions(Bucket=versioned, Delimiter="/")
    assert [p["Prefix"] for p in grouped["CommonPrefixes"]] == ["b/"]


def name_of(version):
    return version["Key"], version["VersionId"]


def test_the_resource_interface_empties_a_versioned_bucket(server, s3, versioned):
    for _ in range(3):
        s3.put_object(Bucket=versioned, Key="k", Body=b"x")
    s3.delete_object(Bucket=versioned, Key="k")
    server.resource().Bucket(versioned).object_versions.delete()
    s3.delete_bucket(Bucket=versioned)


def test_a_copy_keeps_or_replaces_what_is_known_of_its_source(s3, bucket):
    source = {"Bucket": bucket, "Key": "a source/with+odd"}
    put = s3.put_object(**source, Body=b"copied", ContentType="text/plain", Metadata={"a": "1"})
    copied = s3.copy_object(Bucket=bucket, Key="kept", CopySource=source)
    assert copied["CopyObjectResult"]["ETag"] == put["ETag"]
    s3.copy_object(
        Bucket=bucket, Key="replaced", CopySource=source, MetadataDirective="REPLACE", Metadata={"b": "2"}
    )
    kept, replaced = (s3.get_object(Bucket=bucket, Key=key) for key in ("kept", "replaced"))
    assert (kept["Metadata"], kept["ContentType"]) == ({"a": "1"}, "text/plain")
    assert (replaced["Metadata"], replaced["ContentType"]) == ({"b": "2"}, "binary/octet-stream")
    s3.delete_object(**source)
    assert kept["Body"].read() == replaced["Body"].read() == b"copied"
    assert refusal(s3.copy_object, Bucket=bucket, Key="k", CopySource=source) == ("NoSuchKey", 404)


def test_the_managed_copy_works(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="source", Body=b"x" * 100_000)
    server.resource().Object(bucket, "target").copy({"Bucket": bucket, "Key": "source"})
    assert s3.get_object(Bucket=bucket, Key="target")["Body"].read() == b"x" * 100_000


def test_tags_are_set_read_and_taken_away(s3, bucket):
    tags = [{"Key": "color", "Value": "grün"}, {"Key": "empty", "Value": ""}]
    name = {"Bucket": bucket, "Key": "k"}
    s3.put_object(**name, Body=b"x", Tagging="a=1&b=two%20words")
    assert s3.get_object_tagging(**name)["TagSet"] == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "two words"}]
    s3.put_object_tagging(**name, Tagging={"TagSet": tags})
    assert s3.get_object_tagging(**name)["TagSet"] == tags
    assert s3.get_object(**name)["TagCount"] == 2
    s3.delete_object_tagging(**name)
    assert s3.get_object_tagging(**name)["TagSet"] == []


def test_attributes_are_told_as_asked(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"123456789")
    asked = ["ETag", "Checksum", "ObjectSize", "StorageClass"]
    told = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=asked)
    assert (told["ETag"], told["ObjectSize"]) == (put["ETag"].strip('"'), 9)
    assert told["Checksum"]["ChecksumCRC32"] == "y/Q5Jg=="
