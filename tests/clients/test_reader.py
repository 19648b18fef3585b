"""What a stranger reads out of a data directory, with a reader made from data-format.md, is what clients saw."""

import base64
import hashlib
import random
from pathlib import Path

import pytest

import odd_keys
import reader

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures/format"
PART = 5 * 1024 * 1024


def body(seed, length):
    return random.Random(seed).randbytes(length)


def fill(s3):
    """Something of everything that can be done to a store."""
    s3.create_bucket(Bucket="plain")
    s3.create_bucket(Bucket="kept")
    s3.create_bucket(Bucket="gone")
    s3.delete_bucket(Bucket="gone")
    for number, key in enumerate(odd_keys.XML_SAFE):
        s3.put_object(Bucket="plain", Key=key, Body=body(number, number * 37), Metadata={"number": str(number)})
    for size in (0, 65_536, 65_537, 131_072, 1_000_000, 20_000_000):
        s3.put_object(Bucket="plain", Key=f"size-{size}", Body=body(size, size), ContentType="text/plain", CacheControl="no-store")
    s3.put_object(Bucket="plain", Key="size-0", Body=b"overwritten", ChecksumAlgorithm="SHA256", Tagging="colour=gr%C3%BCn&n=1")
    s3.put_object_tagging(Bucket="plain", Key="size-65536", Tagging={"TagSet": [{"Key": "later", "Value": "yes"}]})
    s3.delete_object(Bucket="plain", Key="a")

    s3.put_object(Bucket="kept", Key="before", Body=b"a null version")
    s3.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
    for number in range(5):
        s3.put_object(Bucket="kept", Key="k", Body=body(number, number * 30_000))
    s3.put_object(Bucket="kept", Key="before", Body=b"a version of its own")
    s3.delete_object(Bucket="kept", Key="k")
    versions = s3.list_object_versions(Bucket="kept", Prefix="k")["Versions"]
    s3.delete_object(Bucket="kept", Key="k", VersionId=versions[2]["VersionId"])
    s3.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Suspended"})
    s3.delete_object(Bucket="kept", Key="before")

    s3.copy_object(Bucket="kept", Key="copy", CopySource={"Bucket": "plain", "Key": "size-1000000"})
    upload(s3, "kept", "film", complete=True)
    s3.copy_object(Bucket="plain", Key="film", CopySource={"Bucket": "kept", "Key": "film"})
    upload(s3, "plain", "unfinished", complete=False)
    s3.delete_object(Bucket="plain", Key="size-20000000")


def upload(s3, bucket, key, complete):
    id = s3.create_multipart_upload(Bucket=bucket, Key=key, Metadata={"made": "in parts"})["UploadId"]
    place = {"Bucket": bucket, "Key": key, "UploadId": id}
    tags = [s3.upload_part(**place, PartNumber=2, Body=body(1, PART))["ETag"]]
    source = {"Bucket": "plain", "Key": "size-20000000"}
    copied = s3.upload_part_copy(**place, PartNumber=5, CopySource=source, CopySourceRange=f"bytes=123456-{PART + 200_000}")
    tags.append(copied["CopyPartResult"]["ETag"])
    s3.upload_part(**place, PartNumber=7, Body=b"to be replaced")
    tags.append(s3.upload_part(**place, PartNumber=7, Body=b"the end")["ETag"])
    if complete:
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in zip((2, 5, 7), tags)]
        s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})


def seen_by_clients(s3):
    """Everything that can be asked for, as plain values."""
    seen = {}
    for name in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        versioning = s3.get_bucket_versioning(Bucket=name).get("Status", "unset").lower()
        listed = s3.list_object_versions(Bucket=name)
        rows = [version_of(s3, name, version) for version in listed.get("Versions", [])]
        rows += [
            (marker["Key"], marker["VersionId"], marker["IsLatest"], moment(marker["LastModified"]), "marker")
            for marker in listed.get("DeleteMarkers", [])
        ]
        uploads = [upload_of(s3, name, found) for found in s3.list_multipart_uploads(Bucket=name).get("Uploads", [])]
        seen[name] = (versioning, sorted(rows), uploads)
    return seen


def version_of(s3, bucket, listed):
    place = {"Bucket": bucket, "Key": listed["Key"], "VersionId": listed["VersionId"]}
    got = s3.get_object(**place, ChecksumMode="ENABLED")
    headers = {"content-type": got["ContentType"], "cache-control": got.get("CacheControl")}
    headers |= {f"meta-{name}": value for name, value in got["Metadata"].items()}
    tags = [(tag["Key"], tag["Value"]) for tag in s3.get_object_tagging(**place)["TagSet"]]
    checksums = [(name, got[f"Checksum{name}"]) for name in reader.ALGORITHMS[1:] if f"Checksum{name}" in got]
    digest = hashlib.sha256(got["Body"].read()).hexdigest()
    what = (listed["ETag"].strip('"'), listed["Size"], digest, sorted(filled(headers)), sorted(tags), checksums)
    return listed["Key"], listed["VersionId"], listed["IsLatest"], moment(listed["LastModified"]), what


def upload_of(s3, bucket, listed):
    place = {"Bucket": bucket, "Key": listed["Key"], "UploadId": listed["UploadId"]}
    parts = s3.list_parts(**place)["Parts"]
    rows = [(part["PartNumber"], part["ETag"].strip('"'), part["Size"], moment(part["LastModified"])) for part in parts]
    return listed["Key"], listed["UploadId"], moment(listed["Initiated"]), rows


def read_from_disk(store):
    """The same, read from the files."""
    read = {}
    for bucket in store.buckets.values():
        rows = []
        for key, versions in bucket.keys.items():
            for version in versions:
                what = "marker" if version.delete_marker else describe(store, version)
                rows.append((key.decode(), version.version_id(store.store), version is versions[0], version.modified, what))
        uploads = [
            (key.decode(), reader.client_id(store.store, b"upload", id), found.initiated, [part_row(store, part) for _, part in sorted(found.parts.items())])
            for (key, id), found in sorted(bucket.uploads.items())
        ]
        read[bucket.name] = (bucket.versioning, sorted(rows), uploads)
    return read


def describe(store, version):
    checksums = [
        (algorithm, base64.b64encode(value).decode() + (f"-{parts}" if kind == "COMPOSITE" else ""))
        for algorithm, kind, parts, value in version.checksums
    ]
    digest = hashlib.sha256(store.read(version.extents)).hexdigest()
    return version.etag, version.size, digest, sorted(filled(dict(version.attributes))), sorted(version.tags), checksums


def part_row(store, part):
    assert hashlib.md5(store.read(part.extents)).hexdigest() == part.etag
    return part.number, part.etag, part.size, part.modified


def filled(attributes):
    """Without what is not set; what clients are told when there is no content type is no attribute."""
    return [(name, value) for name, value in attributes.items() if value not in (None, "binary/octet-stream")]


def moment(time):
    return round(time.timestamp() * 1000)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_stranger_reads_what_clients_saw(own_server, end):
    server = own_server().start()
    s3 = server.client()
    fill(s3)
    seen = seen_by_clients(s3)
    assert len(seen["plain"][1]) > 40 and len(seen["kept"][1]) > 8 and len(seen["plain"][2]) == 1
    getattr(server, end)()
    assert read_from_disk(reader.Store(server.data_dir)) == seen


def test_a_stranger_sees_damage(own_server):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="box")
    s3.put_object(Bucket="box", Key="k", Body=body(1, 100_000))
    server.stop()
    store = reader.Store(server.data_dir)
    (version,) = store.bucket("box").keys[b"k"]
    path = reader.path_of(server.data_dir, "segment", version.extents[0].segment)
    for at in (version.extents[0].offset + 9, version.extents[0].offset + 64 + 70_000):
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
        with pytest.raises(reader.Corrupt):
            store.read(version.extents)
        data[at] ^= 1
        path.write_bytes(data)


def test_stores_of_earlier_versions_are_read():
    mixed = reader.Store(FIXTURES / "v1-mixed")
    plain, versioned = mixed.bucket("plain"), mixed.bucket("versioned")
    large, piece = (mixed.read(plain.keys[key][0].extents) for key in (b"large", b"slice"))
    assert (len(large), piece) == (200_000, large[70_000:140_000])
    assert plain.keys[b"tagged"][0].tags == [("colour", "grün")]
    assert [(v.delete_marker, v.size) for v in versioned.keys[b"gone"]] == [(True, 0), (False, 1)]
    assert [mixed.read(version.extents) for version in versioned.keys[b"k"]] == [b"second", b"first"]
    assert (versioned.owner, versioned.versioning, len(plain.uploads)) == ("camera", "enabled", 1)

    records = reader.Store(FIXTURES / "v1-records")
    plain = records.bucket("plain")
    film = plain.keys[b"film"][0]
    assert [part[:2] for part in film.parts] == [(1, 100_000), (2, 90_000)]
    assert records.read(film.extents)[100_000:] == records.read(plain.keys[b"large"][0].extents)[1:90_001]
    (upload,) = plain.uploads.values()
    assert records.read(upload.parts[7].extents) == b"a small part"
