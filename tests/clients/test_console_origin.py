"""Stored documents in browsers at the origin of the console, with a session of an administrator: no link to one may act there."""

import urllib.request

import pytest
from botocore.config import Config

from siltstone import ACCESS_KEY, SECRET_KEY
from visits import PATIENCE_MILLIS, spare

# Asks for the console as its pages do, and marks that it has run.
ATTACK = """<!doctype html><title>before</title><script>
document.title = "ran";
fetch("/-/console/users", {credentials: "include"})
    .then((answer) => answer.text())
    .then((text) => { document.title = text.includes("Users") ? "took over" : "ran"; }, () => {});
</script>"""
DRAWING = """<svg xmlns="http://www.w3.org/2000/svg"><title>before</title><script>document.title = "ran"</script></svg>"""
XHTML = """<html xmlns="http://www.w3.org/1999/xhtml"><head><title>before</title><script>document.title = "ran"</script></head><body/></html>"""

TYPES = [
    ("text/html", ATTACK),
    ("TEXT/HTML;charset=utf-8", ATTACK),
    ("image/png;x=y, text/html", ATTACK),
    ("image/png, text/html", ATTACK),
    ("image/png;x=\",text/html\"", ATTACK),
    ("text/plain,text/html;charset=utf-8", ATTACK),
    ("multipart/x-mixed-replace;boundary=b", f"--b\r\nContent-Type: text/html\r\n\r\n{ATTACK}\r\n--b--\r\n"),
    ("image/svg+xml", DRAWING),
    ("application/xhtml+xml", XHTML),
    ("application/xml", XHTML),
    ("text/xml", XHTML),
    ("application/anything+xml", XHTML),
    ("unknown", ATTACK),
    ("text/html\t;", ATTACK),
]


def version_2(server):
    return server.client(config=Config(signature_version="s3", s3={"addressing_style": "path"}))


def titles(context, link):
    """What becomes of the title of a page that a person opens; a download opens none."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MILLIS)
    try:
        page.goto(link, wait_until="networkidle")
    except Exception as error:
        assert "Download is starting" in str(error) or "ERR_ABORTED" in str(error), error
    title = page.title()
    page.close()
    return title


@pytest.fixture(params=["direct", "tiny_http"])
def server(request, own_server, each_browser):
    spare(each_browser, {"direct": "firefox", "tiny_http": "chromium"}[request.param])
    server = own_server("--http-engine", request.param, "--sigv2-presigned", "true", "--website-domain", "localhost").start()
    yield server
    server.stop()


@pytest.fixture
def context(each_browser, server):
    """A browser in which an administrator is signed in."""
    context = each_browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MILLIS)
    page.goto(server.url + "/-/console/")
    page.get_by_label("Access key").fill(ACCESS_KEY)
    page.get_by_label("Secret key").fill(SECRET_KEY)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Buckets").wait_for()
    yield context
    context.close()


def test_no_link_to_a_stored_document_runs_at_the_origin_of_the_console(server, context):
    s3 = server.client()
    s3.create_bucket(Bucket="docs")
    for number, (content_type, body) in enumerate(TYPES):
        s3.put_object(Bucket="docs", Key=f"by-type-{number}", Body=body.encode(), ContentType=content_type)
    s3.put_object(Bucket="docs", Key="plain", Body=ATTACK.encode(), ContentType="text/plain")
    s3.put_bucket_policy(
        Bucket="docs",
        Policy='{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::docs/*"}]}',
    )
    old = version_2(server)

    def links(key, **more):
        params = {"Bucket": "docs", "Key": key, **more}
        yield s3.generate_presigned_url("get_object", Params=params)
        yield old.generate_presigned_url("get_object", Params=params)

    opened = []
    for number, _ in enumerate(TYPES):
        opened += links(f"by-type-{number}")
        opened.append(f"{server.url}/docs/by-type-{number}")
    for content_type in ["text/html", "image/png;x=y, text/html", "application/xhtml+xml"]:
        opened += links("plain", ResponseContentType=content_type)
    for link in opened:
        assert titles(context, link) in ("", "before"), link


def test_a_website_has_an_origin_of_its_own_and_runs_its_scripts(server, context):
    s3 = server.client()
    s3.create_bucket(Bucket="site")
    s3.put_object(Bucket="site", Key="index.html", Body=ATTACK.encode(), ContentType="text/html")
    s3.put_bucket_website(Bucket="site", WebsiteConfiguration={"IndexDocument": {"Suffix": "index.html"}})
    s3.put_bucket_policy(
        Bucket="site",
        Policy='{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*"}]}',
    )
    # Its scripts run, so the titles of the test above tell something, and reach no console.
    assert titles(context, f"http://site.localhost:{server.port}/") == "ran"


def test_a_picture_is_still_shown(server, context):
    s3 = server.client()
    s3.create_bucket(Bucket="docs")
    pixel = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf500f0003850180a9e03ff20000000049454e44ae426082"
    )
    s3.put_object(Bucket="docs", Key="pixel", Body=pixel, ContentType="image/png")
    link = s3.generate_presigned_url("get_object", Params={"Bucket": "docs", "Key": "pixel"})
    with urllib.request.urlopen(link) as answer:
        assert answer.headers.get("Content-Security-Policy") is None
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    page = context.new_page()
    page.goto(link)
    assert page.evaluate("document.images[0].naturalWidth") == 1
    page.close()


def test_pages_of_the_console_take_no_script_from_a_bucket(server, context):
    s3 = server.client()
    s3.create_bucket(Bucket="docs")
    s3.put_object(Bucket="docs", Key="evil.js", Body=b"document.title = 'ran'", ContentType="text/javascript")
    link = s3.generate_presigned_url("get_object", Params={"Bucket": "docs", "Key": "evil.js"})
    page = context.pages[0]
    loaded, directive = page.evaluate(
        """(link) => new Promise((done) => {
            let directive = "none";
            document.addEventListener("securitypolicyviolation", (event) => { directive = event.effectiveDirective; });
            const script = document.createElement("script");
            script.src = link;
            script.onload = () => done(["loaded", directive]);
            // The event of the policy may come after that of the script.
            script.onerror = () => setTimeout(() => done(["refused", directive]), 1000);
            document.head.append(script);
        })""",
        link,
    )
    assert (loaded, directive) == ("refused", "script-src-elem") and page.title() != "ran"
