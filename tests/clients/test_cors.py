"""Cross-origin rules as boto3 sets them, and what a browser would be told by them."""

import http.client
import urllib.error
import urllib.request

from test_objects import refusal

RULES = [
    {
        "ID": "uploads",
        "AllowedOrigins": ["https://*.app.example"],
        "AllowedMethods": ["PUT", "GET"],
        "AllowedHeaders": ["content-type", "x-amz-*"],
        "ExposeHeaders": ["ETag"],
        "MaxAgeSeconds": 300,
    },
    {"AllowedOrigins": ["*"], "AllowedMethods": ["GET"]},
]


def asked(server, method, target, **headers):
    """The status and the headers of an answer to an unsigned request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, target, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.headers


def test_rules_come_back_as_they_were_set(s3, bucket):
    assert refusal(s3.get_bucket_cors, Bucket=bucket) == ("NoSuchCORSConfiguration", 404)
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == RULES
    wrong = {"CORSRules": [{**RULES[0], "ExposeHeaders": ["x-amz-meta-*"]}]}
    assert refusal(s3.put_bucket_cors, Bucket=bucket, CORSConfiguration=wrong) == ("InvalidRequest", 400)
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == RULES
    s3.delete_bucket_cors(Bucket=bucket)
    assert refusal(s3.get_bucket_cors, Bucket=bucket) == ("NoSuchCORSConfiguration", 404)


def test_a_presigned_put_is_preflighted_and_its_answer_shows_the_tag(server, s3, bucket):
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
    target = url.removeprefix(server.url)
    origin = "https://www.app.example"
    status, headers = asked(
        server, "OPTIONS", target, Origin=origin, Access_Control_Request_Method="PUT",
        Access_Control_Request_Headers="content-type",
    )
    assert status == 200
    assert headers["Access-Control-Allow-Origin"] == origin
    assert headers["Access-Control-Allow-Headers"] == "content-type"
    assert headers["Access-Control-Max-Age"] == "300"
    request = urllib.request.Request(url, data=b"from a page", method="PUT", headers={"Origin": origin})
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["Access-Control-Expose-Headers"] == "ETag"
    refused, _ = asked(server, "OPTIONS", target, Origin="https://b.example", Access_Control_Request_Method="PUT")
    assert refused == 403


def test_rules_survive_a_crash(own_server):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="ruled")
    s3.put_bucket_cors(Bucket="ruled", CORSConfiguration={"CORSRules": RULES})
    server.kill()
    server.start()
    assert s3.get_bucket_cors(Bucket="ruled")["CORSRules"] == RULES


def test_the_origins_of_the_server_hold_where_a_bucket_has_no_rules(own_server):
    server = own_server("--cors-allow-origin", "https://app.example,http://localhost:*").start()
    s3 = server.client()
    s3.create_bucket(Bucket="open")
    ask = {"Access_Control_Request_Method": "DELETE", "Access_Control_Request_Headers": "authorization,x-amz-date"}
    for origin, status in [("https://app.example", 200), ("http://localhost:5173", 200), ("https://b.example", 403)]:
        assert asked(server, "OPTIONS", "/open/k", Origin=origin, **ask)[0] == status, origin
    s3.put_bucket_cors(Bucket="open", CORSConfiguration={"CORSRules": RULES})
    assert asked(server, "OPTIONS", "/open/k", Origin="https://app.example", **ask)[0] == 403
