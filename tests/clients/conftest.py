"""What tests are handed: one server for all that only look at answers, and a fresh bucket for each."""

import itertools

import pytest

pytest.register_assert_rewrite("visits")

from servers import own_server, server
from visits import BROWSERS, launched, visits_of

numbers = itertools.count(1)

# The files that take longest, in that order. They come first, so that none goes on alone after all others: `--dist loadfile
# --no-loadscope-reorder` begins files in the order of their tests.
LONGEST = [
    "test_clocks", "test_console_forms", "test_console_origin", "test_locked_backups", "test_takeovers", "test_memory",
    "test_two_hosts", "test_real_input", "test_console_axe", "test_key_rotation", "test_cas_check", "test_encrypted_store",
    "test_tier", "test_testing_page", "test_webhooks", "test_reclaim", "test_standby", "test_minio_go",
    "test_js_clients", "test_remote", "test_overload",
]


def pytest_collection_modifyitems(items):
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture(scope="session")
def s3(server):
    return server.client()


@pytest.fixture
def bucket(s3):
    name = f"bucket-{next(numbers)}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture(scope="module")
def playwright():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def chromium(playwright):
    browser = launched(playwright, "chromium")
    yield browser
    browser.close()


@pytest.fixture(scope="module", params=BROWSERS)
def each_browser(request, playwright):
    """Chromium, then Firefox."""
    browser = launched(playwright, request.param)
    yield browser
    browser.close()


@pytest.fixture
def visit(chromium, server):
    yield from visits_of(chromium, server)


@pytest.fixture
def visit_in_each(each_browser, server):
    yield from visits_of(each_browser, server)
