"""Signing in to the console by an OpenID provider that is not our own code, in headless Chromium."""

import pytest

from visits import PATIENCE_MILLIS, screenshot

provider_mock = pytest.importorskip("oidc_provider_mock")

USERS = """
[[user]]
name = "operators"
access_key = "OPERATORS"
secret_key = "secret-of-operators"
allow = [{ actions = ["*"], resources = ["*"] }]
oidc = { groups = ["operators"] }
"""


@pytest.fixture(scope="module")
def provider():
    people = [
        provider_mock.User(sub="ann", claims={"groups": ["staff", "operators"], "preferred_username": "Ann"}),
        provider_mock.User(sub="bob", claims={"groups": ["staff"]}),
    ]
    with provider_mock.run_server_in_thread(user_claims=people) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture
def page(chromium, provider, own_server, tmp_path):
    users, secret = tmp_path / "users.toml", tmp_path / "client-secret"
    users.write_text(USERS)
    users.chmod(0o600)
    secret.write_text("secret of the client\n")
    server = own_server("--users", str(users), "--oidc-issuer", provider, "--oidc-client-id", "siltstone",
                        "--oidc-client-secret-file", str(secret)).start()
    context = chromium.new_context(base_url=server.url)
    context.set_default_timeout(PATIENCE_MILLIS)
    page = context.new_page()
    page.goto("/-/console/connect")
    yield page
    context.close()


def sign_in(page, person):
    page.get_by_role("link", name="Sign in by your organisation").click()
    page.get_by_role("button", name=person, exact=True).first.click()


def test_a_person_of_a_group_gets_to_the_page_that_it_asked_for(page):
    screenshot(page, "sign-in-oidc")
    sign_in(page, "ann")
    page.get_by_text("rclone config create").wait_for()
    assert page.url.endswith("/-/console/connect")
    page.get_by_text("operators", exact=True).wait_for()
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies() if cookie["name"].startswith("siltstone")}
    assert list(cookies) == ["siltstone-console"], "the attempt has left no cookie"
    assert cookies["siltstone-console"]["httpOnly"] and cookies["siltstone-console"]["sameSite"] == "Strict"
    page.get_by_role("button", name="Sign out").click()
    # The way leads on to the provider, which asks for a confirmation.
    page.wait_for_url("**/oauth2/end_session?client_id=siltstone")
    page.go_back()
    page.goto("/-/console/")
    page.get_by_role("heading", name="Sign in").wait_for()


def test_a_person_of_another_group_and_one_who_refuses_get_no_session(page):
    sign_in(page, "bob")
    page.get_by_text("no user of this server is for you").wait_for()
    page.get_by_role("link", name="Sign in by your organisation").click()
    page.get_by_role("button", name="Deny").click()
    # This provider leaves the state out where RFC 6749, section 4.1.2.1, requires it.
    page.get_by_role("alert").wait_for()
    page.goto("/-/console/")
    page.get_by_role("heading", name="Sign in").wait_for()
