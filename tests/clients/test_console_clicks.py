"""How many clicks away things are: a test for each row of the design's list. What is typed is no click, and neither is Enter in a field."""

import re

import pytest

from siltstone import ACCESS_KEY
from visits import DESKTOP

pytest.importorskip("playwright.sync_api")


class Clicks:
    """Counts what somebody presses to get something done."""

    def __init__(self, page):
        self.page = page
        self.count = 0

    def press(self, element):
        element.click()
        self.count += 1


@pytest.fixture
def shelf(s3, bucket):
    """A bucket as people have them, with versions."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ["f/one.txt", "f/two.txt"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"content", ContentType="text/plain")
    return bucket


@pytest.fixture
def at(visit, shelf):
    """Begins on the page of a folder, as somebody who has gone there."""
    browser = visit(viewport=DESKTOP).sign_in()

    def begin(prefix="f%2F"):
        browser.page.goto(f"{browser.root}bucket?name={shelf}&prefix={prefix}")
        return Clicks(browser.page)

    return begin


def test_upload(at, tmp_path):
    clicks = at()
    (tmp_path / "new.txt").write_text("new")
    with clicks.page.expect_file_chooser() as chooser:
        clicks.press(clicks.page.get_by_label("Upload files"))
    chooser.value.set_files(tmp_path / "new.txt")
    clicks.page.get_by_role("link", name="new.txt", exact=True).wait_for()
    assert clicks.count == 1


def test_download_of_one(at):
    clicks = at()
    with clicks.page.expect_download() as begun:
        clicks.press(clicks.page.get_by_label("Download one.txt"))
    assert begun.value.suggested_filename == "one.txt"
    assert clicks.count == 1


def test_deletion_of_one_and_its_way_back(at):
    deletion = at()
    page = deletion.page
    deletion.press(page.get_by_label("Delete one.txt"))
    deletion.press(page.get_by_role("button", name="Delete", exact=True))
    page.get_by_text("1 object deleted").wait_for()
    assert deletion.count == 2
    undelete = at()
    undelete.press(page.get_by_role("link", name="Trash"))
    undelete.press(page.get_by_label("Restore one.txt"))
    page.get_by_text("1 object restored").wait_for()
    assert undelete.count == 2
    undo = at()
    undo.press(page.get_by_label("Delete one.txt"))
    undo.press(page.get_by_role("button", name="Delete", exact=True))
    undo.press(page.get_by_role("button", name="Undo"))
    page.get_by_text("1 object restored").wait_for()
    page.get_by_label("Delete one.txt").wait_for()
    assert undo.count == 3


def test_restoration_of_an_older_version(at, s3, shelf):
    s3.put_object(Bucket=shelf, Key="f/one.txt", Body=b"later content", ContentType="text/plain")
    clicks = at()
    page = clicks.page
    page.get_by_role("link", name="one.txt", exact=True).click()
    lines = page.locator(".versions li")
    lines.nth(1).wait_for()
    assert re.match(r"\d?\d:\d\d( [AP]M)? (today|yesterday), 13 B current", lines.nth(0).inner_text())
    older = lines.nth(1)
    older.get_by_role("link", name="View").click()
    page.locator("pre", has_text=re.compile("^content$")).wait_for()
    page.go_back()
    older.get_by_text("id", exact=True).click()
    [_, first] = s3.list_object_versions(Bucket=shelf, Prefix="f/one.txt")["Versions"]
    older.get_by_text(first["VersionId"]).wait_for()
    clicks.press(older.get_by_role("button", name="Restore"))
    page.get_by_text("The version is the current one").wait_for()
    assert s3.get_object(Bucket=shelf, Key="f/one.txt")["Body"].read() == b"content"
    assert clicks.count == 1


def test_share(at):
    clicks = at()
    clicks.press(clicks.page.get_by_label("Share one.txt"))
    clicks.page.get_by_role("heading", name="A link to f/one.txt").wait_for()
    clicks.press(clicks.page.get_by_role("button", name="Copy"))
    assert clicks.count == 2


def test_address(at, server, shelf):
    clicks = at()
    page = clicks.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    clicks.press(page.get_by_label("More actions for one.txt"))
    clicks.press(page.get_by_role("button", name="Copy address"))
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == f"{server.url}/{shelf}/f/one.txt"
    assert clicks.count == 2


def test_public_reading_with_the_address(at, server, shelf):
    clicks = at("")
    page = clicks.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    clicks.press(page.get_by_role("link", name="Settings"))
    clicks.press(page.get_by_role("button", name="Make public"))
    page.get_by_text("Everyone can read objects").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == f"{server.url}/{shelf}/"
    assert clicks.count == 2
    # For those whose browser lets no page copy by itself.
    page.locator("code", has_text=f"{server.url}/{shelf}/").wait_for()


def test_expiry_of_a_prefix(at, s3, shelf):
    clicks = at("")
    page = clicks.page
    clicks.press(page.get_by_role("link", name="Settings"))
    form = page.locator("form[data-form=expiry]")
    form.get_by_label("Keys that begin with").fill("tmp/")
    form.get_by_label("Days after which").fill("30")
    clicks.press(form.get_by_role("button", name="Preview"))
    clicks.press(page.get_by_role("button", name="Save", exact=True))
    page.get_by_text("keys that begin with tmp/: objects expire after 30 days").wait_for()
    [rule] = s3.get_bucket_lifecycle_configuration(Bucket=shelf)["Rules"]
    assert rule["Expiration"]["Days"] == 30
    assert clicks.count == 3


def test_move(at):
    clicks = at()
    page = clicks.page
    clicks.press(page.get_by_label("More actions for one.txt"))
    clicks.press(page.get_by_role("button", name="Move, copy or rename"))
    page.get_by_label("Name", exact=True).fill("renamed.txt")
    page.keyboard.press("Enter")
    page.get_by_text("1 object moved").wait_for()
    assert clicks.count == 2


def test_copy_from_the_page_of_an_object(at, s3, shelf):
    clicks = at()
    page = clicks.page
    page.get_by_role("link", name="one.txt", exact=True).click()
    clicks.press(page.get_by_role("button", name="Copy to"))
    page.get_by_role("heading", name="Copy 1 object").wait_for()
    assert page.get_by_role("button", name="Move").count() == 0
    page.get_by_label("Name", exact=True).fill("two.txt")
    page.keyboard.press("Enter")
    # The reason, and what was entered.
    page.get_by_text("There is an object of this name already").wait_for()
    page.goto(f"{page.url.split('/-/')[0]}/-/console/object?bucket={shelf}&key=f/one.txt")
    page.get_by_role("button", name="Copy to").click()
    page.get_by_label("Name", exact=True).fill("three.txt")
    page.keyboard.press("Enter")
    page.get_by_text("1 object copied").wait_for()
    assert s3.get_object(Bucket=shelf, Key="f/three.txt")["Body"].read() == s3.get_object(Bucket=shelf, Key="f/one.txt")["Body"].read()
    assert clicks.count == 1


def test_new_folder(at):
    clicks = at()
    clicks.press(clicks.page.get_by_title("New folder"))
    clicks.page.get_by_label("Name of the folder").fill("by one click")
    clicks.page.keyboard.press("Enter")
    clicks.page.get_by_role("heading", name="by one click", level=1).wait_for()
    assert clicks.count == 1


def test_new_user_with_a_role_and_a_new_key_of_its_own(visit, own_server):
    server = own_server().start()
    server.client().create_bucket(Bucket="photos")
    browser = visit(server, viewport=DESKTOP).sign_in()
    page = browser.page
    user = Clicks(page)
    user.press(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Users"))
    user.press(page.get_by_label("Read, write and delete in the bucket"))
    form = page.locator("form[data-form=create-user]")
    form.get_by_label("Name", exact=True).fill("ada")
    form.get_by_label("Bucket", exact=True).fill("photos")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Keys of ada", level=1).wait_for()
    assert user.count == 2
    access_key, secret_key = [code.inner_text() for code in page.locator("dd code").all()]
    assert access_key != ACCESS_KEY

    browser = visit(server, viewport=DESKTOP).sign_in(access_key=access_key, secret_key=secret_key)
    page = browser.page
    made = Clicks(page)
    made.press(page.get_by_title("My account"))
    page.get_by_label("Label").fill("ada-laptop")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Keys of ada-laptop", level=1).wait_for()
    assert made.count == 1
    page.get_by_role("link", name="Back to my account").click()
    # The new key, then the end of the old one, once the programs have the new one.
    rotation = Clicks(page)
    rotation.press(page.get_by_role("button", name="Replace the key ada-laptop"))
    page.get_by_role("heading", name="Keys of ada-laptop-2", level=1).wait_for()
    rotation.press(page.get_by_role("button", name="Delete the old key"))
    page.get_by_text("Deleted the access key ada-laptop").wait_for()
    assert page.get_by_label("Delete the key ada-laptop-2").is_visible()
    assert not page.get_by_label("Delete the key ada-laptop", exact=True).is_visible()
    assert rotation.count == 2
