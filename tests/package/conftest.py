"""What tests are handed: servers that the packages are held against."""

import pytest

from siltstone import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("shared") / "data").start()
    yield server
    server.stop()


@pytest.fixture
def own_server(tmp_path):
    """Makes servers that belong to one test and end with it."""
    made = []

    def make(*arguments):
        made.append(Server(tmp_path / f"data-{len(made)}", *arguments))
        return made[-1]

    yield make
    for server in made:
        server.kill()
