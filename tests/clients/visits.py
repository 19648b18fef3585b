"""The console in browsers: one layer for Chromium and Firefox, so that the same test runs in each."""

import os
import random
import re
import shutil
import socket
import threading
from pathlib import Path

import pytest

from siltstone import ACCESS_KEY, IS_LONG, ROOT, SECRET_KEY

# Pictures of the pages, which the checks leave for people to look at.
SCREENSHOTS = Path(os.environ.get("SILTSTONE_SCREENSHOTS", ROOT / "target/console"))
# After that long a step has failed; nothing passes because it was fast.
PATIENCE_MILLIS = 60_000
BROWSERS = ["chromium", "firefox"]
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 800}


def launched(playwright, name):
    """A browser of the system. Playwright speaks to Firefox by WebDriver BiDi, which needs no build of its own."""
    programs = {"chromium": ["chromium"], "firefox": ["firefox-esr", "firefox"]}[name]
    program = next(filter(None, map(shutil.which, programs)), None)
    if program is None:
        pytest.skip(f"{programs[0]} is not installed (apt-get install {programs[0]})")
    if name == "firefox":
        return playwright.firefox.launch(executable_path=program, channel="moz-firefox")
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])


def leave_out(tried):
    """Leaves a test out, of which an ordinary run tries something else."""
    pytest.skip(f"tried {tried}: set SILTSTONE_LONG_TESTS for all, as .ci/run --all does")


def spare(browser, name):
    """Leaves a test out that takes long, but in the browser of that name: an ordinary run has it in one of them."""
    if not IS_LONG and browser.browser_type.name != name:
        leave_out(f"in {name}")


def drawn(ways, count):
    """So many of the ways that a test can go, drawn for this run; in a long run all of them."""
    return ways if IS_LONG else random.sample(ways, count)


class Visit:
    """A browser with a profile of its own, and the complaints of its pages."""

    def __init__(self, browser, server, path="/-/console/", origin=None, **options):
        self.server = server
        self.origin = origin or server.url
        self.root = self.origin + path
        self.context = browser.new_context(accept_downloads=True, **options)
        self.context.set_default_timeout(PATIENCE_MILLIS)
        self.complaints = []
        self.page = self.open_page()

    def open_page(self):
        page = self.context.new_page()
        page.on("console", lambda message: "Security Policy" in message.text and self.complaints.append(message.text))
        page.on("console", lambda message: "Security-Policy" in message.text and self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._check_origin(request.url))
        return page

    def _check_origin(self, url):
        # The viewer of PDF documents is a part of the browser.
        of_browser = ("data:", "blob:", "chrome:", "chrome-extension:", "resource:", "moz-extension:")
        if not url.startswith((self.origin, self.server.url, *of_browser)):
            self.complaints.append(f"a request to {url}")

    def sign_in(self, page=None, access_key=ACCESS_KEY, secret_key=SECRET_KEY):
        page = page or self.page
        page.goto(self.root)
        page.get_by_label("Access key").fill(access_key)
        page.get_by_label("Secret key").fill(secret_key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Buckets").wait_for()
        return self

    def end(self):
        self.context.close()
        assert self.complaints == []


def visits_of(browser, server):
    """Makes visits, and ends them; each must be without complaints."""
    made = []

    def make(of=server, **options):
        made.append(Visit(browser, of, **options))
        return made[-1]

    yield make
    for visit in made:
        visit.end()


def screenshot(page, name):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def uploaded(page, count, millis=PATIENCE_MILLIS):
    page.get_by_text(re.compile(rf"^Uploaded {count} of {count} files")).wait_for(timeout=millis)


class HoldingProxy:
    """Passes everything on to a server but uploads, which it holds until they are let go."""

    def __init__(self, server):
        self.server = server
        self.is_open = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self):
        self.is_open.clear()

    def let_go(self):
        self.is_open.set()

    def close(self):
        self.let_go()
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client):
        server = socket.create_connection(("127.0.0.1", self.server.port))
        threading.Thread(target=self._pass_on, args=[server, client, False], daemon=True).start()
        self._pass_on(client, server, True)

    def _pass_on(self, source, target, holds):
        try:
            while data := source.recv(64 * 1024):
                # A browser sends the head of a request by itself, after the response to the one before.
                if holds and data.startswith(b"PUT "):
                    self.is_open.wait()
                target.sendall(data)
        except OSError:
            pass
        for end in [source, target]:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
