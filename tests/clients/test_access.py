"""Who may do what: signatures that botocore makes, presigned URLs, permissions and the anonymous user."""

import signal
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

import odd_keys
from siltstone import ACCESS_KEY, REGION, SECRET_KEY
from test_objects import refusal

USERS = """
[[user]]
name = "admin"
access_key = "{admin}"
secret_key = "{secret}"

[[user.allow]]
actions = ["*"]
resources = ["*"]

[[user]]
name = "reader"
access_key = "reader"
secret_key = "reader-secret"

[[user.allow]]
actions = ["ListBucket", "GetObject"]
resources = ["open", "open/*"]

[[user]]
name = "uploader"
access_key = "uploader"
secret_key = "uploader-secret"

[[user.allow]]
actions = ["PutObject"]
resources = ["open/in/*"]

[[user]]
name = "anonymous"

[[user.allow]]
actions = ["GetObject"]
resources = ["open/public/*"]
""".format(admin=ACCESS_KEY, secret=SECRET_KEY)


@pytest.fixture
def guarded(own_server, tmp_path):
    users = tmp_path / "users.toml"
    users.write_text(USERS)
    users.chmod(0o600)
    server = own_server("--users", str(users)).start()
    client = server.client()
    client.create_bucket(Bucket="open")
    client.create_bucket(Bucket="closed")
    for key in ("k", "public/k"):
        client.put_object(Bucket="open", Key=key, Body=b"x")
    return server


def fetch(url, data=None, method=None, headers={}):
    """The status and the body of a plain HTTP request."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_wrong_keys_are_told_apart(server):
    assert refusal(server.client(access_key="nobody").list_buckets) == ("InvalidAccessKeyId", 403)
    assert refusal(server.client(secret_key="wrong").list_buckets) == ("SignatureDoesNotMatch", 403)


@pytest.mark.parametrize("key", odd_keys.ALL, ids=ascii)
def test_presigned_urls_read_and_write_odd_keys(s3, bucket, key):
    params = {"Bucket": bucket, "Key": key}
    assert fetch(s3.generate_presigned_url("put_object", params), b"presigned", "PUT") == (200, b"")
    assert fetch(s3.generate_presigned_url("get_object", params)) == (200, b"presigned")
    assert fetch(s3.generate_presigned_url("head_object", params), method="HEAD") == (200, b"")


def test_a_presigned_url_allows_what_was_signed_and_no_more(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})
    assert fetch(url) == (200, b"x")
    for wrong in (url.replace("/k?", "/other?"), url + "&partNumber=1", url[:-1] + ("0" if url[-1] != "0" else "1")):
        status, body = fetch(wrong)
        assert (status, b"<Code>SignatureDoesNotMatch</Code>" in body) == (403, True)
    assert fetch(url, b"new", "PUT")[0] == 403


def test_a_presigned_url_may_override_headers(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    params = {"Bucket": bucket, "Key": "k", "ResponseContentType": "text/odd; a=\"b c\""}
    url = s3.generate_presigned_url("get_object", params)
    with urllib.request.urlopen(url) as answer:
        assert answer.headers["Content-Type"] == 'text/odd; a="b c"'


def test_a_presigned_put_takes_the_metadata_that_boto3_signed(s3, bucket):
    """boto3 leaves metadata to whoever sends the request, who must send it as it was signed."""
    params = {"Bucket": bucket, "Key": "k", "Metadata": {"mood": "good day"}, "Tagging": "a=b"}
    url = s3.generate_presigned_url("put_object", params)
    headers = {"x-amz-meta-mood": "good day", "x-amz-tagging": "a=b"}
    assert fetch(url, b"x", "PUT")[0] == 403
    assert fetch(url, b"x", "PUT", headers)[0] == 200
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["Metadata"], head["TagCount"]) == ({"mood": "good day"}, 1)


def presigned_with_all_in_the_query(server, method, path, parameters):
    """A URL as those SDKs make it that move vendor headers into the query, signed by botocore."""
    request = AWSRequest(method=method, url=f"{server.url}{path}", params=parameters)
    S3SigV4QueryAuth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", REGION, expires=60).add_auth(request)
    return request.prepare().url


def test_headers_moved_into_the_query_of_a_presigned_url_count(server, s3, bucket):
    moved = {"x-amz-meta-mood": "good day", "X-Amz-Tagging": "a=b", "x-amz-acl": "private",
             "x-amz-checksum-crc32": "y/Q5Jg==", "x-amz-sdk-checksum-algorithm": "CRC32"}
    url = presigned_with_all_in_the_query(server, "PUT", f"/{bucket}/k", moved)
    status, body = fetch(url, b"other", "PUT")
    assert (status, b"<Code>BadDigest</Code>" in body) == (400, True)
    assert fetch(url, b"123456789", "PUT") == (200, b"")
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (head["Metadata"], head["TagCount"], head["ChecksumCRC32"]) == ({"mood": "good day"}, 1, "y/Q5Jg==")


def test_a_presigned_url_expires(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"}, ExpiresIn=1)
    time.sleep(2.1)
    status, body = fetch(url)
    assert (status, b"<Code>AccessDenied</Code>" in body, b"expired" in body) == (403, True, True)
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"}, ExpiresIn=604_801)
    assert fetch(url)[0] == 400


def presigner_v2(server):
    """botocore presigns by version 2 by default for regions of AWS's own, such as us-east-1."""
    client = server.client(region="us-east-1")

    def url(operation, method=None, **parameters):
        url = client.generate_presigned_url(operation, parameters, HttpMethod=method)
        assert "AWSAccessKeyId=" in url
        return url

    return url


def test_urls_presigned_by_version_2_work(server, s3, bucket):
    url = presigner_v2(server)
    key = "a b/ü+(1)'~.txt"
    of = {"Bucket": bucket, "Key": key}
    put = url("put_object", **of, ContentType="text/plain", Metadata={"mood": "good day"}, Tagging="a=b")
    assert fetch(put, b"by version 2", "PUT", {"Content-Type": "text/plain"})[0] == 200
    assert fetch(put, b"by version 2", "PUT", {"Content-Type": "text/html"})[0] == 403
    assert fetch(url("get_object", **of)) == (200, b"by version 2")
    assert fetch(url("head_object", **of), method="HEAD") == (200, b"")
    head = s3.head_object(**of)
    assert (head["ContentType"], head["Metadata"]) == ("text/plain", {"mood": "good day"})
    assert s3.get_object_tagging(**of)["TagSet"] == [{"Key": "a", "Value": "b"}]
    overridden = url("get_object", **of, ResponseContentType="a/b", ResponseContentDisposition='x; y="z"')
    with urllib.request.urlopen(overridden, timeout=10) as answer:
        assert (answer.headers["Content-Type"], answer.headers["Content-Disposition"]) == ("a/b", 'x; y="z"')
    assert b"<Key>a</Key>" in fetch(url("get_object_tagging", **of))[1]
    assert fetch(url("list_objects_v2", Bucket=bucket, Prefix="a"))[0] == 200
    copy = url("copy_object", Bucket=bucket, Key="copy", CopySource=of)
    assert fetch(copy, method="PUT")[0] == 200
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == b"by version 2"
    assert fetch(url("delete_object", **of), method="DELETE")[0] == 204
    assert fetch(url("get_object", **of))[0] == 404


def test_version_2_covers_what_it_signs(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = presigner_v2(server)("get_object", Bucket=bucket, Key="k")
    for added in ["&versionId=null", "&tagging", "&x-amz-meta-a=1", "&response-expires=x"]:
        status, body = fetch(url + added)
        assert (status, b"<Code>SignatureDoesNotMatch</Code>" in body) == (403, True), added
    assert fetch(url + "&attributes")[0] == 403
    assert fetch(url.replace("/k?", "/l?"))[0] == 403
    assert fetch(url, method="DELETE")[0] == 403
    post = presigner_v2(server)("create_multipart_upload", Bucket=bucket, Key="k")
    assert fetch(post, method="POST")[0] == 400


def test_version_2_can_be_switched_off(own_server):
    server = own_server("--sigv2-presigned", "false").start()
    server.client().create_bucket(Bucket="switched")
    status, body = fetch(presigner_v2(server)("list_objects_v2", Bucket="switched"))
    assert (status, b"AWS4-HMAC-SHA256" in body) == (400, True)
    client = server.client(region="us-east-1", config=Config(signature_version="s3v4"))
    assert fetch(client.generate_presigned_url("list_objects_v2", {"Bucket": "switched"}))[0] == 200


def test_version_2_by_header_is_refused_by_name(server):
    client = server.client(region="us-east-1", config=Config(signature_version="s3"))
    assert refusal(client.list_buckets) == ("InvalidRequest", 400)


def test_nobody_gets_in_without_keys(server, bucket):
    anonymous = server.anonymous()
    assert refusal(anonymous.list_objects_v2, Bucket=bucket) == ("AccessDenied", 403)
    assert refusal(anonymous.put_object, Bucket=bucket, Key="k") == ("AccessDenied", 403)
    assert refusal(anonymous.create_bucket, Bucket="anonymous-bucket") == ("AccessDenied", 403)
    assert refusal(anonymous.list_buckets) == ("AccessDenied", 403)


def test_the_anonymous_user_may_do_what_it_was_granted(guarded):
    anonymous = guarded.anonymous()
    assert anonymous.get_object(Bucket="open", Key="public/k")["Body"].read() == b"x"
    assert fetch(f"{guarded.url}/open/public/k") == (200, b"x")
    assert refusal(anonymous.get_object, Bucket="open", Key="k") == ("AccessDenied", 403)
    assert refusal(anonymous.put_object, Bucket="open", Key="public/k") == ("AccessDenied", 403)


def test_each_action_needs_its_own_grant(guarded):
    reader = guarded.client(access_key="reader", secret_key="reader-secret")
    assert reader.get_object(Bucket="open", Key="k")["Body"].read() == b"x"
    assert reader.list_objects_v2(Bucket="open")["KeyCount"] == 2
    assert refusal(reader.get_object, Bucket="open", Key="absent") == ("NoSuchKey", 404)
    assert refusal(reader.put_object, Bucket="open", Key="k") == ("AccessDenied", 403)
    assert refusal(reader.delete_object, Bucket="open", Key="k") == ("AccessDenied", 403)
    assert refusal(reader.list_objects_v2, Bucket="closed") == ("AccessDenied", 403)
    assert refusal(reader.create_bucket, Bucket="readers") == ("AccessDenied", 403)
    uploader = guarded.client(access_key="uploader", secret_key="uploader-secret")
    uploader.put_object(Bucket="open", Key="in/k", Body=b"y")
    assert refusal(uploader.put_object, Bucket="open", Key="k") == ("AccessDenied", 403)
    assert refusal(uploader.get_object, Bucket="open", Key="in/absent") == ("AccessDenied", 403)


def test_users_change_without_a_restart(guarded, tmp_path):
    users = tmp_path / "users.toml"
    newcomer = guarded.client(access_key="newcomer", secret_key="newcomer-secret")
    assert refusal(newcomer.head_bucket, Bucket="open") == ("403", 403)
    users.write_text(
        USERS + '\n[[user]]\nname = "newcomer"\naccess_key = "newcomer"\nsecret_key = "newcomer-secret"\n'
        '[[user.allow]]\nactions = ["ListBucket"]\nresources = ["open"]\n'
    )
    guarded.process.send_signal(signal.SIGHUP)
    for _ in range(200):
        try:
            newcomer.head_bucket(Bucket="open")
            break
        except ClientError:
            time.sleep(0.05)
    assert newcomer.head_bucket(Bucket="open")["BucketRegion"] == "eu"
