"""Every form of the console: while a file is uploaded, without scripts, and by keyboard alone.

The forms are those of the templates, so that a further one is missed here until somebody fills it in, too."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from siltstone import ROOT
from test_objects import refusal
from visits import PATIENCE_MILLIS, HoldingProxy, drawn, leave_out, spare, uploaded, visits_of

Error = pytest.importorskip("playwright.sync_api").Error

TABS_MAX = 400
# What one request deletes, and what one rewinds.
DELETED_AT_ONCE = 1_000
REWOUND_AT_ONCE = 200


def forms_of_templates():
    """The names of all forms, and of the buttons that send a form to another page."""
    names = []
    for template in sorted((ROOT / "src/console/templates").glob("*.html")):
        for tag in re.findall(r"<form[^>]*>|<button[^>]*formaction[^>]*>", template.read_text()):
            found = re.search(r' data-form="([a-z-]+)"', tag)
            assert found, f"{template.name}: a form without a name: {tag}"
            names.append(found[1])
    assert len(names) == len(set(names)), "two forms have one name"
    return set(names)


class Mouse:
    """Somebody with a mouse."""

    def __init__(self, page):
        self.page = page

    def fill(self, field, value):
        field.fill(value)

    def tick(self, field):
        field.check()

    def press(self, button):
        button.click()


class Keyboard(Mouse):
    """Somebody with a keyboard alone, who gets everywhere with the tabulator."""

    def reach(self, element):
        for _ in range(TABS_MAX):
            if element.evaluate("(node) => node === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        pytest.fail(f"the tabulator does not lead to {element}")

    def fill(self, field, value):
        self.reach(field)
        if field.get_attribute("type") == "datetime-local":
            date, time = value.split("T")
            year, month, day = date.split("-")
            self.page.keyboard.type(month + day + year)
            self.page.keyboard.press("ArrowRight")
            self.page.keyboard.type(f"{12:02}{time.replace(':', '')[2:]}AM")
        else:
            self.page.keyboard.press("Control+a")
            self.page.keyboard.press("Delete")
            self.page.keyboard.type(value)
        assert field.input_value() == value

    def tick(self, field):
        if field.get_attribute("type") == "radio":
            group = self.page.locator(f"input[type=radio][name={field.get_attribute('name')}]")
            # One of a group is a stop; the arrows lead to the others.
            self.reach(group.and_(self.page.locator(":checked")))
            for _ in range(group.count()):
                if field.is_checked():
                    return
                self.page.keyboard.press("ArrowDown")
        else:
            self.reach(field)
            self.page.keyboard.press("Space")
        assert field.is_checked()

    def press(self, button):
        self.reach(button)
        self.page.keyboard.press("Enter")


class Forms:
    """Fills in forms in one browser, and remembers which."""

    def __init__(self, browser, hands, has_scripts=True):
        self.browser = browser
        self.page = browser.page
        self.hands = hands(browser.page)
        self.has_scripts = has_scripts
        self.sent = set()
        self.downloads = []
        self.page.on("download", lambda download: self.downloads.append(download))
        # During an upload a download has a page of its own.
        browser.context.on("page", lambda page: page.on("download", lambda download: self.downloads.append(download)))

    def open(self, address, heading):
        """Goes to a page. The answer to a form that was sent before may arrive meanwhile, and take its place."""
        for _ in range(4):
            try:
                self.page.goto(self.browser.root + address, timeout=8_000)
                break
            except Error:
                self.page.wait_for_load_state()
        else:
            self.page.goto(self.browser.root + address)
        self.heading(heading)

    def heading(self, name):
        self.page.get_by_role("heading", name=name, level=1).wait_for()

    def form(self, name, **about):
        form = self.page.locator(f"form[data-form={name}]")
        return form.filter(**about) if about else form

    def send(self, name, button, *ticked, within=None, **filled):
        """Fills in a form with values of its labels, and sends it by a button."""
        other = self.page.locator(f"button[data-form={name}]")
        if within is None:
            within = self.page.locator("form").filter(has=other) if other.count() else self.form(name)
        self.unfold(within)
        for label, value in filled.items():
            # The text of a label includes that of its field.
            named = re.compile(f"^\\s*{re.escape(label)}")
            self.hands.fill(within.get_by_label(named).first, value)
        for label in ticked:
            self.hands.tick(within.get_by_label(label))
        self.hands.press(within.get_by_role("button", name=button, exact=True))
        self.sent.add(name)

    def choose(self, name, button, menu=None):
        """Presses a button of a row, perhaps one of its menu."""
        if menu is not None:
            self.hands.press(self.page.get_by_label(menu, exact=True))
        self.hands.press(self.page.get_by_role("button", name=button, exact=True))
        self.sent.add(name)

    def unfold(self, form):
        folded = form.locator("xpath=ancestor::details[not(@open)]/summary")
        if folded.count():
            self.hands.press(folded)

    def until(self, is_so):
        """Waits for an effect that the page does not show."""
        for _ in range(PATIENCE_MILLIS // 50):
            if is_so():
                return
            self.page.wait_for_timeout(50)
        pytest.fail("it did not happen")


class FormsDuringUpload(Forms):
    """The same without leaving the document, which has an upload."""

    def __init__(self, browser, hands):
        super().__init__(browser, hands)
        self.born = None

    def begin(self, address, path):
        self.page.goto(self.browser.root + address)
        self.born = self.page.evaluate("performance.timeOrigin")
        self.page.get_by_label("Upload files").set_input_files(path)
        self.page.locator("#uploads progress").wait_for()

    def open(self, address, heading):
        follow = """(address) => {
            const link = document.createElement("a");
            link.href = address;
            document.body.append(link);
            link.click();
            link.remove();
        }"""
        self.page.evaluate(follow, self.browser.root + address)
        self.heading(heading)

    def send(self, name, button, *ticked, **more):
        super().send(name, button, *ticked, **more)
        self.assert_goes_on()

    def assert_goes_on(self):
        assert self.page.evaluate("performance.timeOrigin") == self.born, "the document was left"
        assert self.page.locator("#uploads progress").count() == 1, "the upload has ended"


@pytest.fixture
def stage(own_server, tmp_path):
    """A server with something for each form."""
    target = own_server().start()
    config = tmp_path / "siltstone.toml"
    (tmp_path / "away.key").write_text(target.settings()["aws_secret_access_key"])
    (tmp_path / "away.key").chmod(0o600)
    config.write_text(
        f"""
        [[webhook]]
        name = "thumbs"
        url = "{target.url}/"

        [[mirror]]
        name = "away"
        endpoint = "{target.url}"
        region = "{target.settings()["region_name"]}"
        access_key = "{target.settings()["aws_access_key_id"]}"
        secret_key_file = "{tmp_path}/away.key"
        buckets = ["mirrored"]
        """
    )
    server = own_server("--config", str(config)).start()
    s3 = server.client()
    for bucket in ["box", "back", "locked", "emptied", "many", "ups", "open", "rows", "trash"]:
        s3.create_bucket(Bucket=bucket)
    for bucket in ["box", "back", "locked", "emptied", "trash"]:
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ["notes.txt", "notes.txt", "keep.txt", "gone.txt", "deleted.txt", "single.txt"]:
        s3.put_object(Bucket="box", Key=key, Body=key.encode(), ContentType="text/plain")
    s3.delete_object(Bucket="box", Key="deleted.txt")
    s3.create_multipart_upload(Bucket="box", Key="half.bin")
    s3.put_object(Bucket="emptied", Key="k", Body=b"x")
    s3.create_bucket(Bucket="held", ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket="held", Key="k", Body=b"x")
    s3.put_object(Bucket="rows", Key="one.txt", Body=b"1")
    for key in ["one.txt", "two.txt", "three.txt"]:
        s3.put_object(Bucket="trash", Key=f"f/{key}", Body=b"1")
        s3.delete_object(Bucket="trash", Key=f"f/{key}")
    keys = [("many", f"f/{n:05}") for n in range(DELETED_AT_ONCE + 1)]
    keys += [("back", f"{n:05}") for n in range(REWOUND_AT_ONCE + 1)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda place: s3.put_object(Bucket=place[0], Key=place[1], Body=b"x"), keys))
    return server


def fill_in_all(forms, server):
    """Sends every form of an administrator, and looks at its effect."""
    for part in [buckets_and_folders, an_object, settings, rules, users, others]:
        part(forms, forms.page, server.client())


def buckets_and_folders(forms, page, s3):
    forms.open("", "Buckets")
    forms.send("find-bucket", "Find", **{"Find a bucket": "row"})
    page.get_by_role("link", name="box", exact=True).wait_for(state="detached")
    forms.open("", "Buckets")
    forms.send("create-bucket", "Create", Name="made")
    page.get_by_text("There is nothing here.").wait_for()
    forms.send("delete-bucket", "Delete the bucket made")
    forms.heading("Buckets")
    assert "made" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    forms.open("bucket?name=box", "box")
    forms.send("search", "Find", **{"Find here and below": "NO"})
    page.get_by_role("link", name="keep.txt", exact=True).wait_for(state="detached")
    forms.send("archive-selection", "Download", "Select notes.txt")
    forms.heading("Download 1 object")
    forms.send("confirm-archive", "Download zip")
    forms.until(lambda: len(forms.downloads) == 1)
    forms.open("bucket?name=box", "box")
    forms.send("archive-all", "Download everything here")
    forms.heading("Download 4 objects")
    forms.open("bucket?name=box", "box")
    forms.send("selection", "Delete", "Select gone.txt")
    forms.heading("Delete 1 object")
    forms.send("confirm-delete", "Delete")
    page.get_by_role("link", name="gone.txt", exact=True).wait_for(state="detached")
    forms.open("bucket?name=many", "many")
    forms.send("selection", "Delete", "Select the folder f/")
    forms.heading(f"Delete {DELETED_AT_ONCE + 1} objects")
    forms.send("confirm-delete", "Delete")
    if not forms.has_scripts:
        forms.heading("The deletion goes on")
        forms.send("further-step", "Go on with the rest")
    page.get_by_text("There is nothing here.").wait_for()
    # With scripts it goes by itself: more is gone than one step deletes.
    forms.sent.add("further-step")
    forms.open("bucket?name=box", "box")
    forms.send("tag-selection", "Tag", "Select keep.txt", "Select single.txt")
    forms.heading("Tag 2 objects")
    forms.send("confirm-tag", "Tag", "go, and these take their place", Name="kind", Value="text")
    page.get_by_role("link", name="keep.txt", exact=True).wait_for()
    assert s3.get_object_tagging(Bucket="box", Key="keep.txt")["TagSet"] == [dict(Key="kind", Value="text")]
    forms.open("bucket?name=box", "box")
    forms.send("move-selection", "Move or copy", "Select keep.txt", "Select single.txt")
    forms.heading("Move or copy 2 objects")
    forms.send("confirm-move", "Move", **{"Folder (empty for the whole bucket)": "moved"})
    page.get_by_role("link", name="moved/", exact=True).wait_for()
    assert s3.get_object_tagging(Bucket="box", Key="moved/keep.txt")["TagSet"] == [dict(Key="kind", Value="text")]
    forms.open("object?bucket=box&key=moved/keep.txt", "moved/keep.txt")
    forms.send("copy-object", "Copy to …")
    forms.heading("Copy 1 object")
    forms.send("confirm-move", "Copy", **{"Name": "copied.txt"})
    page.get_by_role("link", name="copied.txt", exact=True).wait_for()
    assert s3.get_object_tagging(Bucket="box", Key="moved/copied.txt")["TagSet"] == [dict(Key="kind", Value="text")]
    forms.open("object?bucket=box&key=moved/keep.txt", "moved/keep.txt")
    forms.send("move-object", "Move or rename …")
    forms.heading("Move or copy 1 object")
    forms.send("confirm-move", "Move", **{"Name": "kept.txt", "Folder (empty for the whole bucket)": ""})
    page.get_by_role("link", name="single.txt", exact=True).wait_for()
    assert s3.get_object(Bucket="box", Key="kept.txt")["Body"].read() == b"keep.txt"
    rows_of_a_folder(forms, page, s3)
    deleted_objects(forms, page, s3)
    forms.open("bucket?name=emptied", "emptied")
    forms.send("empty-bucket", "Empty the bucket …")
    forms.heading("Empty emptied: delete 1 object")
    forms.send("confirm-delete", "Delete", **{"Type the name of the bucket to empty it": "not it"})
    page.get_by_text("Type the name of the bucket to empty it.").wait_for()
    assert "Versions" in s3.list_object_versions(Bucket="emptied")
    forms.send("confirm-delete", "Delete", **{"Type the name of the bucket to empty it": "emptied"})
    page.get_by_text("There is nothing here.").wait_for()
    assert "Versions" not in s3.list_object_versions(Bucket="emptied")


def rows_of_a_folder(forms, page, s3):
    forms.open("bucket?name=rows", "rows")
    forms.send("new-folder", "Create", **{"Name of the folder": "new"})
    forms.heading("new")
    assert s3.head_object(Bucket="rows", Key="new/")["ContentLength"] == 0
    forms.open("bucket?name=rows", "rows")
    forms.choose("row-share", "Share one.txt")
    forms.heading("A link to one.txt")
    forms.open("bucket?name=rows", "rows")
    forms.choose("row-move", "Move, copy or rename", menu="More actions for one.txt")
    forms.heading("Move or copy 1 object")
    forms.open("bucket?name=rows", "rows")
    forms.choose("row-tag", "Tag", menu="More actions for one.txt")
    forms.heading("Tag 1 object")
    forms.open("bucket?name=rows", "rows")
    forms.choose("folder-archive", "Download", menu="Actions for the folder new/")
    forms.heading("Download 1 object")
    forms.open("bucket?name=rows", "rows")
    forms.choose("folder-move", "Move, copy or rename", menu="Actions for the folder new/")
    forms.heading("Move or copy 1 object")
    forms.open("bucket?name=rows", "rows")
    forms.choose("folder-delete", "Delete", menu="Actions for the folder new/")
    forms.heading("Delete 1 object")
    forms.send("confirm-delete", "Delete")
    page.get_by_role("link", name="new/", exact=True).wait_for(state="detached")
    forms.choose("row", "Delete one.txt")
    forms.heading("Delete 1 object")
    forms.send("confirm-delete", "Delete")
    page.get_by_text("There is nothing here.").wait_for()
    s3.put_object(Bucket="rows", Key="one.txt", Body=b"1")


def deleted_objects(forms, page, s3):
    forms.open("bucket?name=trash&deleted=1", "trash")
    forms.choose("row-restore", "Restore f/one.txt")
    page.get_by_text("1 object restored").wait_for()
    assert s3.get_object(Bucket="trash", Key="f/one.txt")["Body"].read() == b"1"
    forms.send("restore-selection", "Restore", "Select f/two.txt")
    page.get_by_label("Select f/two.txt").wait_for(state="detached")
    assert s3.get_object(Bucket="trash", Key="f/two.txt")["Body"].read() == b"1"
    forms.open("bucket?name=trash", "trash")
    forms.send("selection", "Delete", "Select the folder f/")
    forms.heading("Delete 2 objects")
    forms.send("confirm-delete", "Delete")
    forms.send("undo", "Undo")
    page.get_by_text("2 objects restored").wait_for()
    assert s3.get_object(Bucket="trash", Key="f/two.txt")["Body"].read() == b"1"
    forms.open("bucket?name=trash&deleted=1", "trash")
    forms.send("delete-for-good", "Delete for good", "Select f/three.txt")
    forms.heading("Delete 2 objects")
    forms.send("confirm-delete", "Delete")
    page.get_by_text("2 objects deleted").wait_for()
    versions = s3.list_object_versions(Bucket="trash")
    assert {version["Key"] for version in versions["Versions"]} == {"f/one.txt", "f/two.txt"}


def an_object(forms, page, s3):
    older = s3.list_object_versions(Bucket="box", Prefix="notes.txt")["Versions"][-1]["VersionId"]
    forms.open(f"object?bucket=box&key=notes.txt&version={older}", "notes.txt")
    forms.send("restore", "Make this version the current one")
    forms.until(lambda: len(s3.list_object_versions(Bucket="box", Prefix="notes.txt")["Versions"]) == 3)
    forms.open("object?bucket=box&key=notes.txt", "notes.txt")
    line = page.locator(".versions li").last
    forms.send("restore-version", re.compile("^Restore"), within=line)
    forms.until(lambda: len(s3.list_object_versions(Bucket="box", Prefix="notes.txt")["Versions"]) == 4)
    forms.open("object?bucket=box&key=notes.txt", "notes.txt")
    forms.send("metadata", "Save type and metadata", Type="text/x-new", Name="colour", Value="red")
    forms.until(lambda: s3.head_object(Bucket="box", Key="notes.txt")["Metadata"] == {"colour": "red"})
    forms.open("object?bucket=box&key=notes.txt", "notes.txt")
    forms.send("tags", "Save tags", Name="a=b", Value="c")
    page.get_by_text("Tag a=b").wait_for()
    assert s3.get_object_tagging(Bucket="box", Key="notes.txt")["TagSet"] == [dict(Key="a=b", Value="c")]
    forms.send("share", "Make a link")
    forms.heading("A link to notes.txt")
    forms.open("object?bucket=box&key=notes.txt", "notes.txt")
    forms.send("search-bucket", "Find", **{"Find in box": "SINGLE"})
    page.get_by_role("link", name="moved/single.txt", exact=True).wait_for()
    s3.put_object(Bucket="trash", Key="g/again.txt", Body=b"1")
    s3.delete_object(Bucket="trash", Key="g/again.txt")
    forms.open("object?bucket=trash&key=g/again.txt", "g/again.txt")
    forms.send("restore-deleted", "Restore")
    page.get_by_text("1 object restored").wait_for()
    assert s3.get_object(Bucket="trash", Key="g/again.txt")["Body"].read() == b"1"
    s3.delete_object(Bucket="trash", Key="g/again.txt")
    forms.open("object?bucket=trash&key=g/again.txt", "g/again.txt")
    forms.choose("delete-whole", "Delete for good …")
    forms.heading("Delete 2 objects")
    forms.open("object?bucket=held&key=k", "k")
    forms.send("retention", "Lock this version", **{"Days from now on": "1"})
    page.get_by_text("(governance)").wait_for()
    assert s3.get_object_retention(Bucket="held", Key="k")["Retention"]["Mode"] == "GOVERNANCE"
    forms.send("legal-hold", "Put a legal hold on")
    page.get_by_text("The legal hold is on").wait_for()
    forms.send("legal-hold", "Take the legal hold off")
    page.get_by_text("The legal hold is off").wait_for()
    forms.open("object?bucket=box&key=moved/single.txt", "moved/single.txt")
    forms.send("delete-object", "Delete …")
    forms.heading("Delete 1 object")
    forms.send("confirm-delete", "Delete")
    forms.heading("moved")
    forms.open("object?bucket=box&key=deleted.txt", "deleted.txt")
    forms.send("undelete", "Undelete …")
    forms.heading("Bring 1 deleted object back?")
    forms.send("confirm-delete", "Undelete")
    page.get_by_role("link", name="deleted.txt", exact=True).wait_for()
    assert s3.get_object(Bucket="box", Key="deleted.txt")["Body"].read() == b"deleted.txt"


def settings(forms, page, s3):
    forms.open("settings?name=box", "Settings of box")
    forms.send("quota", "Set the quota", **{"Most objects": "12345"})
    quota = f"{forms.browser.root}s3?bucket=box&quota="
    forms.until(lambda: forms.browser.context.request.get(quota).json()["quota"].get("objects") == 12345)
    forms.open("settings?name=box", "Settings of box")
    forms.send("versioning", "Suspend versioning")
    page.get_by_role("button", name="Turn versioning on", exact=True).wait_for()
    forms.send("versioning", "Turn versioning on")
    page.get_by_role("button", name="Suspend versioning").wait_for()
    assert s3.get_bucket_versioning(Bucket="box")["Status"] == "Enabled"
    forms.form("encryption").get_by_label("New objects").select_option("AES256")
    forms.send("encryption", "Set the encryption")
    forms.until(lambda: "AES256" in forms.browser.context.request.get(f"{forms.browser.root}s3?bucket=box&encryption=").text())
    forms.open("settings?name=box", "Settings of box")
    forms.send("public", "Make public")
    page.get_by_role("button", name="Turn public access off").wait_for()
    forms.send("public", "Turn public access off")
    page.get_by_role("button", name="Make public").wait_for()
    forms.send("bucket-tags", "Save tags", Name="team", Value="sea")
    page.get_by_text("Saved the tags").wait_for()
    assert s3.get_bucket_tagging(Bucket="box")["TagSet"] == [dict(Key="team", Value="sea")]
    forms.open("document?name=box&kind=policy", "Policy of box")
    forms.send("document", "Save the text", **{"JSON, as S3 has it": "{ not JSON"})
    forms.heading("Policy of box: not saved")
    assert page.get_by_label("JSON, as S3 has it").input_value() == "{ not JSON"
    forms.send("document-preview", "Preview …", **{"JSON, as S3 has it": json.dumps(policy_of("box"))})
    page.get_by_text("Nothing is changed yet.").wait_for()
    forms.send("draft", "Save")
    forms.heading("Settings of box")
    assert json.loads(s3.get_bucket_policy(Bucket="box")["Policy"]) == policy_of("box")
    forms.send("abort-upload", "Abort the upload of half.bin")
    page.get_by_text("half.bin").wait_for(state="detached")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="box")


def policy_of(bucket):
    resource = f"arn:aws:s3:::{bucket}/open/*"
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": resource}
    return {"Version": "2012-10-17", "Statement": [statement]}


TITLES = {
    "lifecycle": "Lifecycle rules",
    "cors": "CORS",
    "policy": "Policy",
    "object-lock": "Object lock",
    "website": "Website",
    "notification": "Notifications",
}


def rules(forms, page, s3):
    entered = {
        "lifecycle": {"Name of the rule": "first", "Days until objects expire": "365"},
        "cors": {"Origins, one a line": "https://app.example"},
        "policy": {"Keys that begin with (empty for all)": "open/"},
        "object-lock": {"Days (empty for no default)": "1"},
        "website": {"Index document of each folder": "index.html"},
        "notification": {"Name of the rule": "new"},
    }
    forms.open("settings?name=open", "Settings of open")
    assert set(re.findall(r"editor\?name=open&amp;kind=([a-z-]+)", page.content())) == set(entered), "an editor is missing here"
    for kind, fields in entered.items():
        bucket = "locked" if kind == "object-lock" else "open"
        forms.open(f"editor?name={bucket}&kind={kind}", f"{TITLES[kind]} of {bucket}")
        forms.send("rule", "Preview …", **fields)
        page.get_by_text("Nothing is changed yet.").wait_for()
        forms.send("draft-again", "Preview again")
        page.get_by_text("Nothing is changed yet.").wait_for()
        forms.send("draft", "Save")
        forms.heading(f"Settings of {bucket}")
    forms.open("settings?name=rows", "Settings of rows")
    forms.send("expiry", "Preview …", **{"Keys that begin with (empty for all)": "tmp/", "Days after which they are deleted": "30"})
    page.get_by_text("Nothing is changed yet.").wait_for()
    forms.send("draft", "Save")
    page.get_by_text("keys that begin with tmp/: objects expire after 30 days").wait_for()
    forms.open("editor?name=open&kind=lifecycle", "Lifecycle rules of open")
    forms.send("remove-rule", "Remove …")
    page.get_by_text("No rule would be left").wait_for()
    forms.send("draft", "Save")
    forms.heading("Settings of open")


def users(forms, page, s3):
    forms.open("users", "Users")
    forms.send("create-user", "Create", "Read, write and delete in the bucket", Name="camera", Bucket="box")
    forms.heading("Keys of camera")
    forms.open("users", "Users")
    card = page.get_by_role("region", name="camera")
    form = card.locator("form[data-form=grants]")
    forms.send("grants", "Save the permissions", within=form, **{"Permissions, a line each": "GetObject on box/*"})
    card.locator("pre").get_by_text("GetObject on box/*", exact=True).wait_for()
    forms.send("rotate-keys", "Make new keys", within=card.locator("form[data-form=rotate-keys]"))
    forms.heading("Keys of camera")
    forms.open("users", "Users")
    forms.send("end-keys", "End the previous keys", within=card.locator("form[data-form=end-keys]"))
    page.get_by_text("(previous)").wait_for(state="detached")
    forms.send("user-quota", "Set the quota", within=card.locator("form[data-form=user-quota]"), **{"Most buckets": "3"})
    page.get_by_text("Saved the quota of camera").wait_for()
    card.get_by_text("Quota: 0 of 3 buckets").wait_for()
    create = card.locator("form[data-form=create-user-key]")
    forms.send("create-user-key", "Make a further key", "It may only read", within=create, **{"Label of a further key": "camera-tablet"})
    forms.heading("Keys of camera-tablet")
    forms.open("users", "Users")
    forms.send("delete-user-key", "Delete the key", within=card.locator("form[data-form=delete-user-key]"))
    page.get_by_text("Saved the user camera").wait_for()
    page.get_by_role("link", name="camera", exact=True).wait_for()
    card.get_by_role("link", name="What it may do in each bucket").click()
    card.get_by_role("row", name="box", exact=False).get_by_text("yes").first.wait_for()
    form = card.locator("form[data-form=remove-user]")
    forms.send("remove-user", "Remove", "Remove the user; its buckets and objects stay", within=form)
    card.wait_for(state="detached")


def others(forms, page, s3):
    forms.open("rewind?bucket=back", "Rewind back")
    forms.send("rewind-time", "List the changes", Time="2020-01-01T00:00:01")
    page.get_by_role("heading", name=f"Removed by a delete marker: {REWOUND_AT_ONCE}").wait_for()
    forms.send("confirm-rewind", re.compile("^Rewind to"))
    if not forms.has_scripts:
        forms.heading("The rewind goes on")
        forms.send("rewind-further", "Go on with the rest")
    page.get_by_text(f"0 restored, {REWOUND_AT_ONCE + 1} removed by a delete marker.").wait_for()
    forms.sent.add("rewind-further")
    assert "Contents" not in s3.list_objects_v2(Bucket="back")
    forms.open("activity", "Activity")
    forms.form("activity-filter").get_by_label("Status").select_option("errors")
    forms.send("activity-filter", "Filter")
    page.get_by_text("The filters leave out").wait_for()
    forms.open("outbound", "Replication")
    forms.send("start-over", "Start over", "Remove from the target whatever is not here")
    page.get_by_role("region", name="Mirror away").wait_for()


def change_users(forms, server):
    """Signs out, and in as somebody who may not list the buckets."""
    page = forms.page
    forms.open("users", "Users")
    grants = {"Permissions, a line each": "ListBucket,GetObject on box,box/*"}
    forms.send("create-user", "Create", "The permissions below", Name="viewer", **grants)
    forms.heading("Keys of viewer")
    access_key, secret_key = [code.inner_text() for code in page.locator("dd code").all()]
    forms.send("sign-out", "Sign out")
    forms.heading("Sign in")
    forms.send("sign-in", "Sign in", **{"Access key": access_key, "Secret key": secret_key})
    page.get_by_text("The buckets cannot be listed").wait_for()
    forms.send("open-bucket", "Open", **{"Open a bucket by its name": "box"})
    page.get_by_role("link", name="kept.txt", exact=True).wait_for()
    account(forms, page, server, access_key, secret_key)


def account(forms, page, server, access_key, secret_key):
    """Makes a key of one's own and deletes it, and ends sessions of other browsers."""
    forms.open("account", "My account")
    forms.send("create-key", "Create the key", "It may only read", Label="viewer-phone")
    forms.heading("Keys of viewer-phone")
    phone = server.client(**dict(zip(("access_key", "secret_key"), [code.inner_text() for code in page.locator("dd code").all()])))
    assert phone.get_object(Bucket="box", Key="kept.txt")["Body"].read() == b"keep.txt"
    forms.open("account", "My account")
    forms.send("replace-key", "Replace the key viewer-phone")
    forms.heading("Keys of viewer-phone-2")
    replaced = server.client(**dict(zip(("access_key", "secret_key"), [code.inner_text() for code in page.locator("dd code").all()])))
    for client in [phone, replaced]:
        assert client.get_object(Bucket="box", Key="kept.txt")["Body"].read() == b"keep.txt"
        assert refusal(client.put_object, Bucket="box", Key="kept.txt", Body=b"") == ("AccessDenied", 403)
    forms.send("end-replaced", "Delete the old key")
    page.get_by_text("Deleted the access key viewer-phone").wait_for()
    assert refusal(phone.get_object, Bucket="box", Key="kept.txt") == ("InvalidAccessKeyId", 403)
    assert replaced.get_object(Bucket="box", Key="kept.txt")["Body"].read() == b"keep.txt"
    forms.open("account", "My account")
    forms.send("delete-key", "Delete the key")
    page.get_by_text("Deleted the access key viewer-phone-2").wait_for()
    assert refusal(replaced.get_object, Bucket="box", Key="kept.txt") == ("InvalidAccessKeyId", 403)
    for form, button in [("end-session", re.compile("^End the session of ")), ("end-others", "End all other sessions")]:
        elsewhere = signed_in_elsewhere(server, access_key, secret_key)
        forms.open("account", "My account")
        forms.send(form, button)
        page.get_by_text(re.compile("^Ended ")).wait_for()
        assert "<h1>Sign in</h1>" in elsewhere()
    page.get_by_text("this session", exact=True).wait_for()
    forms.send("page-keys", "Turn the single keys off")
    page.get_by_text("The single keys are off", exact=True).wait_for()
    forms.send("page-keys", "Turn the single keys on")
    page.get_by_text("The single keys are on", exact=True).wait_for()


def signed_in_elsewhere(server, access_key, secret_key):
    """Signs in without a browser, and returns what its next look shows."""
    jar = urllib.request.HTTPCookieProcessor()
    opener = urllib.request.build_opener(jar)
    root = f"{server.url}/-/console/"
    fields = urllib.parse.urlencode(dict(access_key=access_key, secret_key=secret_key)).encode()
    opener.open(urllib.request.Request(f"{root}sign-in", fields, {"Origin": server.url})).read()

    def look():
        try:
            return opener.open(f"{root}account").read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    assert "<h1>My account</h1>" in look()
    return look


# Each goes through all forms, which takes minutes: an ordinary run goes two of the ways.
WAYS = drawn(["during an upload", "without an upload", "by keyboard", "without scripts"], 2)


def skip_unless_drawn(way):
    if way not in WAYS:
        leave_out(" and ".join(WAYS))


def test_every_form_works_during_an_upload(each_browser, stage, tmp_path):
    skip_unless_drawn("during an upload")
    spare(each_browser, "chromium")
    proxy = HoldingProxy(stage)
    path = tmp_path / "held.bin"
    path.write_bytes(b"held" * 1024)
    for visit in visits_of(each_browser, stage):
        forms = FormsDuringUpload(visit(origin=proxy.url).sign_in(), Mouse)
        forms.begin("bucket?name=ups", path)
        fill_in_all(forms, stage)
        proxy.let_go()
        uploaded(forms.page, 1)
        assert stage.client().get_object(Bucket="ups", Key="held.bin")["Body"].read() == path.read_bytes()
        proxy.hold()
        forms.begin("bucket?name=many", path)
        change_users(forms, stage)
        forms.assert_goes_on()
        # A document with an upload asks before it is left.
        forms.page.get_by_role("button", name="Cancel all").click()
    proxy.close()
    assert forms.sent == forms_of_templates()


def fill_in_every_form(forms, server):
    fill_in_all(forms, server)
    change_users(forms, server)
    assert forms.sent == forms_of_templates()


def test_every_form_works_without_an_upload(each_browser, visit_in_each, stage):
    skip_unless_drawn("without an upload")
    spare(each_browser, "firefox")
    fill_in_every_form(Forms(visit_in_each(stage).sign_in(), Mouse), stage)


# In Firefox a download takes the focus, and no visit can be without scripts.


def test_every_form_works_by_keyboard(visit, stage):
    skip_unless_drawn("by keyboard")
    fill_in_every_form(Forms(visit(stage).sign_in(), Keyboard), stage)


def test_every_form_works_without_scripts(visit, stage):
    skip_unless_drawn("without scripts")
    browser = visit(stage, java_script_enabled=False).sign_in()
    fill_in_every_form(Forms(browser, Mouse, has_scripts=False), stage)
