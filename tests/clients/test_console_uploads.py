"""Uploads that do not go as they should: names that are taken, refusals, a pause."""

import pytest

from visits import PATIENCE_MILLIS, HoldingProxy, uploaded

pytest.importorskip("playwright.sync_api")

MIB = 1024 * 1024


def contents(s3, bucket):
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
    return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in keys}


@pytest.fixture
def folder(visit, bucket):
    browser = visit().sign_in()
    browser.page.goto(f"{browser.root}bucket?name={bucket}")
    return browser.page


def choose(page, tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("after")
    page.get_by_label("Upload files").set_input_files([tmp_path / name for name in names])


@pytest.mark.parametrize("button, expected", [
    ("Replace the 2 that exist", {"a.txt": "after", "b": "after", "c.txt": "after"}),
    ("Keep both", {"a.txt": "before", "a (2).txt": "before", "a (3).txt": "after", "b": "before", "b (2)": "after", "c.txt": "after"}),
    ("Leave them out", {"a.txt": "before", "b": "before", "c.txt": "after"}),
])
def test_taken_names_are_decided_together(folder, s3, bucket, tmp_path, button, expected):
    for key in ["a.txt", "b", *(["a (2).txt"] if button == "Keep both" else [])]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"before")
    choose(folder, tmp_path, ["a.txt", "b", "c.txt"])
    folder.get_by_text("Uploaded 1 of 3 files (33 %), 2 not uploaded").wait_for()
    folder.get_by_role("button", name=button, exact=True).click()
    uploaded(folder, 1 if button == "Leave them out" else 3)
    assert contents(s3, bucket) == expected
    folder.get_by_role("button", name="Close", exact=True).click()
    folder.locator("#uploads").wait_for(state="hidden")


def test_refused_files_say_why_and_are_tried_again_together(folder, visit, s3, bucket, tmp_path):
    administrator = visit().sign_in()
    quota = "([address, body]) => fetch(address, { method: 'PUT', body }).then((response) => response.status)"
    address = f"{administrator.root}s3?bucket={bucket}&quota="
    assert administrator.page.evaluate(quota, [address, '{"objects": 0}']) == 200
    choose(folder, tmp_path, ["a.txt", "b.txt"])
    folder.get_by_text("Uploaded 0 of 2 files (0 %), 2 not uploaded").wait_for()
    reason = folder.locator("#uploads li em").first
    assert "quota" in reason.inner_text().lower() and "(2 files)" in reason.inner_text()
    # In vain: they stand together again.
    with folder.expect_response(lambda response: response.status == 403):
        folder.get_by_role("button", name="Try these 2 again").click()
    folder.get_by_text("Uploaded 0 of 2 files (0 %), 2 not uploaded").wait_for()
    folder.get_by_role("button", name="Try these 2 again").wait_for()
    assert administrator.page.evaluate(quota, [address, "{}"]) == 200
    folder.get_by_role("button", name="Try all 2 again").click()
    uploaded(folder, 2)
    assert folder.locator("#uploads li").count() == 0
    assert contents(s3, bucket) == {"a.txt": "after", "b.txt": "after"}


def test_failures_stand_together_by_their_reasons(folder, s3, bucket, tmp_path):
    for key in ["taken-1", "taken-2"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"before")
    # Two more that the server refuses: the one that is asked last by itself.
    folder.route("**/s3?*key=lost*", lambda route: route.fulfill(status=400, content_type="application/xml", body="<Error><Message>Nobody takes this.</Message></Error>"))
    choose(folder, tmp_path, ["taken-1", "lost-1", "taken-2", "lost-2", "good"])
    folder.get_by_text("Uploaded 1 of 5 files (20 %), 4 not uploaded").wait_for()
    reasons = folder.locator("#uploads > ul > li")
    assert sorted(text.split("(")[0].strip() for text in reasons.locator("em").all_inner_texts() if text) == ["Nobody takes this.", "There is an object of this name."]
    lost = reasons.filter(has_text="Nobody takes this.")
    assert sorted(lost.locator("li span").all_inner_texts()) == ["lost-1", "lost-2"]
    # Those whose names are taken have buttons of their own.
    assert not reasons.filter(has_text="of this name").get_by_role("button", name="Try these").is_visible()
    folder.unroute("**/s3?*key=lost*")
    lost.get_by_role("button", name="Try these 2 again").click()
    folder.get_by_text("Uploaded 3 of 5 files (60 %), 2 not uploaded").wait_for()
    folder.get_by_role("button", name="Replace taken-1").click()
    folder.get_by_text("Uploaded 4 of 5 files (80 %), 1 not uploaded").wait_for()
    assert folder.get_by_text("There is an object of this name.", exact=True).is_visible()
    folder.get_by_role("button", name="Leave them out").click()
    assert reasons.count() == 0
    assert contents(s3, bucket) == {"good": "after", "lost-1": "after", "lost-2": "after", "taken-1": "after", "taken-2": "before"}


def test_an_upload_rests_and_goes_on_where_it_was(visit, server, s3, bucket, tmp_path):
    proxy = HoldingProxy(server)
    browser = visit(origin=proxy.url).sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name={bucket}")
    path = tmp_path / "large.bin"
    path.write_bytes(bytes(range(256)) * (20 * MIB // 256))
    page.get_by_label("Upload files").set_input_files(path)
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_text("Uploaded 0 of 1 files", exact=False).filter(has_text="paused").wait_for()
    proxy.let_go()

    def parts():
        uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        return [len(s3.list_parts(Bucket=bucket, Key="large.bin", UploadId=upload["UploadId"]).get("Parts", [])) for upload in uploads]

    # At most the piece gets through that was on its way; a browser asks before such a page is left.
    page.wait_for_timeout(1_000)
    assert parts() in [[], [0], [1]]
    assert page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))") is False
    page.get_by_role("button", name="Go on", exact=True).click()
    uploaded(page, 1, PATIENCE_MILLIS)
    assert s3.get_object(Bucket=bucket, Key="large.bin")["Body"].read() == path.read_bytes()
    assert page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))") is True
    proxy.close()
