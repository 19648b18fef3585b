"""Attacks on each rule by which the console is safe, in Chromium and in Firefox."""

import http.server
import json
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

from siltstone import ACCESS_KEY, SECRET_KEY
from visits import uploaded

MIB = 1024 * 1024
COOKIE = "siltstone-console"
# Whoever runs one of these has broken out of the text that it is.
MARKUP = ['<img src=x onerror="document.title=`ran`">', "<svg onload=`document.title='ran'`>", "\"'><b onclick=x>"]


class Evil:
    """An origin of somebody else at another port of the same host, which is one site with it."""

    def __init__(self):
        self.page = ""
        self.asked = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _handler(evil):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                evil.asked.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(evil.page.encode())

            do_POST = do_GET

            def log_message(self, *_):
                pass

        return Handler


@pytest.fixture
def evil():
    made = Evil()
    yield made
    made.server.shutdown()
    made.server.server_close()


def cookies(visit):
    return {cookie["name"]: cookie for cookie in visit.context.cookies()}


def assert_signed_out(visit, page=None):
    page = page or visit.page
    page.goto(visit.root + "state")
    page.get_by_role("heading", name="Sign in").wait_for()


def test_other_hosts_see_nothing_over_plain_http(visit_in_each):
    visit = visit_in_each(extra_http_headers={"X-Forwarded-For": "192.0.2.1"})
    for page in ["", "sign-in", "bucket?name=box"]:
        visit.page.goto(visit.root + page)
        visit.page.get_by_text("The console is not shown over plain HTTP to other hosts").wait_for()
        assert visit.page.locator("input").count() == 0
    assert cookies(visit) == {}


def test_guesses_are_few_and_no_key_is_made_up_beforehand(visit_in_each, own_server):
    visit = visit_in_each(own_server().start())
    guesses = ["admin", "minioadmin", "siltstone", "root", ACCESS_KEY]
    for access_key in guesses:
        visit.page.goto(visit.root)
        visit.page.get_by_label("Access key").fill(access_key)
        visit.page.get_by_label("Secret key").fill(access_key)
        visit.page.get_by_role("button", name="Sign in").click()
        visit.page.get_by_text("is wrong").wait_for()
    visit.page.get_by_label("Secret key").fill(SECRET_KEY)
    visit.page.get_by_role("button", name="Sign in").click()
    visit.page.get_by_text("too many wrong attempts").wait_for()
    assert visit.page.get_by_label("Access key").input_value() == ACCESS_KEY
    assert_signed_out(visit)


def test_a_session_is_out_of_reach_of_scripts_and_of_nobody_elses_making(visit_in_each):
    victim = visit_in_each()
    planted = {"name": COOKIE, "value": "A" * 43, "url": victim.root}
    victim.context.add_cookies([planted])
    victim.sign_in()
    cookie = cookies(victim)[COOKIE]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/-/console")
    assert cookie["value"] != planted["value"] and len(cookie["value"]) >= 43
    assert cookie["value"] not in victim.page.evaluate("document.cookie")
    attacker = visit_in_each()
    attacker.context.add_cookies([planted])
    assert_signed_out(attacker)


def test_signing_out_ends_the_session_on_the_server(visit_in_each):
    victim, thief = visit_in_each().sign_in(), visit_in_each()
    stolen = {"name": COOKIE, "value": cookies(victim)[COOKIE]["value"], "url": victim.root}
    thief.context.add_cookies([stolen])
    thief.page.goto(thief.root + "state")
    thief.page.get_by_text("The server takes writes.").wait_for()
    victim.page.goto(victim.root + "connect")
    victim.page.get_by_role("button", name="Sign out").click()
    victim.page.get_by_role("heading", name="Sign in").wait_for()
    assert_signed_out(thief)
    victim.page.go_back()
    victim.page.get_by_role("heading", name="Sign in").wait_for()
    assert victim.page.get_by_text("rclone").count() == 0


def make_user(visit, name, grants):
    """Makes a user in the console, and returns its keys."""
    page = visit.page
    page.goto(visit.root + "users")
    form = page.locator("form[data-form=create-user]")
    form.get_by_label("Name").fill(name)
    form.get_by_label("The permissions below").check()
    form.get_by_label("Permissions, a line each").fill(grants)
    form.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name=f"Keys of {name}").wait_for()
    return [code.inner_text() for code in page.locator("dd code").all()]


def test_the_end_of_a_user_ends_its_session_and_its_links(visit_in_each, own_server):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="box")
    s3.put_bucket_versioning(Bucket="box", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="box", Key="shared.txt", Body=b"first")
    owner, guest = visit_in_each(server).sign_in(), visit_in_each(server)
    access_key, secret_key = make_user(owner, "guest", "* on box,box/*\nListAllMyBuckets on *")
    guest.sign_in(access_key=access_key, secret_key=secret_key)
    guest.page.goto(f"{guest.root}object?bucket=box&key=shared.txt")
    guest.page.get_by_text("Share", exact=True).click()
    guest.page.get_by_role("button", name="Make a link").click()
    link = guest.page.get_by_label("Everyone who has it").input_value()
    s3.put_object(Bucket="box", Key="shared.txt", Body=b"second")
    guest.page.get_by_role("button", name="Sign out").click()
    guest.page.get_by_role("heading", name="Sign in").wait_for()
    # It names the version, and does not depend on the session.
    assert urllib.request.urlopen(link).read() == b"first"
    guest.sign_in(access_key=access_key, secret_key=secret_key)
    owner.page.goto(owner.root + "users")
    card = owner.page.get_by_role("region", name="guest")
    card.get_by_text("Change").click()
    card.get_by_label("Remove the user").check()
    card.get_by_role("button", name="Remove").click()
    card.wait_for(state="detached")
    assert_signed_out(guest)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(link)
    assert refused.value.code == 403


def forgeries(bucket):
    """Changes that a page of somebody else would like to make: the page of a form, and its fields."""
    return [
        ("create-bucket", {"name": "forged"}),
        ("delete-bucket", {"name": "forged-empty"}),
        ("delete", {"bucket": bucket, "object": "k", "confirmed": "1"}),
        ("set", {"name": bucket, "setting": "public", "status": "on"}),
        ("set", {"name": bucket, "setting": "versioning", "status": "Enabled"}),
        ("set", {"name": bucket, "setting": "quota", "bytes": "1"}),
        ("change", {"bucket": bucket, "key": "k", "change": "tags", "name": "a", "value": "b", "was": ""}),
        ("share", {"bucket": bucket, "key": "k", "expires": "3600"}),
        ("user", {"change": "create", "name": "forged", "role": "administrator"}),
        ("user", {"change": "rotate", "name": "forged-user"}),
        ("rewind", {"bucket": bucket, "time": "2020-01-01", "seen": "2030-01-01"}),
        ("outbound", {"mirror": "away", "sure": "yes"}),
        ("archive", {"bucket": bucket, "folder": "", "confirmed": "1"}),
        ("sign-out", {}),
    ]


def assert_nothing_forged(visit, s3, bucket):
    names = [found["Name"] for found in s3.list_buckets()["Buckets"]]
    assert "forged" not in names and "forged-empty" in names
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket=bucket)
    # The session goes on, and there is no further user.
    visit.page.goto(visit.root + "users")
    assert visit.page.get_by_role("region", name="forged").count() == 0


def test_pages_of_other_origins_change_nothing(visit_in_each, own_server, evil):
    server = own_server().start()
    s3 = server.client()
    for bucket in ["box", "forged-empty"]:
        s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket="box", Key="k", Body=b"x")
    visit = visit_in_each(server).sign_in()
    other = visit.context.new_page()
    evil.page = """<!doctype html><meta charset=utf-8><form method=post></form><script>
        const [form] = document.forms;
        const forge = (target, [page, fields]) => {
            form.action = ROOT + page;
            form.target = target;
            form.replaceChildren(...Object.entries(fields).map(([name, value]) =>
                Object.assign(document.createElement("input"), { name, value })));
            form.submit();
        };
        const fetched = async ([page, fields], options) => {
            const outcome = fetch(ROOT + page, { method: "POST", body: new URLSearchParams(fields), credentials: "include", ...options });
            return outcome.then((answer) => answer.type, () => "refused");
        };
    </script>""".replace("ROOT", json.dumps(visit.root))
    for forgery in forgeries("box"):
        other.goto(evil.url)
        other.evaluate("(forgery) => forge('_self', forgery)", forgery)
        other.get_by_text("This request came from a page of another origin.").wait_for()
        other.goto(evil.url)
        # The request goes out, and its answer is kept from the page.
        assert other.evaluate("(forgery) => fetched(forgery, { mode: 'no-cors' })", forgery) in ("opaque", "refused")
        assert other.evaluate("(forgery) => fetched(forgery, {})", forgery) == "refused"
    put = "(address) => fetch(address, { method: 'PUT', body: 'forged', credentials: 'include' }).then(() => 'sent', () => 'refused')"
    assert other.evaluate(put, f"{visit.root}s3?bucket=box&key=k") == "refused"
    # An origin of nobody: a frame in a sandbox.
    other.goto(evil.url)
    other.evaluate(
        """(address) => new Promise((done) => {
            const frame = document.createElement("iframe");
            frame.sandbox = "allow-scripts allow-forms";
            frame.srcdoc = `<form method=post action="${address}"><input name=name value=forged></form><script>document.forms[0].submit()<\\/script>`;
            let loads = 0;
            frame.onload = () => { loads += 1; if (loads === 2) done(); };
            setTimeout(done, 5000);
            document.body.append(frame);
        })""",
        f"{visit.root}create-bucket",
    )
    assert_nothing_forged(visit, s3, "box")


def test_pages_are_in_no_frame(visit_in_each, evil, s3, bucket):
    visit = visit_in_each().sign_in()
    s3.put_object(Bucket=bucket, Key="frame.html", Body=b"<iframe src=/-/console/></iframe>", ContentType="text/html")
    link = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "frame.html"})
    evil.page = f"<iframe src='{visit.root}'></iframe><iframe src='{visit.root}connect'></iframe>"
    other = visit.context.new_page()
    for address in [evil.url, link]:
        other.goto(address, wait_until="load")
        assert other.locator("iframe").count() > 0
        for frame in other.frames[1:]:
            assert frame.get_by_text("Siltstone").count() == 0, address


def test_what_is_brought_into_a_page_does_not_run(visit_in_each, evil):
    visit = visit_in_each().sign_in()
    page = visit.page
    title = page.title()
    page.evaluate(
        """(evil) => {
            const main = document.querySelector("main");
            main.innerHTML += `<img src=x onerror="document.title='ran'"><a id=link href="javascript:document.title='ran'">x</a>
                <div style="display:none">x</div><form id=out method=post action="${evil}out"></form>`;
            for (const source of ["", evil + "evil.js"]) {
                const script = document.createElement("script");
                if (source === "") script.textContent = "document.title = 'ran'";
                else script.src = source;
                document.head.append(script);
            }
            document.head.append(Object.assign(document.createElement("base"), { href: evil }));
            document.getElementById("link").click();
            try {
                document.getElementById("out").submit();
            } catch {
                // Firefox says that it does not.
            }
            new Image().src = evil + "image";
            fetch(evil + "fetch").catch(() => {});
        }""",
        evil.url,
    )
    page.wait_for_timeout(500)
    assert page.evaluate("document.title") == title and page.url == visit.root
    assert page.evaluate("document.baseURI").startswith(visit.root)
    assert evil.asked == []
    # It was meant.
    visit.complaints.clear()


def test_names_and_values_are_text(visit_in_each, s3, bucket):
    keys = [*MARKUP, "photo\u202egnp.exe", "line\r\nbreak", "{{ 7 * 7 }}"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode(), ContentType="text/plain", Metadata={"m": "<b>"})
        s3.put_object_tagging(Bucket=bucket, Key=key, Tagging={"TagSet": [{"Key": "t", "Value": "a=b"}]})
    visit = visit_in_each().sign_in()
    page = visit.page
    shown = {key: key.replace("\u202e", "⟨U+202E⟩").replace("\r", "⟨U+000D⟩").replace("\n", "⟨U+000A⟩") for key in keys}
    for key in keys:
        page.goto(f"{visit.root}bucket?name={bucket}")
        page.get_by_role("link", name=shown[key], exact=True).click()
        page.get_by_role("link", name="Download").wait_for()
        assert page.title().startswith(shown[key])
        assert page.locator("pre.preview").text_content().split() == key.split()
    page.goto(f"{visit.root}bucket?name={bucket}")
    for box in page.locator("tbody input").all():
        box.check()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("heading", name=f"Delete {len(keys)} objects").wait_for()
    assert sorted(item.text_content() for item in page.locator(".names li").all()) == sorted(shown.values())
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_text("There is nothing here.").wait_for()
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_user_without_a_permission_gets_no_further_by_the_console(visit_in_each, own_server):
    server = own_server().start()
    s3 = server.client()
    for bucket in ["box", "forged-empty"]:
        s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket="box", Key="k", Body=b"x")
    owner, guest = visit_in_each(server).sign_in(), visit_in_each(server)
    access_key, secret_key = make_user(owner, "guest", "ListAllMyBuckets on *\nListBucket on box")
    guest.sign_in(access_key=access_key, secret_key=secret_key)
    # Scripts of the page itself: the browser has no objection.
    send = """async ([page, fields]) => {
        const answer = await fetch(page, { method: "POST", body: new URLSearchParams(fields) });
        return [answer.status, await answer.text()];
    }"""
    for page, fields in forgeries("box"):
        if page == "sign-out":
            continue
        status, text = guest.page.evaluate(send, [guest.root + page, fields])
        # The page before an archive names what is left out; an archive of nothing is none.
        assert status in (403, 404, 409), (page, fields, status, text)
    for address in ["users", "state", "outbound", "content?bucket=box&key=k", "s3?bucket=box&key=k", "editor?name=box&kind=policy"]:
        text = guest.page.evaluate("(address) => fetch(address).then((answer) => answer.text())", guest.root + address)
        assert "forged" not in text and "AKIA" not in text and text.strip() != "x", address
    assert_nothing_forged(owner, s3, "box")


def test_a_file_in_parts_arrives_whole(visit_in_each, s3, bucket, tmp_path):
    content = b"".join(b"MiB %08d." % mib + bytes(MIB - 12) for mib in range(17))
    (tmp_path / "parts.bin").write_bytes(content)
    visit = visit_in_each().sign_in()
    visit.page.goto(f"{visit.root}bucket?name={bucket}")
    visit.page.get_by_label("Upload files").set_input_files(tmp_path / "parts.bin")
    uploaded(visit.page, 1)
    stored = s3.get_object(Bucket=bucket, Key="parts.bin")
    assert stored["Body"].read() == content and stored["ETag"].endswith('-3"')


def test_pages_are_not_kept_and_files_of_the_pages_are(visit_in_each, bucket):
    visit = visit_in_each()
    answers = {}
    visit.page.on("response", lambda answer: answers.update({urllib.parse.urlsplit(answer.url).path: answer.headers}))
    visit.sign_in()
    for address in ["connect", "state", "users", f"bucket?name={bucket}", f"settings?name={bucket}"]:
        visit.page.goto(visit.root + address)
    kept = {path: headers["cache-control"] for path, headers in answers.items() if "/-/console/" in path}
    assert len([path for path in kept if "/assets/" in path]) >= 3
    for path, cache in kept.items():
        assert cache == ("public, max-age=31536000, immutable" if "/assets/" in path else "no-store"), path
