"""The console in headless Chromium: what people do, with scripts and without, and that no page breaks its content security policy."""

import datetime
import gzip
import hashlib
import http.server
import json
import os
import re
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from siltstone import ACCESS_KEY, SECRET_KEY
from test_objects import refusal
from visits import PATIENCE_MILLIS, screenshot, uploaded

MIB = 1024 * 1024
# Larger by hand: 10_000 files, 2048 MiB.
FOLDER_FILES = int(os.environ.get("SILTSTONE_TEST_FILES", 1_000))
LARGE_MIB = int(os.environ.get("SILTSTONE_TEST_LARGE_MIB", 96))
PART_MIB = 8


def make_large_file(path):
    """A sparse file in which each MiB begins with its number."""
    with open(path, "wb") as file:
        for mib in range(LARGE_MIB):
            file.seek(mib * MIB)
            file.write(b"MiB %08d." % mib)
        file.truncate(LARGE_MIB * MIB)
    return path


def sha256(file):
    return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_object(server, bucket, key):
    digest = hashlib.sha256()
    for piece in server.client().get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(MIB):
        digest.update(piece)
    return digest.hexdigest()


def stored_parts(access_log):
    """The numbers of the parts that a server took, by its access log."""
    lines = [json.loads(line) for line in access_log.read_text().splitlines()]
    taken = [line["query"] for line in lines if line["operation"] == "UploadPart" and line["status"] == 200]
    return [int(re.search(r"partNumber=(\d+)", query)[1]) for query in taken]


def wait_for_upload(page, mib):
    # The pages forbid the evaluation of text, which Playwright's own wait for a condition needs.
    while page.evaluate("document.querySelector('#uploads progress')?.value ?? 0") < mib * MIB:
        page.wait_for_timeout(50)


def slow_down(browser, page, mib):
    """Limits uploads to so many MiB a second."""
    session = browser.context.new_cdp_session(page)
    session.send("Network.enable")
    limits = dict(offline=False, latency=0, downloadThroughput=-1, uploadThroughput=mib * MIB)
    session.send("Network.emulateNetworkConditions", limits)


def test_the_first_steps_of_a_user(visit, s3, tmp_path):
    browser = visit().sign_in()
    page = browser.page
    page.get_by_text("Create bucket").click()
    page.get_by_label("Name").fill("first-steps")
    page.get_by_role("button", name="Create").click()
    page.get_by_text("There is nothing here.").wait_for()
    (tmp_path / "hello.txt").write_text("hello <world>")
    page.get_by_label("Upload files").set_input_files(tmp_path / "hello.txt")
    page.get_by_role("link", name="hello.txt", exact=True).click()
    page.get_by_text("hello <world>").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert Path(download.value.path()).read_text() == "hello <world>"
    assert download.value.suggested_filename == "hello.txt"
    screenshot(page, "object")
    assert s3.get_object(Bucket="first-steps", Key="hello.txt")["Body"].read() == b"hello <world>"
    page.goto(browser.root + "connect")
    page.get_by_text("rclone config create").wait_for()
    screenshot(page, "connect")
    page.goto(browser.root + "state")
    page.get_by_text("The server takes writes.").wait_for()
    screenshot(page, "state")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    screenshot(page, "sign-in")
    page.go_back()
    page.reload()
    page.get_by_role("heading", name="Sign in").wait_for()


def test_folders_are_uploaded_browsed_and_deleted(visit, s3, bucket, tmp_path):
    keys = [f"photos/{year}/{n}.txt" for year in (2025, 2026) for n in range(20)]
    for key in keys:
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(key)
    browser = visit().sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name={bucket}")
    page.get_by_label("Upload a folder").set_input_files(tmp_path / "photos")
    uploaded(page, 40)
    page.get_by_role("link", name="photos/", exact=True).click()
    screenshot(page, "bucket")
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == sorted(keys)
    page.get_by_label("Select the folder 2025/").check()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("heading", name="Delete 20 objects").wait_for()
    screenshot(page, "delete")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("link", name="2026/", exact=True).wait_for()
    assert len(s3.list_objects_v2(Bucket=bucket)["Contents"]) == 20


def test_names_of_files_are_text(visit, s3, bucket, tmp_path):
    names = ["<img src=x onerror=alert(1)>.txt", "a&b \"quoted\" 'x'.txt", "photo\u202egnp.exe", "ü+%23#?.txt"]
    for name in names:
        (tmp_path / name).write_text(name)
    browser = visit().sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name={bucket}")
    page.get_by_label("Upload files").set_input_files([tmp_path / name for name in names])
    page.get_by_role("link", name="ü+%23#?.txt", exact=True).wait_for()
    assert sorted(o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]) == sorted(names)
    for name in names:
        page.goto(f"{browser.root}bucket?name={bucket}")
        page.get_by_role("link", name=name.replace("\u202e", "⟨U+202E⟩"), exact=True).click()
        page.get_by_role("link", name="Download").wait_for()
    page.goto(f"{browser.root}bucket?name={bucket}")
    for box in page.locator("tbody input").all():
        box.check()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_text("There is nothing here.").wait_for()


def drop(browser, page, paths):
    """Drops files and folders of the host on the page, as a file manager does."""
    session = browser.context.new_cdp_session(page)
    data = dict(items=[], files=[str(path) for path in paths], dragOperationsMask=1)
    for kind in ["dragEnter", "dragOver", "drop"]:
        session.send("Input.dispatchDragEvent", dict(type=kind, x=200, y=200, data=data))


def test_a_folder_of_many_files_is_dropped(visit, own_server, tmp_path):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="many")
    names = [f"many/{n % 4}/file-{n:05}.txt" for n in range(FOLDER_FILES)]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "single.txt").write_text("single")
    browser = visit(server).sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name=many")
    drop(browser, page, [tmp_path / "many", tmp_path / "single.txt"])
    uploaded(page, FOLDER_FILES + 1, PATIENCE_MILLIS + 50 * FOLDER_FILES)
    page.get_by_role("link", name="many/", exact=True).wait_for()
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="many")
    found = {o["Key"]: (o["Size"], o["ETag"]) for answer in pages for o in answer["Contents"]}
    etags = {name: (len(name), f'"{hashlib.md5(name.encode()).hexdigest()}"') for name in names}
    assert found == etags | {"single.txt": (6, f'"{hashlib.md5(b"single").hexdigest()}"')}


def test_an_upload_goes_on_after_a_crash_of_the_server_and_while_pages_change(visit, own_server, tmp_path):
    path, log = "/-/console/of/box/", tmp_path / "access.log"
    server = own_server("--console-path", path, "--access-log", str(log), "--access-log-format", "json").start()
    server.client().create_bucket(Bucket="large")
    large = make_large_file(tmp_path / "large.bin")
    browser = visit(server, path=path).sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name=large")
    slow_down(browser, page, 64)
    page.get_by_label("Upload files").set_input_files(large)
    wait_for_upload(page, LARGE_MIB / 3)
    page.get_by_role("link", name="Connect").click()
    page.get_by_role("heading", name="Connect a client").wait_for()
    server.kill()
    before = stored_parts(log)
    server.start()
    page.get_by_text("Sign in again in another tab to go on.").wait_for()
    browser.sign_in(browser.open_page())
    uploaded(page, 1, PATIENCE_MILLIS + 1000 * LARGE_MIB)
    with open(large, "rb") as file:
        assert sha256_of_object(server, "large", "large.bin") == sha256(file)
    assert "Uploads" not in server.client().list_multipart_uploads(Bucket="large")
    count = -(-LARGE_MIB // PART_MIB)
    parts = stored_parts(log)
    assert 1 < len(before) < count and sorted(set(parts)) == list(range(1, count + 1))
    # The response to one part may have been lost.
    assert len(parts) <= count + 1


def test_an_upload_goes_on_when_the_file_is_chosen_again(visit, own_server, tmp_path):
    log = tmp_path / "access.log"
    server = own_server("--access-log", str(log), "--access-log-format", "json").start()
    server.client().create_bucket(Bucket="large")
    large = make_large_file(tmp_path / "large.bin")
    browser = visit(server).sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name=large")
    slow_down(browser, page, 64)
    page.get_by_label("Upload files").set_input_files(large)
    wait_for_upload(page, LARGE_MIB / 3)
    page.close()
    page = browser.open_page()
    page.goto(f"{browser.root}bucket?name=large")
    page.get_by_label("Upload files").set_input_files(large)
    uploaded(page, 1, PATIENCE_MILLIS + 1000 * LARGE_MIB)
    with open(large, "rb") as file:
        assert sha256_of_object(server, "large", "large.bin") == sha256(file)
    assert '"ListParts"' in log.read_text() and len(stored_parts(log)) <= -(-LARGE_MIB // PART_MIB) + 1


def test_pages_are_read_without_scripts_and_on_a_phone(visit, s3, bucket):
    s3.put_object(Bucket=bucket, Key="folder/notes.txt", Body=b"read me", ContentType="text/plain")
    s3.put_object(Bucket=bucket, Key="long-" + 60 * "name", Body=b"x")
    browser = visit(java_script_enabled=False, viewport={"width": 360, "height": 640}).sign_in()
    page = browser.page
    page.get_by_role("link", name=bucket, exact=True).click()
    screenshot(page, "phone")
    page.get_by_role("link", name="folder/", exact=True).click()
    page.get_by_role("link", name="notes.txt", exact=True).click()
    page.get_by_text("read me").wait_for()
    page.get_by_text("Share").click()
    page.get_by_role("button", name="Make a link").click()
    url = page.get_by_label("Everyone who has it").input_value()
    assert url.startswith(browser.server.url)
    narrow = visit(viewport={"width": 360, "height": 640}).sign_in()
    for address in ["", f"bucket?name={bucket}", f"object?bucket={bucket}&key=folder%2Fnotes.txt", "connect", "state", "outbound", f"rewind?bucket={bucket}", f"settings?name={bucket}", *(f"editor?name={bucket}&kind={kind}" for kind in ["lifecycle", "cors", "policy", "object-lock", "website", "notification"]), f"document?name={bucket}&kind=policy"]:
        narrow.page.goto(narrow.root + address)
        assert narrow.page.evaluate("document.documentElement.scrollWidth") <= 360, address


def test_pages_are_used_with_the_keyboard(visit, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    browser = visit()
    page = browser.page
    page.goto(browser.root)
    # The browser gives the first field the focus some time after the page is there.
    page.locator("#access_key:focus, [name=access_key]:focus").wait_for()
    page.keyboard.type(ACCESS_KEY)
    page.keyboard.press("Tab")
    page.keyboard.type(SECRET_KEY)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Buckets").wait_for()
    # The first stop of every page leads to its content.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    while page.evaluate("document.activeElement.textContent") != bucket:
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    box = page.get_by_label("Select k")
    box.focus()
    page.keyboard.press("Space")
    assert box.is_checked()


def test_a_page_at_another_port_of_the_host_changes_nothing(visit, server, s3):
    page = b"""<!doctype html><form method=post action="%s/-/console/create-bucket"><input name=name value=forged></form>
        <script>document.forms[0].submit()</script>""" % server.url.encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            pass

    evil = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=evil.serve_forever, daemon=True).start()
    browser = visit().sign_in()
    other = browser.context.new_page()
    other.goto(f"http://127.0.0.1:{evil.server_port}/")
    other.get_by_text("This request came from a page of another origin.").wait_for()
    evil.shutdown()
    assert "forged" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]


def test_objects_are_downloaded_as_one_archive(visit, s3, bucket):
    keys = ["at/notes.txt", "at/" + "long" * 40, "at/ü/日本.txt", "at/../../evil"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    browser = visit().sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name={bucket}")
    page.get_by_label("Select the folder at/").check()
    page.get_by_role("button", name="Download", exact=True).click()
    page.get_by_role("heading", name="Download 4 objects").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download tar").click()
    assert download.value.suggested_filename == f"{bucket}.tar"
    with tarfile.open(download.value.path()) as archive:
        found = {entry.name: archive.extractfile(entry).read().decode() for entry in archive}
    assert found == {key.replace("..", "__"): key for key in keys}
    with page.expect_download() as download:
        page.get_by_role("button", name="Download zip").click()
    assert download.value.suggested_filename == f"{bucket}.zip"
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name).decode() for name in archive.namelist()} == found


def test_a_long_rewind_goes_on_by_itself(visit, s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for n in range(250):
        s3.put_object(Bucket=bucket, Key=f"k{n:03}", Body=b"x")
    browser = visit().sign_in()
    page = browser.page
    page.goto(f"{browser.root}rewind?bucket={bucket}")
    page.get_by_label("Time", exact=True).fill("2020-01-01T00:00:01")
    page.get_by_role("button", name="List the changes").click()
    page.get_by_role("heading", name="Removed by a delete marker: 200").wait_for()
    screenshot(page, "rewind")
    page.get_by_role("button", name="Rewind to").click()
    page.get_by_text("0 restored, 250 removed by a delete marker.").wait_for()
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_the_pages_are_light(visit):
    browser = visit()
    sizes = {}
    browser.page.on("response", lambda response: sizes.update({response.url: len(gzip.compress(response.body()))}))
    browser.sign_in()
    browser.page.wait_for_load_state("networkidle")
    assert len(sizes) >= 4 and sum(sizes.values()) < 60_000, sizes


def test_an_administrator_makes_rotates_and_removes_a_user(visit, server, bucket, s3):
    browser = visit().sign_in()
    page = browser.page
    page.get_by_role("link", name="Users").click()
    page.get_by_label("Name").fill("camera")
    page.get_by_label("Read the bucket and add objects").check()
    page.get_by_label("Bucket", exact=True).fill(bucket)
    page.get_by_role("button", name="Create").click()

    def shown_keys():
        page.get_by_role("heading", name="Keys of camera").wait_for()
        return [code.inner_text() for code in page.locator("dd code").all()]

    first = server.client(**dict(zip(("access_key", "secret_key"), shown_keys())))
    first.put_object(Bucket=bucket, Key="one", Body=b"1")
    assert refusal(first.delete_object, Bucket=bucket, Key="one") == ("AccessDenied", 403)
    page.get_by_role("link", name="Back to the users").click()
    card = page.get_by_role("region", name="camera")
    card.get_by_text("Change").click()
    screenshot(page, "users")
    card.get_by_role("button", name="Make new keys").click()
    second = server.client(**dict(zip(("access_key", "secret_key"), shown_keys())))
    for client in (first, second):
        client.get_object(Bucket=bucket, Key="one")
    page.get_by_role("link", name="Back to the users").click()
    card.get_by_text("Change").click()
    card.get_by_role("button", name="End the previous keys").click()
    page.get_by_text("(previous)").wait_for(state="detached")
    assert refusal(first.get_object, Bucket=bucket, Key="one")[0] == "InvalidAccessKeyId"
    second.get_object(Bucket=bucket, Key="one")
    card.get_by_text("Change").click()
    card.get_by_label("Remove the user").check()
    card.get_by_role("button", name="Remove").click()
    card.wait_for(state="detached")
    assert refusal(second.get_object, Bucket=bucket, Key="one")[0] == "InvalidAccessKeyId"


@pytest.mark.parametrize("has_scripts", [True, False])
def test_new_keys_are_saved_as_a_file_without_a_request(visit, own_server, has_scripts):
    server = own_server().start()
    server.client().create_bucket(Bucket="photos")
    browser = visit(server, java_script_enabled=has_scripts).sign_in()
    page = browser.page
    page.goto(f"{browser.root}users")
    page.get_by_label("Read the bucket and add objects").check()
    page.locator("form[data-form=create-user]").get_by_label("Name", exact=True).fill('ada "of" ü')
    page.get_by_label("Bucket", exact=True).fill("photos")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name='Keys of ada "of" ü', level=1).wait_for()
    access_key, secret_key = [code.inner_text() for code in page.locator("dd code").all()]
    shown = page.locator("pre").first.inner_text()
    assert f"export AWS_SECRET_ACCESS_KEY={secret_key}" in shown
    save = page.get_by_role("button", name="Download as .env")
    if not has_scripts:
        assert save.count() == 0
        return
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    with page.expect_download() as begun:
        save.click()
    assert begun.value.suggested_filename.endswith(".env")
    lines = Path(begun.value.path()).read_text().splitlines()
    assert lines == [line.removeprefix("export ") for line in shown.splitlines()]
    saved = dict(line.split("=", 1) for line in lines)
    client = server.client(access_key=saved["AWS_ACCESS_KEY_ID"], secret_key=saved["AWS_SECRET_ACCESS_KEY"])
    client.put_object(Bucket="photos", Key="k", Body=b"x")
    assert [url for url in requests if not url.startswith("blob:")] == [] and secret_key not in page.url


def test_expiry_rules_say_when_they_run_next(visit, own_server):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="tidy")
    rule = {"ID": "old", "Filter": {"Prefix": "tmp/"}, "Status": "Enabled", "Expiration": {"Days": 30}}
    s3.put_bucket_lifecycle_configuration(Bucket="tidy", LifecycleConfiguration={"Rules": [rule]})
    browser = visit(server).sign_in()
    browser.page.goto(f"{browser.root}settings?name=tidy")
    browser.page.get_by_text(re.compile("Next run (within a minute|about)")).wait_for()
    # The rules run at a start, and an hour after it.
    server.stop()
    server.start()
    browser = visit(server).sign_in()
    page = browser.page
    next_run = page.get_by_text(re.compile("Next run about")).locator("time")
    while not next_run.count():
        page.goto(f"{browser.root}settings?name=tidy")
    at = datetime.datetime.fromisoformat(next_run.get_attribute("datetime"))
    left = at - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(minutes=50) < left <= datetime.timedelta(minutes=61)
    assert re.fullmatch(r"\d?\d:\d\d( [AP]M)? (today|tomorrow)", next_run.inner_text())


def test_forms_work_while_a_file_is_uploaded(visit, own_server, tmp_path):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="large")
    for key in ["keep.txt", "notes.txt"]:
        s3.put_object(Bucket="large", Key=key, Body=b"text", ContentType="text/plain")
    large = make_large_file(tmp_path / "large.bin")
    browser = visit(server).sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name=large")
    slow_down(browser, page, 16)
    page.get_by_label("Upload files").set_input_files(large)
    wait_for_upload(page, 2)
    page.get_by_label("Find here and below").fill("no")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="keep.txt", exact=True).wait_for(state="detached")
    page.get_by_role("link", name="notes.txt", exact=True).click()
    page.get_by_text("Edit type, metadata and tags").click()
    tags = page.get_by_role("group", name="Tags")
    tags.get_by_label("Name").first.fill("a=b")
    tags.get_by_label("Value").first.fill("c")
    page.get_by_role("button", name="Save tags").click()
    page.get_by_text("Tag a=b").wait_for()
    assert s3.get_object_tagging(Bucket="large", Key="notes.txt")["TagSet"] == [dict(Key="a=b", Value="c")]
    page.get_by_text("Share", exact=True).click()
    page.get_by_role("button", name="Make a link").click()
    page.get_by_role("heading", name="A link to notes.txt").wait_for()
    page.get_by_role("link", name="Buckets").click()
    page.get_by_text("Create bucket").click()
    page.get_by_label("Name").fill("another")
    page.get_by_role("button", name="Create").click()
    page.get_by_text("There is nothing here.").wait_for()
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Turn versioning on").click()
    page.get_by_role("button", name="Suspend versioning").wait_for()
    assert s3.get_bucket_versioning(Bucket="another")["Status"] == "Enabled"
    page.get_by_role("link", name="Buckets").first.click()
    page.get_by_role("link", name="large").click()
    page.get_by_label("Select notes.txt").check()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("heading", name="Delete 1 object").wait_for()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("link", name="notes.txt", exact=True).wait_for(state="detached")
    page.get_by_role("link", name="keep.txt", exact=True).wait_for()
    page.get_by_text("large.bin").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    other = browser.open_page()
    other.goto(f"{browser.root}state")
    other.get_by_role("heading", name="Sign in").wait_for()


def test_an_upload_replaces_nothing_unasked(visit, s3, bucket, tmp_path):
    s3.put_object(Bucket=bucket, Key="hello.txt", Body=b"before")
    (tmp_path / "hello.txt").write_text("after")
    browser = visit().sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name={bucket}")
    page.get_by_label("Upload files").set_input_files(tmp_path / "hello.txt")
    page.get_by_text("There is an object of this name.").wait_for()
    assert s3.get_object(Bucket=bucket, Key="hello.txt")["Body"].read() == b"before"
    page.get_by_role("button", name="Replace hello.txt").click()
    uploaded(page, 1)
    assert s3.get_object(Bucket=bucket, Key="hello.txt")["Body"].read() == b"after"


def test_the_skip_link_keeps_the_focus_in_the_content(visit, s3, bucket):
    browser = visit().sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name={bucket}")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_timeout(500)
    assert page.evaluate("document.activeElement.id") == "main"
