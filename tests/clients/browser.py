"""Pages of another origin in headless Chromium. A page does its work by itself and reports to the origin that it came from."""

import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import threading

import pytest

from siltstone import clean_environment

REPORT_SECONDS_MAX = 120

# Runs `work`, which has the constants of the page, and reports its result or its failure.
PAGE = """<!doctype html>
<meta charset="utf-8">
<body>
<script type="module">
const given = {given};
const headers = (response) => Object.fromEntries(response.headers);
const report = (result) => fetch("/report", {{method: "POST", body: JSON.stringify(result)}});
const work = async () => {{ {work} }};
work().then((result) => result === undefined || report(result), (error) => report({{failed: String(error)}}));
</script>
"""


class Pages:
    """An origin with one page, which a browser opens, and its reports."""

    def __init__(self, home):
        self.home = home
        self.page = b""
        self.reports = queue.Queue()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def run(self, work, **given):
        """What the page reports that does `work` with the constants `given`."""
        self.page = PAGE.format(given=json.dumps(given), work=work).encode()
        profile = self.home / "profile"
        command = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--remote-debugging-port=0", f"--user-data-dir={profile}", f"{self.origin}/page",
        ]
        with open(self.home / "chromium.log", "ab") as log:
            browser = subprocess.Popen(
                command, env=clean_environment(self.home), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )
        try:
            return self.reports.get(timeout=REPORT_SECONDS_MAX)
        except queue.Empty:
            pytest.fail(f"the page reported nothing: {(self.home / 'chromium.log').read_text()[-3000:]}")
        finally:
            # The session has the processes of this browser alone.
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
            shutil.rmtree(profile, ignore_errors=True)

    def _handler(pages):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path, _, query = self.path.partition("?")
                if path == "/page":
                    return self.answer(pages.page)
                if path == "/landed":
                    pages.reports.put(query)
                return self.answer(b"")

            def do_POST(self):
                pages.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.answer(b"")

            def answer(self, body):
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler
