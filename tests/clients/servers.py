"""The servers that tests are handed, for the suites of clients and of packages."""

import pytest

from siltstone import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One for all tests that only look at answers."""
    server = Server(tmp_path_factory.mktemp("shared") / "data").start()
    yield server
    server.stop()


@pytest.fixture
def own_server(tmp_path):
    """Makes servers that belong to one test and end with it."""
    made = []

    def make(*arguments, **more):
        made.append(Server(tmp_path / f"data-{len(made)}", *arguments, **more))
        return made[-1]

    yield make
    for server in made:
        if server.is_running():
            server.kill()
