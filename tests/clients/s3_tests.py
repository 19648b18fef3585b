"""The public suite of S3 tests that Ceph's developers keep, and the place of each of its tests (s3_tests.txt): passes, S3 answers
otherwise, extension of Ceph, not built. The suite is not in this repository: S3_TESTS names a checkout of it.

    S3_TESTS=DIR tests/clients/run.sh test_s3_tests.py     runs all of it, and holds each result to its place
    tests/clients/.venv/bin/python tests/clients/s3_tests.py table     the tables of the guide's page "Clients"
    S3_TESTS=DIR tests/clients/.venv/bin/python tests/clients/s3_tests.py run FILE [TEST ...]     results with their errors, to sort by
"""

import base64
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from siltstone import ROOT, Server, clean_environment

FILE = Path(__file__).with_name("s3_tests.txt")
PAGE = ROOT / "src/guide/clients.md"
PASSES = "passes"
CLASSES = (PASSES, "S3 answers otherwise", "extension of Ceph", "not built")
# What the suite needs beside boto3; not among the packages of this suite, which would install them for everybody.
PACKAGES = ("isodate==0.7.2", "munch==4.0.0", "pytz==2026.6")
# The suite runs in as many processes, each with a server of its own: some of its tests count all buckets of a user.
HALVES = 2
USERS = ("main", "alt", "tenant", "iam", "root", "other-root")
ADMINISTRATION = '["AdminListUsers", "AdminCreateUser", "AdminSetGrants", "AdminRotateKeys", "AdminDeleteUser"]'

Place = collections.namedtuple("Place", "of reason")
Result = collections.namedtuple("Result", "passed told seconds")


def places():
    """The place of each test, by its name."""
    found = {}
    place = None
    for line in FILE.read_text().splitlines():
        if heading := re.fullmatch(r"\[([^:\]]+)(?:: (.*))?\]", line):
            place = Place(heading.group(1), heading.group(2) or "")
            assert place.of in CLASSES, line
            assert (place.reason == "") == (place.of == PASSES), f"every place but the first has a reason: {line}"
        elif line and not line.startswith("#"):
            assert line not in found, f"{line} has two places"
            found[line] = place
    return found


def tables():
    """Both tables of the guide: the classes, and the reasons in each."""
    by_class = collections.Counter(place.of for place in places().values())
    lines = ["| | tests |", "|---|---|"]
    lines += [f"| {name} | {by_class[name]} |" for name in CLASSES]
    lines += [f"| all | {by_class.total()} |", "", "| | reason | tests |", "|---|---|---|"]
    by_place = collections.Counter(place for place in places().values() if place.of != PASSES)
    in_order = sorted(by_place.items(), key=lambda row: (CLASSES.index(row[0].of), -row[1], row[0].reason))
    lines += [f"| {place.of} | {place.reason} | {count} |" for place, count in in_order]
    return "\n".join(lines) + "\n"


def users_file():
    """Users as accounts are to the suite, each with all rights on its own buckets. The first one learns that a bucket is missing."""
    tables = [
        f'[[user]]\nname = "{name}"\naccess_key = "{name}-key"\nsecret_key = "{name}/the/secret/key"\n'
        f'[[user.allow]]\nactions = ["*"]\nresources = {["*"] if name == USERS[0] else ["@owned", "@owned/*"]}\n'
        '[[user.allow]]\nactions = ["CreateBucket", "GetFederationToken", "TagSession"]\nresources = ["*"]\n'
        for name in USERS
    ]
    # Those who call IAM for the suite.
    for at, name in enumerate(USERS):
        if name in ("iam", "root"):
            tables[at] += f'[[user.allow]]\nactions = {ADMINISTRATION}\nresources = ["*"]\n'
    return "\n".join(tables)


def keys_file():
    """A current key, and those that the suite asks for by name."""

    def table(number):
        secret = base64.b64encode(bytes([number]) * 32).decode()
        return f'[[key]]\nid = "20261126-4f6c9a2e51b03d7{number}"\ncreated = "2026-11-26T10:00:00.000Z"\nsecret = "{secret}"\n'

    return "\n".join([table(7), *(table(number) + f'name = "testkey-{number}"\n' for number in (1, 2))])


def web_identity():
    """What the suite reads of a provider of identities. None has signed the token: the suite makes providers without client ids, for
    which no token is good."""

    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"iss": "http://localhost:8080/auth/realms/suite", "sub": "suite", "aud": "account", "azp": "suite", "exp": 4_000_000_000}
    token = ".".join([part({"alg": "RS256", "kid": "1"}), part(claims), "AAAA"])
    names = f"aud = account\nsub = suite\nazp = suite\nKC_REALM = suite\nthumbprint = {'0' * 40}\n"
    return f"[webidentity]\n{names}token = {token}\nuser_token = {token}\n"


def account(section, name):
    names = f"display_name = {name}\nuser_id = {name}\nemail = {name}@example.com\n"
    return f"[{section}]\n{names}access_key = {name}-key\nsecret_key = {name}/the/secret/key\n"


def configuration(port):
    """What the suite reads: the server, and who is who."""
    sections = [f"[DEFAULT]\nhost = localhost\nport = {port}\nis_secure = False\nssl_verify = False\n"]
    sections.append("[fixtures]\nbucket prefix = suite-{random}-\niam name prefix = suite-\niam path prefix = /suite/\n")
    # Its tests of lifecycle wait for some of these "days". No server of S3 has them.
    sections.append(account("s3 main", "main") + "api_name = us-east-1\nlc_debug_interval = 1\nrgw_restore_debug_interval = 1\nrgw_restore_processor_period = 1\n")
    sections += [account("s3 alt", "alt"), account("s3 tenant", "tenant") + "tenant = testx\n"]
    sections += [account("iam", "iam"), account("iam root", "root"), account("iam alt root", "other-root")]
    sections.append(web_identity())
    return "\n".join(sections)


class Run:
    """Runs of the suite below a directory."""

    def __init__(self, checkout, home):
        self.checkout, self.home = Path(checkout).resolve(), Path(home)
        self.packages = self.home / "packages"
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", self.packages, *PACKAGES],
            check=True,
        )

    def pytest(self, port, *arguments):
        configured = self.home / f"{port}.conf"
        configured.write_text(configuration(port))
        environment = clean_environment(
            self.home, S3TEST_CONF=str(configured), PYTHONPATH=f"{self.checkout}:{self.packages}:{FILE.parent}", PYTHONDONTWRITEBYTECODE="1"
        )
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "s3_tests_plugin", "-q", *map(str, arguments)]
        return subprocess.run(command, cwd=self.checkout, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def names(self):
        """All tests of the suite."""
        told = self.pytest(1, "--collect-only", "s3tests/functional").stdout
        found = re.findall(r"^s3tests/functional/(\S+::.+)$", told, re.M)
        assert found, told
        return found

    def results(self, tests):
        """The results of these tests, by their names."""
        found = {}
        with ThreadPoolExecutor() as pool:
            # Every second one: the slow ones stand together.
            for half in pool.map(self.results_of, [tests[at::HALVES] for at in range(HALVES)]):
                found.update(half)
        return found

    def results_of(self, tests):
        if not tests:
            return {}
        with tempfile.TemporaryDirectory(dir=self.home) as directory:
            directory = Path(directory)
            data_dir = directory / "data"
            data_dir.mkdir()
            for name, text in (("users.toml", users_file()), ("keys.toml", keys_file())):
                (data_dir / name).write_text(text)
                (data_dir / name).chmod(0o600)
            options = ("--dialect", "aws", "--region", "us-east-1,*", "--object-ownership", "ObjectWriter", "--bucket-log-interval", "4s", "--log-level", "warn")
            server = Server(data_dir, *options).start()
            try:
                (directory / "tests").write_text("".join(f"s3tests/functional/{test}\n" for test in tests))
                report = directory / "report.xml"
                told = self.pytest(server.port, f"--junitxml={report}", f"@{directory / 'tests'}").stdout
                assert report.exists(), told
                found = read_report(report)
            finally:
                server.kill()
            log = server.log.read_text()
            assert "panicked" not in log, log
            assert set(found) == set(tests), f"not reported: {set(tests) - set(found)}"
            return found


def read_report(report):
    """The results in a report of pytest. The error of the clean-up after a test is that of the test."""
    found = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname').rsplit('.', 1)[1]}.py::{case.get('name')}"
        told = [f"{child.tag}: {child.get('message', '')}" for child in case if child.tag in ("failure", "error", "skipped")]
        if test in found and not found[test].passed:
            told.insert(0, found[test].told)
        found[test] = Result(not told, " / ".join(told), float(case.get("time", 0)))
    return found


def main(arguments):
    match arguments:
        case ["table"]:
            print(tables(), end="")
        case ["run", file, *tests]:
            with tempfile.TemporaryDirectory() as home, open(file, "w") as out:
                run = Run(os.environ["S3_TESTS"], home)
                results = run.results(tests or run.names())
                for test, result in sorted(results.items()):
                    told = " ".join(result.told.split())
                    print(test, "passes" if result.passed else "", f"{result.seconds:.1f}", told, sep="\t", file=out)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
