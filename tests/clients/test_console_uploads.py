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
    assert "quota" in folder.locator("#uploads li em").first.inner_text().lower()
    assert administrator.page.evaluate(quota, [address, "{}"]) == 200
    folder.get_by_role("button", name="Try all 2 again").click()
    uploaded(folder, 2)
    assert contents(s3, bucket) == {"a.txt": "after", "b.txt": "after"}


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
