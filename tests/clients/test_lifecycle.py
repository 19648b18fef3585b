"""Lifecycle rules as boto3 sets them, and the headers that tell of them."""

import datetime

from test_objects import refusal

RULES = [
    {
        "ID": "logs",
        "Filter": {"Prefix": "logs/"},
        "Status": "Enabled",
        "Expiration": {"Days": 30},
    },
    {
        "ID": "small and tagged",
        "Filter": {
            "And": {
                "Prefix": "tmp/",
                "Tags": [{"Key": "kind", "Value": "scratch"}, {"Key": "team", "Value": "a b"}],
                "ObjectSizeGreaterThan": 10,
                "ObjectSizeLessThan": 1000,
            }
        },
        "Status": "Disabled",
        "Expiration": {"Date": datetime.datetime(2040, 1, 1, tzinfo=datetime.timezone.utc)},
    },
    {
        "ID": "versions",
        "Filter": {"Prefix": ""},
        "Status": "Enabled",
        "Expiration": {"ExpiredObjectDeleteMarker": True},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7, "NewerNoncurrentVersions": 3},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2},
    },
    {"ID": "old form", "Prefix": "old/", "Status": "Enabled", "Expiration": {"Days": 1}},
]


def set_rules(s3, bucket, rules):
    return s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})


def midnight_after(days):
    """The midnight that is due for what is made now, as headers have it."""
    now = datetime.datetime.now(datetime.timezone.utc)
    day = (now + datetime.timedelta(days=days + 1)).replace(hour=0, minute=0, second=0)
    return day.strftime("%a, %d %b %Y %H:%M:%S GMT")


def test_rules_come_back_as_they_were_set(s3, bucket):
    set_rules(s3, bucket, RULES)
    read = s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    assert read["Rules"] == RULES
    assert read["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"
    moving = {**RULES[0], "Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]}
    wrong = {"Rules": [moving]}
    assert refusal(s3.put_bucket_lifecycle_configuration, Bucket=bucket, LifecycleConfiguration=wrong) == (
        "InvalidStorageClass", 400,
    )
    moving = [
        {
            "ID": "cold",
            "Filter": {"Prefix": "logs/"},
            "Status": "Enabled",
            "Expiration": {"Days": 90},
            "Transitions": [{"Days": 30, "StorageClass": "COLD"}],
            "NoncurrentVersionTransitions": [
                {"NoncurrentDays": 0, "StorageClass": "COLD", "NewerNoncurrentVersions": 2}
            ],
        }
    ]
    set_rules(s3, bucket, moving)
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == moving
    moving[0]["Expiration"] = {"Days": 30}
    wrong = {"Rules": moving}
    assert refusal(s3.put_bucket_lifecycle_configuration, Bucket=bucket, LifecycleConfiguration=wrong) == (
        "InvalidArgument", 400,
    )
    s3.delete_bucket_lifecycle(Bucket=bucket)
    assert refusal(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == ("NoSuchLifecycleConfiguration", 404)


def test_objects_and_uploads_tell_when_they_go(s3, bucket):
    set_rules(s3, bucket, RULES)
    before = midnight_after(30)
    put = s3.put_object(Bucket=bucket, Key="logs/a", Body=b"x")
    head = s3.head_object(Bucket=bucket, Key="logs/a")
    dates = {before, midnight_after(30)}
    assert put["Expiration"] == head["Expiration"]
    assert put["Expiration"] in {f'expiry-date="{date}", rule-id="logs"' for date in dates}
    assert "Expiration" not in s3.put_object(Bucket=bucket, Key="kept", Body=b"x")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="kept")
    assert upload["AbortRuleId"] == "versions"
    parts = s3.list_parts(Bucket=bucket, Key="kept", UploadId=upload["UploadId"])
    assert parts["AbortDate"] == upload["AbortDate"]
    assert parts["AbortDate"].strftime("%a, %d %b %Y %H:%M:%S GMT") in {midnight_after(2)}
