"""No page of the console breaks a rule of axe, of whatever impact: in light and dark, on a phone and on a desktop."""

import re
from pathlib import Path

import pytest

from siltstone import ACCESS_KEY, SECRET_KEY
from test_console_forms import Forms, Mouse, change_users, fill_in_all, stage  # noqa: F401  (a fixture)
from test_console_rules import make_user
from visits import DESKTOP, PHONE, drawn, screenshot

# Each page is looked at in all of them: an ordinary run draws one.
LOOKS = drawn([("light", DESKTOP), ("dark", PHONE), ("light", PHONE), ("dark", DESKTOP)], 1)

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf500f0003850180a9e03ff20000000049454e44ae426082"
)
PREVIEWS = {
    "pixel.png": ("image/png", PIXEL),
    "sound.ogg": ("audio/ogg", b"OggS"),
    "film.webm": ("video/webm", b"\x1a\x45\xdf\xa3"),
    "page.pdf": ("application/pdf", b"%PDF-1.4\n%%EOF"),
    "long.txt": ("text/plain", b"line of a text\n" * 10_000),
    "bytes": ("application/octet-stream", b"\0"),
}


@pytest.fixture(scope="module")
def axe():
    package = pytest.importorskip("axe_playwright_python")
    return (Path(package.__file__).parent / "axe.min.js").read_text()


class Inspector(Forms):
    """Looks at each page before it goes on."""

    def __init__(self, browser, hands, axe):
        super().__init__(browser, hands)
        # What fades in has the colours of a moment.
        browser.page.emulate_media(reduced_motion="reduce")
        self.axe = axe
        self.inspected = {}

    def heading(self, name):
        super().heading(name)
        self.inspect()

    def send(self, name, button, *ticked, **more):
        self.inspect()
        super().send(name, button, *ticked, **more)

    def inspect(self):
        page = self.page
        # What is folded belongs to the page.
        looks = page.evaluate(
            """() => {
                for (const details of document.querySelectorAll("details")) details.open = true;
                const forms = [...document.querySelectorAll("[data-form]")].map((form) => form.dataset.form);
                const shapes = ["table.grid", "td meter", ":popover-open"].filter((shape) => document.querySelector(shape));
                return [document.title, document.querySelector("main").childElementCount, ...shapes, ...new Set(forms)].join(" ");
            }"""
        )
        if looks not in self.inspected:
            self.inspected[looks] = self.broken_rules()
        # An open menu lies above the rest.
        page.evaluate("() => { for (const menu of document.querySelectorAll('details.menu')) menu.open = false; }")

    def broken_rules(self):
        page = self.page
        found = []
        page.evaluate(f"{self.axe}; undefined")
        # Figures change: the widest one has room, too.
        page.evaluate("() => { for (const figure of document.querySelectorAll('.figures dd')) figure.textContent = '1023.9 KiB/s'; }")
        for scheme, size in LOOKS:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(size)
            found += [(scheme, size["width"], told) for told in page.evaluate(RUN)]
            if page.evaluate("document.documentElement.scrollWidth") > size["width"]:
                found.append((scheme, size["width"], "the page is wider than the screen"))
        page.set_viewport_size(DESKTOP)
        return found

    def end(self):
        assert {looks: found for looks, found in self.inspected.items() if found} == {}


RUN = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.map((rule) => `${rule.id} (${rule.impact}): ${rule.nodes.map((node) => node.html.slice(0, 120))}`);
}"""


def test_no_page_breaks_a_rule(visit, stage, axe, tmp_path):  # noqa: F811
    s3 = stage.client()
    for key, (content_type, body) in PREVIEWS.items():
        s3.put_object(Bucket="open", Key=key, Body=body, ContentType=content_type)
    s3.put_object(Bucket="open", Key="a/" + 40 * "long-name-" + ".txt", Body=b"x", Metadata={"long": 100 * "word "})
    browser = visit(stage, viewport=DESKTOP)
    # The pages that lead on at once stay, to be looked at.
    browser.page.route("**/-/console/sign-in", hold_back)
    pages = Inspector(browser, Mouse, axe)
    pages.open("", "Sign in")
    pages.send("sign-in", "Sign in", **{"Access key": ACCESS_KEY, "Secret key": "wrong"})
    browser.page.get_by_text("is wrong").wait_for()
    pages.send("sign-in", "Sign in", **{"Access key": ACCESS_KEY, "Secret key": SECRET_KEY})
    pages.heading("You are signed in")
    for key in [*PREVIEWS, "a/" + 40 * "long-name-" + ".txt"]:
        pages.open(f"object?bucket=open&key={key}", key.split("/")[-1])
    for address, heading in [("", "Buckets"), ("connect", "Connect a client"), ("nowhere", "That did not work")]:
        pages.open(address, heading)
    pages.open("bucket?name=open", "open")
    upload_and_fail(pages, tmp_path)
    pages.open("bucket?name=box&versions=1", "box")
    pages.open("bucket?name=none", "That did not work")
    fill_in_all(pages, stage)
    looks = [("state", "State"), ("activity", "Activity"), ("activity?status=5xx", "Activity"), ("audit", "Audit"), ("users", "Users"), ("settings?name=box", "Settings of box"), ("", "Buckets"), ("bucket?name=open&grid=1", "open")]
    for address, heading in looks:
        pages.open(address, heading)
    browser.page.keyboard.press("?")
    pages.heading("open")
    browser.page.unroute("**/-/console/sign-in")
    change_users(pages, stage)
    assert len(pages.inspected) > 40, sorted(pages.inspected)
    pages.end()


def test_greyed_buttons_say_what_they_need(visit, stage, axe):  # noqa: F811
    s3 = stage.client()
    s3.put_object(Bucket="box", Key="notes.txt", Body=b"x", ContentType="text/plain")
    administrator = visit(stage, viewport=DESKTOP).sign_in()
    access_key, secret_key = make_user(administrator, "viewer", "ListBucket,ListBucketVersions,GetBucketVersioning,GetBucketPolicy,GetObject on box,box/*")
    browser = visit(stage, viewport=DESKTOP)
    page = browser.page
    page.goto(browser.root)
    pages = Inspector(browser, Mouse, axe)
    pages.send("sign-in", "Sign in", **{"Access key": access_key, "Secret key": secret_key})
    for address, heading in [("", "Buckets"), ("bucket?name=box", "box"), ("object?bucket=box&key=notes.txt", "notes.txt"), ("settings?name=box", "Settings of box")]:
        pages.open(address, heading)
        greyed = page.locator("main .greyed")
        assert greyed.count() > 0, address
        for button in greyed.all():
            assert re.search(r" needs [A-Z][A-Za-z]+ on (\*|box.*)$", button.text_content()), button.text_content()
    pages.open("object?bucket=box&key=notes.txt", "notes.txt")
    # By keyboard, or by a finger, the reason comes into sight.
    delete = page.get_by_role("button", name="Delete … needs DeleteObject on box/notes.txt", exact=True)
    reason = delete.locator(".why")
    assert reason.bounding_box()["x"] < 0
    delete.focus()
    assert 0 <= reason.bounding_box()["x"] <= DESKTOP["width"]
    delete.press("Enter")
    delete.click(force=True)
    page.get_by_role("heading", name="notes.txt", level=1).wait_for()
    screenshot(page, "greyed")
    pages.end()


def hold_back(route):
    answer = route.fetch()
    route.fulfill(response=answer, body=answer.text().replace('http-equiv="refresh"', 'name="held-back"'))


def upload_and_fail(pages, tmp_path):
    """Leaves the panel of uploads with one that did not succeed."""
    path = tmp_path / "pixel.png"
    path.write_bytes(PIXEL)
    pages.page.get_by_label("Upload files").set_input_files(path)
    pages.page.get_by_text("There is an object of this name.").wait_for()
    pages.inspected.pop(next(reversed(pages.inspected)))
    pages.inspect()
