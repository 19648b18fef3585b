"""How the console looks and how far away things are: pictures of each page as artefacts, the place of the first file."""

import io
import re
import struct
import zlib

import pytest
import zxingcpp
from PIL import Image

from siltstone import ROOT
from visits import DESKTOP, PHONE, SCREENSHOTS

TABLET = {"width": 768, "height": 1024}
SIZES = {"desktop": DESKTOP, "tablet": TABLET, "phone": PHONE}


def picture(width, height, shade):
    """A PNG image of one colour."""
    row = b"\0" + bytes(shade) * width
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(row * height)),
        (b"IEND", b""),
    ]
    lines = [struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(lines)


@pytest.fixture(scope="module")
def shelf(server, s3):
    """A bucket as people have them."""
    s3.create_bucket(Bucket="holiday")
    s3.put_bucket_versioning(Bucket="holiday", VersioningConfiguration={"Status": "Enabled"})
    shades = [(200, 90, 60), (60, 130, 200), (90, 170, 90), (220, 180, 60)]
    for number, shade in enumerate(shades):
        s3.put_object(Bucket="holiday", Key=f"2026/lake-{number}.png", Body=picture(320, 240, shade), ContentType="image/png")
    files = {
        "2026/notes.txt": ("text/plain", b"Bring the boat back.\nAsk for the key.\n"),
        "2026/route.gpx": ("application/xml", b"<gpx/>"),
        "2026/song.mp3": ("audio/mpeg", b"ID3" + bytes(90_000)),
        "2026/film.mp4": ("video/mp4", bytes(300_000)),
        "2026/all.zip": ("application/zip", bytes(150_000)),
        "2026/a name that is rather long because somebody described the whole day in it.pdf": ("application/pdf", b"%PDF-1.4"),
        "2026/raw/one.dng": ("image/x-adobe-dng", bytes(70_000)),
        "2025/one.txt": ("text/plain", b"1"),
    }
    for key, (content_type, body) in files.items():
        s3.put_object(Bucket="holiday", Key=key, Body=body, ContentType=content_type, Metadata={"camera": "X100"})
    for number in range(12):
        s3.put_object(Bucket="holiday", Key=f"2026/thrown-away-{number:02}.txt", Body=b"x" * number)
        s3.delete_object(Bucket="holiday", Key=f"2026/thrown-away-{number:02}.txt")
    s3.create_bucket(Bucket="empty")
    s3.put_bucket_tagging(Bucket="holiday", Tagging={"TagSet": [{"Key": "team", "Value": "sailors"}]})
    cors = {"AllowedOrigins": ["https://lake.example", "https://boats.example"], "AllowedMethods": ["GET", "HEAD", "PUT"]}
    s3.put_bucket_cors(Bucket="holiday", CORSConfiguration={"CORSRules": [cors]})
    rules = [
        {"ID": "tidy up what nobody asked for in a long time", "Filter": {"Prefix": "tmp/"}, "Status": "Enabled", "Expiration": {"Days": 30}},
        {"ID": "versions", "Filter": {"Prefix": ""}, "Status": "Disabled", "NoncurrentVersionExpiration": {"NoncurrentDays": 90}},
    ]
    s3.put_bucket_lifecycle_configuration(Bucket="holiday", LifecycleConfiguration={"Rules": rules})
    s3.put_bucket_website(Bucket="holiday", WebsiteConfiguration={"IndexDocument": {"Suffix": "index.html"}})
    return "holiday"


PAGES = {
    "buckets": "",
    "folder": "bucket?name=holiday&prefix=2026%2F",
    "folder-newest": "bucket?name=holiday&prefix=2026%2F&sort=new",
    "folder-versions": "bucket?name=holiday&prefix=2026%2F&versions=1",
    "folder-deleted": "bucket?name=holiday&prefix=2026%2F&deleted=1",
    "folder-deleted-none": "bucket?name=holiday&prefix=2025%2F&deleted=1",
    "found": "bucket?name=holiday&find=one",
    "found-kind": "bucket?name=holiday&kind=image",
    "found-nothing": "bucket?name=holiday&find=submarine",
    "folder-empty": "bucket?name=empty",
    "file": "object?bucket=holiday&key=2026%2Flake-1.png",
    "file-text": "object?bucket=holiday&key=2026%2Fnotes.txt",
    "file-without-preview": "object?bucket=holiday&key=2026%2Fall.zip",
    "file-deleted": "object?bucket=holiday&key=2026%2Fthrown-away-01.txt",
    "settings": "settings?name=holiday",
    "settings-with-users-and-effect": "settings?name=holiday&users=1&effect=1",
    "settings-of-an-empty-bucket": "settings?name=empty",
    "document": "document?name=holiday&kind=lifecycle",
    "editor": "editor?name=holiday&kind=lifecycle",
    "state": "state",
    "activity": "activity",
    "activity-errors": "activity?status=errors",
    "audit": "audit",
    "users": "users",
    "outbound": "outbound",
    "account": "account",
    "connect": "connect",
}


# Those of which more than the beginning is looked at.
WHOLE = {"settings", "settings-with-users-and-effect", "document", "editor", "users"}


def look(page, name):
    """Keeps a page in three sizes and both schemes."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for scheme in ["light", "dark"]:
        for size, viewport in SIZES.items():
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(viewport)
            page.screenshot(path=SCREENSHOTS / f"{name}-{size}-{scheme}.png", full_page=name in WHOLE)
            assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], (name, size)
    page.set_viewport_size(DESKTOP)


def test_pages_are_kept_as_pictures(visit, shelf):
    browser = visit(viewport=DESKTOP).sign_in()
    page = browser.page
    for bucket, quota in [("holiday", '{"bytes": 2097152}'), ("empty", '{"objects": 0}')]:
        put = "([address, body]) => fetch(address, { method: 'PUT', body }).then((response) => response.status)"
        assert page.evaluate(put, [f"{browser.root}s3?bucket={bucket}&quota=", quota]) == 200
    for name, address in PAGES.items():
        page.goto(browser.root + address, wait_until="networkidle")
        look(page, name)
    page.goto(browser.root + PAGES["folder"])
    page.get_by_label("Select lake-1.png").check()
    page.get_by_label("Select lake-2.png").check()
    look(page, "folder-selected")
    page.get_by_label("More actions for lake-0.png").click()
    look(page, "folder-menu")
    page.get_by_title("Filters").click()
    look(page, "folder-filters")
    page.goto(browser.root + PAGES["folder"])
    page.get_by_title("New folder").click()
    page.get_by_label("Name of the folder").fill("sketches")
    look(page, "folder-new")
    page.get_by_role("button", name="Create").click()
    page.get_by_text("Created the folder sketches").wait_for()
    look(page, "folder-made")
    page.goto(browser.root + PAGES["folder"])
    page.get_by_role("link", name="Show as a grid").click()
    page.get_by_role("link", name="Show as a list").wait_for()
    page.wait_for_load_state("networkidle")
    look(page, "folder-grid")
    page.get_by_label("Select lake-1.png").check()
    page.get_by_label("More actions for lake-0.png").click()
    look(page, "folder-grid-menu")


def test_pages_of_people_are_kept_as_pictures(visit, own_server):
    server = own_server().start()
    s3 = server.client()
    s3.create_bucket(Bucket="photos")
    s3.create_bucket(Bucket="a-bucket-with-a-rather-long-name-as-people-give-them-2026")
    s3.put_bucket_versioning(Bucket="photos", VersioningConfiguration={"Status": "Enabled"})
    for number in range(3):
        s3.put_object(Bucket="photos", Key=f"2026/lake-{number}.txt", Body=b"x")
    browser = visit(server, viewport=DESKTOP).sign_in()
    page = browser.page
    page.goto(browser.root + "users")
    page.get_by_label("Read, write and delete in the bucket").check()
    form = page.locator("form[data-form=create-user]")
    form.get_by_label("Name", exact=True).fill("ada-of-the-long-name")
    form.get_by_label("Bucket", exact=True).fill("photos")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Keys of ada-of-the-long-name", level=1).wait_for()
    look(page, "new-keys")
    access_key, secret_key = [code.inner_text() for code in page.locator("dd code").all()]
    page.goto(browser.root + "users?access=ada-of-the-long-name")
    look(page, "users-matrix")
    page.goto(browser.root + "settings?name=photos&users=1")
    page.get_by_role("rowheader", name="ada-of-the-long-name").wait_for()
    look(page, "settings-with-users")
    page.goto(browser.root + "bucket?name=photos")
    page.get_by_text("Delete this bucket").click()
    page.get_by_role("button", name="Empty the bucket").click()
    page.get_by_label("Type the name of the bucket").wait_for()
    look(page, "typed-name")
    page.goto(browser.root + "bucket?name=photos&prefix=2026%2F")
    page.get_by_label("Share lake-1.txt").click()
    page.get_by_role("heading", name="A link to").wait_for()
    look(page, "share")
    page.goto(browser.root + "bucket?name=photos&prefix=2026%2F")
    page.get_by_label("Select lake-1.txt").check()
    page.get_by_role("group", name="The selection").get_by_role("button", name="Move or copy").click()
    page.get_by_role("heading", name="Move or copy 1 object").wait_for()
    look(page, "move")
    browser = visit(server, viewport=DESKTOP).sign_in(access_key=access_key, secret_key=secret_key)
    page = browser.page
    for label in ["ada-laptop", "ada-phone-with-a-long-label-that-says-where-it-is"]:
        page.goto(browser.root + "account")
        page.get_by_label("Label").fill(label)
        page.get_by_label("Last day").fill("2031-01-31")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name=f"Keys of {label}", level=1).wait_for()
    page.goto(browser.root + "account")
    look(page, "account-keys")


def scanned(figure):
    """The text of the QR code in a picture of an element, as another program than the server's reads it."""
    [code] = zxingcpp.read_barcodes(Image.open(io.BytesIO(figure.screenshot())))
    assert code.format == zxingcpp.BarcodeFormat.QRCode
    return code.text


def test_a_camera_reads_the_codes_of_addresses(visit, own_server):
    # Addresses of the loopback have no code.
    address = "https://files.example"
    console = "https://console.example/-/console"
    server = own_server("--public-url", address, "--console-url", console).start()
    s3 = server.client()
    s3.create_bucket(Bucket="photos")
    s3.put_object(Bucket="photos", Key="2026/lake & boat ü.txt", Body=b"x")
    browser = visit(server, viewport=DESKTOP).sign_in()
    page = browser.page
    page.goto(browser.root + "connect")
    look(page, "connect-with-code")
    assert scanned(page.get_by_role("figure")) == console
    page.goto(browser.root + "bucket?name=photos&prefix=2026%2F")
    page.get_by_label("Share lake & boat ü.txt").click()
    page.get_by_role("heading", name="A link to").wait_for()
    look(page, "share-with-code")
    link = page.get_by_label("Everyone who has it can read").input_value()
    assert link.startswith(f"{address}/photos/2026/lake%20%26%20boat%20%C3%BC.txt?")
    for scheme in ["light", "dark"]:
        for viewport in [DESKTOP, PHONE]:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(viewport)
            assert scanned(page.get_by_role("figure")) == link, (scheme, viewport)


@pytest.mark.parametrize("has_scripts", [True, False])
def test_a_grid_shows_pictures_and_is_remembered(visit, shelf, has_scripts):
    browser = visit(viewport=DESKTOP, java_script_enabled=has_scripts).sign_in()
    page = browser.page
    folder = f"{browser.root}bucket?name={shelf}&prefix=2026%2F"
    page.goto(folder)
    page.get_by_role("link", name="Show as a grid").click()
    page.get_by_role("link", name="Show as a list").wait_for()
    page.wait_for_load_state("networkidle")
    widths = page.locator("img.thumb").evaluate_all("(images) => images.map((image) => [image.naturalWidth, image.width > 100])")
    assert widths == [[320, True]] * 4
    page.goto(f"{browser.root}bucket?name={shelf}")
    page.get_by_role("link", name="2025/").wait_for()
    assert page.get_by_role("link", name="Show as a list").count() == 0, "a list says more where there is no picture"
    page.goto(folder)
    # A picture leads to its object.
    page.locator("img.thumb").nth(2).click(force=True)
    page.get_by_role("heading", name="2026/lake-2.png", level=1).wait_for()
    page.goto(folder)
    page.get_by_label("Select lake-3.png").check()
    page.get_by_role("group", name="The selection").get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name="Delete 1 object").wait_for()


@pytest.mark.parametrize("has_scripts", [True, False])
@pytest.mark.parametrize("size, top", [(DESKTOP, 260), (PHONE, 300)])
def test_the_first_file_is_in_sight(visit, shelf, size, top, has_scripts):
    browser = visit(viewport=size, java_script_enabled=has_scripts).sign_in()
    browser.page.goto(f"{browser.root}bucket?name={shelf}&prefix=2026%2F")
    box = browser.page.locator("tbody tr").first.bounding_box()
    assert box["y"] < top


@pytest.mark.parametrize("has_scripts", [True, False])
def test_times_are_those_of_the_browser_or_name_their_zone(visit, s3, bucket, has_scripts):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    browser = visit(viewport=DESKTOP, java_script_enabled=has_scripts, timezone_id="Asia/Kathmandu", locale="en-GB").sign_in()
    page = browser.page
    for address in ["", f"bucket?name={bucket}", f"object?bucket={bucket}&key=k", "state", "activity", "audit", "account"]:
        page.goto(browser.root + address)
        times = page.locator("time")
        assert times.count() > 0, address
        for time in times.all():
            assert time.get_attribute("title").endswith(" UTC")
            assert ("UTC" in time.text_content()) != has_scripts, (address, time.text_content())
    page.goto(f"{browser.root}rewind?bucket={bucket}")
    # In Nepal it is 5:45 later.
    page.get_by_label("Time", exact=has_scripts).fill("2026-01-31T12:00:05")
    page.get_by_role("button", name="List the changes").click()
    rewind = page.get_by_role("button", name="Rewind to")
    rewind.wait_for()
    assert rewind.locator("time").get_attribute("title") == f"2026-01-31 {'06:15' if has_scripts else '12:00'}:05 UTC"
    assert page.get_by_label("Time", exact=has_scripts).input_value() == "2026-01-31T12:00:05"
    assert " ".join(rewind.inner_text().split()) == ("Rewind to 31 Jan 2026, 12:00:05" if has_scripts else "Rewind to 2026-01-31 12:00:05 UTC")


def test_keys_find_and_lead_to_the_object_beside(visit, shelf):
    browser = visit(viewport=DESKTOP).sign_in()
    page = browser.page
    for text in [f"s3://{shelf}/2026/lake-1.png", f"{browser.server.url}/{shelf}/2026/lake-1.png"]:
        page.keyboard.press("/")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="2026/lake-1.png", level=1).wait_for()
        page.keyboard.press("ArrowRight")
        page.get_by_role("heading", name="2026/lake-2.png", level=1).wait_for()
        page.keyboard.press("ArrowLeft")
        page.get_by_role("heading", name="2026/lake-1.png", level=1).wait_for()
        page.goto(f"{browser.root}bucket?name={shelf}")
        page.get_by_role("heading", name=shelf, level=1).wait_for()


def test_a_slide_show_goes_through_the_pictures_of_a_folder(visit, shelf):
    browser = visit(viewport=DESKTOP).sign_in()
    page = browser.page
    page.clock.install()
    page.goto(f"{browser.root}object?bucket={shelf}&key=2026%2Flake-2.png")
    page.get_by_role("button", name="Slide show").click()
    show = page.get_by_role("dialog", name="Slide show")
    shown = show.get_by_role("status")
    is_loaded = "document.querySelector('#slides img').complete"
    page.wait_for_function(is_loaded)
    page.clock.run_for(6_000)
    shown.get_by_text("2026/lake-3.png").wait_for()
    page.wait_for_function(is_loaded)
    # The other objects of the folder are no pictures.
    page.keyboard.press("ArrowRight")
    shown.get_by_text("This is the last picture").wait_for()
    show.get_by_role("button", name="Play").wait_for()
    page.keyboard.press("ArrowLeft")
    shown.get_by_text("2026/lake-2.png").wait_for()
    page.keyboard.press("ArrowLeft")
    shown.get_by_text("2026/lake-1.png").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="2026/lake-1.png", level=1).wait_for()


def test_a_slide_show_moves_by_keys_alone_where_motion_is_unwanted(visit, shelf):
    browser = visit(viewport=PHONE, reduced_motion="reduce").sign_in()
    page = browser.page
    page.clock.install()
    page.goto(f"{browser.root}object?bucket={shelf}&key=2026%2Flake-0.png")
    page.get_by_role("button", name="Slide show").click()
    show = page.get_by_role("dialog", name="Slide show")
    show.get_by_role("button", name="Play").wait_for()
    page.clock.run_for(60_000)
    assert show.get_by_role("status").inner_text() == "2026/lake-0.png"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    show.get_by_role("status").get_by_text("2026/lake-1.png").wait_for()
    show.get_by_role("button", name="Close").click()
    page.get_by_role("heading", name="2026/lake-1.png", level=1).wait_for()


def test_a_slide_show_passes_over_what_is_no_picture(visit, s3, bucket):
    for key in ["a.png", "b.txt", "c.zip", "d.png"]:
        content_type = "image/png" if key.endswith(".png") else "text/plain"
        s3.put_object(Bucket=bucket, Key=key, Body=picture(3, 2, (9, 9, 9)), ContentType=content_type)
    browser = visit(viewport=DESKTOP).sign_in()
    page = browser.page
    page.goto(f"{browser.root}object?bucket={bucket}&key=a.png")
    page.get_by_role("button", name="Slide show").click()
    shown = page.get_by_role("dialog", name="Slide show").get_by_role("status")
    for key, name in [("ArrowRight", "d.png"), ("ArrowLeft", "a.png")]:
        page.keyboard.press(key)
        shown.get_by_text(name, exact=True).wait_for()


def test_keys_go_through_a_list(visit, s3, bucket):
    for key in ["a.txt", "b.txt", "f/c.txt"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"123")
    browser = visit(viewport=DESKTOP).sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name={bucket}")
    focused = "document.activeElement.textContent"
    for key, name in [("j", "f/"), ("j", "a.txt"), ("j", "b.txt"), ("j", "b.txt"), ("k", "a.txt")]:
        page.keyboard.press(key)
        assert page.evaluate(focused) == name
    page.keyboard.press("x")
    page.get_by_text("1 selected, 3 B").wait_for()
    assert page.get_by_label("Select a.txt").is_checked()
    # Somebody may have come to the box by the tabulator.
    page.get_by_label("Select a.txt").focus()
    page.keyboard.press("k")
    assert page.evaluate(focused) == "f/"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="f", level=1, exact=True).wait_for()
    page.keyboard.press("u")
    page.get_by_role("heading", name=bucket, level=1).wait_for()
    # What is typed into a field is text.
    page.keyboard.press("/")
    page.keyboard.type("?jxu")
    assert page.get_by_label("Find here and below").input_value() == "?jxu"
    page.locator("h1").click()
    keys = page.get_by_role("dialog", name="Keys")
    assert keys.count() == 0
    page.keyboard.press("?")
    keys.get_by_text("The folder above").wait_for()
    look(page, "keys")
    page.keyboard.press("Escape")
    keys.wait_for(state="hidden")
    page.get_by_label("More of this folder").click()
    page.get_by_role("button", name="Keys of this page").click()
    keys.get_by_role("button", name="Close").click()
    keys.wait_for(state="hidden")


def test_a_copy_stays_and_a_folder_is_made_once(visit, s3, bucket):
    s3.put_object(Bucket=bucket, Key="one.txt", Body=b"1", Metadata={"m": "kept"})
    browser = visit().sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name={bucket}")
    page.get_by_label("More actions for one.txt").click()
    page.get_by_role("button", name="Move, copy or rename").click()
    page.get_by_label("Name", exact=True).fill("two.txt")
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_text("1 object copied").wait_for()
    assert s3.get_object(Bucket=bucket, Key="one.txt")["Body"].read() == b"1"
    assert s3.head_object(Bucket=bucket, Key="two.txt")["Metadata"] == {"m": "kept"}
    for outcome in ["There is nothing here.", "There is a folder of this name already."]:
        page.goto(f"{browser.root}bucket?name={bucket}")
        page.get_by_title("New folder").click()
        page.get_by_label("Name of the folder").fill("sub")
        page.get_by_role("button", name="Create").click()
        page.get_by_text(outcome).wait_for()
    assert page.get_by_label("Name of the folder").input_value() == "sub"


def test_a_message_is_told_once(visit, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    browser = visit(java_script_enabled=False).sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name={bucket}")
    page.get_by_label("Delete k").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    assert page.get_by_role("status").inner_text() == "1 object deleted"
    page.reload()
    assert page.get_by_role("status").count() == 0
    assert page.locator("nav [aria-current]").all_inner_texts() == ["Buckets", "Files"]


def test_newest_first_goes_over_pages(visit, s3, bucket):
    for number in range(203):
        s3.put_object(Bucket=bucket, Key=f"{number % 7}-{number:03}", Body=b"")
    browser = visit().sign_in()
    page = browser.page
    page.goto(f"{browser.root}bucket?name={bucket}")
    page.get_by_role("link", name="Changed").click()
    first = page.locator("tbody td.name a").first
    first.filter(has_text="-202").wait_for()
    page.get_by_role("link", name="Next page").click()
    first.filter(has_text="-002").wait_for()
    assert page.locator("tbody td.name a").all_inner_texts() == ["2-002", "1-001", "0-000"]
    page.get_by_role("link", name="Previous page").click()
    first.filter(has_text="-202").wait_for()


@pytest.mark.parametrize("address", ["deleted=1", "find=K"])
def test_a_walk_in_steps_goes_on_by_itself(visit, s3, bucket, address):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for number in range(403):
        s3.put_object(Bucket=bucket, Key=f"k{number:03}", Body=b"")
        if address == "deleted=1":
            s3.delete_object(Bucket=bucket, Key=f"k{number:03}")
    browser = visit().sign_in()

    def cut_short(route):
        """The first page as one that ended for the sake of time."""
        answer = route.fetch()
        text = answer.text()
        assert ">Next page<" in text
        route.fulfill(response=answer, body=text.replace('">Next page<', '" data-more>Load more<'))

    first = f"{browser.root}bucket?name={bucket}&{address}"
    browser.page.route(first, cut_short)
    browser.page.goto(first)
    browser.page.get_by_text("400 found so far", exact=True).wait_for()
    assert browser.page.locator("tbody tr").count() == 400
    assert browser.page.get_by_role("link", name="Load more").count() == 0
    browser.page.get_by_label("Select everything on this page").check()
    browser.page.get_by_text("400 selected, 0 B").wait_for()
    # The steps were one page to whoever looked at them.
    browser.page.get_by_role("link", name="Next page").click()
    browser.page.get_by_text("3 found", exact=True).wait_for()
    back = browser.page.get_by_role("link", name="Previous page")
    assert browser.origin + back.get_attribute("href") == first
    back.click()
    browser.page.get_by_text("400 found so far", exact=True).wait_for()


def test_every_icon_is_in_the_sprite():
    templates = ROOT / "src/console/templates"
    sprite = (templates / "icons.html").read_text()
    drawn = set(re.findall(r'<symbol id="(i-[a-z-]+)"', sprite))
    used = {name for template in templates.glob("*.html") for name in re.findall(r'href="#(i-[a-z-]+)"', template.read_text())}
    by_kind = {f"i-{kind}" for kind in ["file", "text", "image", "video", "audio", "archive"]}
    assert used | by_kind <= drawn


# Words of this program, and those that people look for.
PRIVATE_WORDS = {
    "in force": "Enabled",
    "look at": "Preview",
    "outbound": "Replication",
    "behind": "Lag",
    "reign": "Epoch",
    "cross-origin rules": "CORS",
}


def test_pages_have_the_words_that_people_look_for():
    found = []
    for template in sorted((ROOT / "src/console/templates").glob("*.html")):
        # What people read: the texts between tags, and the values that some attributes show.
        text = re.sub(r"\{[{%].*?[%}]\}", "", template.read_text(), flags=re.S)
        shown = re.sub(r"<[^>]*>", "\n", text) + "\n".join(re.findall(r'(?:title|aria-label|placeholder)="([^"]*)"', text))
        found += [(template.name, word) for word in PRIVATE_WORDS if word in shown.lower().replace("cors (cross-origin rules)", "")]
    assert found == []


def test_the_activity_shows_what_happens_until_it_is_stopped(visit, s3, bucket):
    browser = visit(viewport=DESKTOP).sign_in()
    page = browser.page
    page.goto(f"{browser.root}activity?bucket={bucket}")
    page.get_by_role("heading", name="Activity", level=1).wait_for()
    assert page.get_by_text("while-it-is-shown").count() == 0
    s3.put_object(Bucket=bucket, Key="while-it-is-shown", Body=b"x" * 2048)
    row = page.locator("tr", has_text="while-it-is-shown")
    row.wait_for()
    assert "2.0 KiB" in row.inner_text() and "PutObject" in row.inner_text()
    live = page.get_by_role("button", name="Live")
    live.click()
    assert live.get_attribute("aria-pressed") == "false"
    s3.put_object(Bucket=bucket, Key="after-it-was-stopped", Body=b"x")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2_500)
    assert asked == [] and page.get_by_text("after-it-was-stopped").count() == 0
    page.get_by_role("link", name="Refresh").click()
    page.locator("tr", has_text="after-it-was-stopped").wait_for()


def test_single_keys_can_be_turned_off(visit, shelf):
    browser = visit(viewport=DESKTOP).sign_in()
    page = browser.page
    folder = f"{browser.root}bucket?name={shelf}&prefix=2026%2F"
    is_in_list = "document.activeElement.closest('tbody') !== null"

    def press_all():
        page.goto(folder)
        for key in ["j", "x", "/", "?", "u"]:
            page.keyboard.press(key)
        return page.evaluate("document.activeElement === document.body"), page.locator("tbody :checked, :popover-open").count()

    page.goto(folder)
    page.keyboard.press("j")
    assert page.evaluate(is_in_list)
    page.goto(f"{browser.root}account")
    page.get_by_role("button", name="Turn the single keys off").click()
    page.get_by_text("The single keys are off", exact=True).wait_for()
    assert press_all() == (True, 0)
    page.get_by_role("heading", name="2026", level=1, exact=True).wait_for()
    # They are no single characters.
    page.goto(f"{browser.root}object?bucket={shelf}&key=2026%2Flake-1.png")
    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name="2026/lake-2.png", level=1).wait_for()
    page.goto(folder)
    page.get_by_label("More of this folder").click()
    page.get_by_role("button", name="Keys of this page").click()
    page.get_by_role("link", name="Turn them on").click()
    page.get_by_role("button", name="Turn the single keys on").click()
    page.get_by_text("The single keys are on", exact=True).wait_for()
    page.goto(folder)
    page.keyboard.press("j")
    assert page.evaluate(is_in_list)


def test_a_count_that_takes_long_goes_on_and_says_how_far_it_came(visit, shelf):
    browser = visit(viewport=DESKTOP).sign_in()
    page = browser.page
    asked = []

    def unfinished(route):
        response = route.fetch()
        text = re.sub(r'data-counted="\d+">[^<]*', 'data-counted="0" data-further="/-/console/deleted-count?after=1"> (not counted)', response.text())
        assert "data-further" in text
        route.fulfill(response=response, body=text)

    def step(route):
        asked.append(route.request.url[-1])
        further = {"1": "/-/console/deleted-count?after=2", "2": "/-/console/deleted-count?after=3"}
        route.fulfill(json={"count": 7_000, "further": further.get(asked[-1])})

    page.route("**/bucket?name=holiday*", unfinished)
    page.route("**/deleted-count?*", step)
    page.goto(f"{browser.root}bucket?name=holiday")
    page.get_by_role("link", name="Trash (21\u202f000)", exact=True).wait_for()
    assert asked == ["1", "2", "3"]
    # One that goes on for longer than two seconds is given up, and says so.
    page.unroute("**/deleted-count?*")
    page.route("**/deleted-count?*", lambda route: (page.wait_for_timeout(700), route.fulfill(json={"count": 1, "further": "/-/console/deleted-count?after=1"})))
    page.goto(f"{browser.root}bucket?name=holiday")
    page.get_by_role("link", name="Trash (more than 3)", exact=True).wait_for()
    page.unroute_all(behavior="ignoreErrors")
