"""Listings of more keys than a page holds, both versions of the operation, against a model in Python."""

from concurrent.futures import ThreadPoolExecutor

import pytest

COUNT = 3000


def keys_of_the_shelf():
    """Three thousand keys in a tree whose folders differ in size, one of them larger than a page."""
    for n in range(COUNT):
        folder = "big" if n % 2 else f"f{n % 7}/g{n % 11}"
        yield f"{folder}/{n:05}"


@pytest.fixture(scope="module")
def shelf(server):
    client = server.client()
    client.create_bucket(Bucket="shelf")
    keys = sorted([*keys_of_the_shelf(), "top", "f0", "f0.", "big-", "big0"])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket="shelf", Key=key, Body=b"x"), keys))
    return keys


def model(keys, prefix="", delimiter=""):
    """What a listing holds, in order: keys, and common prefixes once each."""
    found = []
    for key in keys:
        if key.startswith(prefix):
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key if cut < 0 else key[: cut + len(delimiter)]
            if not found or found[-1] != name:
                found.append(name)
    return found


def walk(client, operation, **arguments):
    """All names of all pages, in the order of the model, and the number of pages."""
    names, pages = [], 0
    for page in client.get_paginator(operation).paginate(Bucket="shelf", **arguments):
        of_page = [c["Key"] for c in page.get("Contents", [])]
        of_page += [p["Prefix"] for p in page.get("CommonPrefixes", [])]
        names += sorted(of_page)
        pages += 1
        if operation == "list_objects_v2":
            assert page["KeyCount"] == len(of_page) <= page["MaxKeys"]
    return names, pages


@pytest.mark.parametrize("operation", ["list_objects_v2", "list_objects"])
@pytest.mark.parametrize("prefix", ["", "big", "big/", "f0", "f0/", "f0/g1", "nothing"])
@pytest.mark.parametrize("delimiter", ["", "/", "/g", "0"])
def test_all_pages_together_are_the_model(s3, shelf, operation, prefix, delimiter):
    names, _ = walk(s3, operation, Prefix=prefix, Delimiter=delimiter)
    assert names == model(shelf, prefix, delimiter)


@pytest.mark.parametrize("operation", ["list_objects_v2", "list_objects"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_size_of_a_page_changes_nothing(s3, shelf, operation, size):
    names, pages = walk(s3, operation, Delimiter="/", Prefix="f1/", PaginationConfig={"PageSize": size})
    assert names == model(shelf, "f1/", "/")
    assert pages == -(-len(names) // size)


def test_a_page_holds_a_thousand_keys_at_most(s3, shelf):
    page = s3.list_objects_v2(Bucket="shelf", MaxKeys=5000)
    assert (page["KeyCount"], page["MaxKeys"], page["IsTruncated"]) == (1000, 1000, True)
    _, pages = walk(s3, "list_objects_v2")
    assert pages == -(-len(shelf) // 1000)


def test_a_listing_starts_after_any_key(s3, shelf):
    for after in ("", "big/00501", "big/005015", "zzz"):
        names, _ = walk(s3, "list_objects_v2", StartAfter=after)
        assert names == [key for key in shelf if key > after]


def test_no_keys_were_asked_for(s3, shelf):
    page = s3.list_objects_v2(Bucket="shelf", MaxKeys=0)
    assert (page["KeyCount"], page["IsTruncated"]) == (0, False)


def test_what_a_listing_says_of_an_object(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"12345")
    (item,) = s3.list_objects_v2(Bucket=bucket, FetchOwner=True)["Contents"]
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (item["Key"], item["Size"], item["ETag"]) == ("k", 5, put["ETag"])
    assert item["LastModified"].replace(microsecond=0) == head["LastModified"]
    assert item["Owner"]["ID"]
    assert "Owner" not in s3.list_objects_v2(Bucket=bucket)["Contents"][0]
