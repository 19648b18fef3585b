"""Storage classes as boto3 states and sees them."""


def seen(s3, bucket, key):
    classes = [s3.get_object(Bucket=bucket, Key=key), s3.head_object(Bucket=bucket, Key=key)]
    classes = {answer.get("StorageClass", "STANDARD") for answer in classes}
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=key)["Contents"][0]["StorageClass"]
    attributes = s3.get_object_attributes(Bucket=bucket, Key=key, ObjectAttributes=["StorageClass"])
    return classes | {listed, attributes["StorageClass"]}


def test_a_class_is_shown_as_it_was_put_and_changed_by_a_copy(s3, bucket):
    s3.put_object(Bucket=bucket, Key="cold", Body=b"x", StorageClass="COLD")
    s3.put_object(Bucket=bucket, Key="usual", Body=b"x")
    s3.put_object(Bucket=bucket, Key="other", Body=b"x", StorageClass="STANDARD_IA")
    assert seen(s3, bucket, "cold") == {"COLD"}
    assert seen(s3, bucket, "usual") == seen(s3, bucket, "other") == {"STANDARD"}
    source = {"Bucket": bucket, "Key": "cold"}
    s3.copy_object(Bucket=bucket, Key="cold", CopySource=source, StorageClass="STANDARD")
    assert seen(s3, bucket, "cold") == {"STANDARD"}


def test_an_upload_gives_its_class_to_the_object(s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", StorageClass="COLD")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x")
    assert s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)["StorageClass"] == "COLD"
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload=parts)
    assert seen(s3, bucket, "k") == {"COLD"}
