"""Websites that boto3 and the aws command line set up, and a browser's requests to them."""

import http.client
import json
import re
import subprocess

import pytest

from siltstone import ACCESS_KEY, ROOT, SECRET_KEY

USERS = """
[[user]]
name = "admin"
access_key = "{admin}"
secret_key = "{secret}"

[[user.allow]]
actions = ["*"]
resources = ["*"]

[[user]]
name = "anonymous"

[[user.allow]]
actions = ["GetObject"]
resources = ["site/*"]
""".format(admin=ACCESS_KEY, secret=SECRET_KEY)


@pytest.fixture(params=["direct", "tiny_http"])
def web(request, own_server, tmp_path):
    users = tmp_path / "users.toml"
    users.write_text(USERS)
    users.chmod(0o600)
    options = ["--website-domain", "web.localhost", "--http-engine", request.param]
    server = own_server("--users", str(users), *options).start()
    server.client().create_bucket(Bucket="site")
    return server


def visit(server, path, method="GET", bucket="site", **headers):
    """The status, the headers and the body of a request to a site; redirects are not followed."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, headers={"Host": f"{bucket}.web.localhost:{server.port}", **headers})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def put(server, key, body, **more):
    server.client().put_object(Bucket="site", Key=key, Body=body, **more)


def test_a_site_of_boto3_is_served(web):
    s3 = web.client()
    rules = [
        {
            "Condition": {"KeyPrefixEquals": "docs/"},
            "Redirect": {"ReplaceKeyPrefixWith": "documents/", "HttpRedirectCode": "302"},
        },
        {
            "Condition": {"HttpErrorCodeReturnedEquals": "403", "KeyPrefixEquals": "lost/"},
            "Redirect": {"HostName": "archive.example", "Protocol": "https", "ReplaceKeyWith": "found"},
        },
    ]
    configuration = {
        "IndexDocument": {"Suffix": "index.html"},
        "ErrorDocument": {"Key": "error.html"},
        "RoutingRules": rules,
    }
    s3.put_bucket_website(Bucket="site", WebsiteConfiguration=configuration)
    found = s3.get_bucket_website(Bucket="site")
    assert {name: found[name] for name in configuration} == configuration

    put(web, "index.html", b"<h1>home</h1>", ContentType="text/html")
    put(web, "a/index.html", b"a")
    put(web, "error.html", b"<h1>sorry</h1>", ContentType="text/html")
    put(web, "moved", b"", WebsiteRedirectLocation="https://new.example/")
    assert s3.head_object(Bucket="site", Key="moved")["WebsiteRedirectLocation"] == "https://new.example/"

    status, headers, body = visit(web, "/")
    assert (status, headers["Content-Type"], body) == (200, "text/html", b"<h1>home</h1>")
    assert visit(web, "/", **{"If-None-Match": headers["ETag"]})[0] == 304
    assert visit(web, "/", **{"Range": "bytes=4-7"})[::2] == (206, b"home")
    assert visit(web, "/a/")[::2] == (200, b"a")
    assert visit(web, "/absent")[::2] == (403, b"<h1>sorry</h1>")
    assert visit(web, "/absent", "HEAD")[::2] == (403, b"")
    for path, status, location in [
        ("/a", 302, "/a/"),
        ("/docs/x?y", 302, f"http://site.web.localhost:{web.port}/documents/x"),
        ("/lost/x", 301, "https://archive.example/found"),
        ("/moved", 301, "https://new.example/"),
    ]:
        found, headers, body = visit(web, path)
        assert (found, headers["Location"], body) == (status, location, b"")
    status, headers, body = visit(web, "/x", "PUT")
    assert (status, headers["Allow"], b"<h1>405 Method Not Allowed</h1>" in body) == (405, "GET, HEAD", True)

    s3.delete_bucket_website(Bucket="site")
    status, _, body = visit(web, "/")
    assert (status, b"<li>Code: NoSuchWebsiteConfiguration</li>" in body) == (404, True)


def test_a_site_is_made_by_the_commands_of_the_guide(web, tmp_path):
    guide = (ROOT / "src/guide/operations.md").read_text()
    section = re.search(r"^## Websites\n(.*?)^## ", guide, re.M | re.S).group(1)
    commands = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
    assert len(commands) == 2
    (tmp_path / "index.html").write_text("from the command line")
    environment = web.aws_environment(tmp_path)
    for script in commands:
        assert visit(web, "/", bucket="photos")[0] in (403, 404)
        subprocess.run(["bash", "-euc", script], cwd=tmp_path, env=environment, check=True, capture_output=True)
    status, headers, body = visit(web, "/", bucket="photos")
    assert (status, headers["Content-Type"], body) == (200, "text/html", b"from the command line")
    status, _, body = visit(web, "/absent", bucket="photos")
    assert (status, b"<li>Code: AccessDenied</li>" in body) == (403, True)


def test_a_site_lasts(web):
    redirect = {"RedirectAllRequestsTo": {"HostName": "new.example", "Protocol": "https"}}
    web.client().put_bucket_website(Bucket="site", WebsiteConfiguration=redirect)
    web.kill()
    web.start()
    status, headers, _ = visit(web, "/a%20b?c=d")
    assert (status, headers["Location"]) == (301, "https://new.example/a%20b?c=d")


def test_the_access_log_tells_of_the_error_that_the_browser_was_told(own_server, tmp_path):
    path = tmp_path / "access.log"
    server = own_server("--website-domain", "web.localhost", "--access-log", str(path)).start()
    s3 = server.client()
    s3.create_bucket(Bucket="site")
    lost = {"Condition": {"HttpErrorCodeReturnedEquals": "403", "KeyPrefixEquals": "lost/"}, "Redirect": {"ReplaceKeyWith": "x"}}
    configuration = {"IndexDocument": {"Suffix": "index.html"}, "RoutingRules": [lost]}
    s3.put_bucket_website(Bucket="site", WebsiteConfiguration=configuration)
    visit(server, "/closed")
    visit(server, "/lost/x")
    visit(server, "/", "POST")
    server.stop()
    lines = [json.loads(line) for line in path.read_text().splitlines()][2:]
    assert [line["operation"] for line in lines] == ["Website"] * 3
    assert [line["status"] for line in lines] == [403, 301, 405]
    assert [line.get("error") for line in lines] == ["AccessDenied", None, "MethodNotAllowed"]
    assert lines[0]["user"] == "anonymous"
