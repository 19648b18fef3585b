"""What tests are handed: one server for all that only look at answers, and a fresh bucket for each."""

import itertools

import pytest

from siltstone import Server

numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
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


@pytest.fixture(scope="session")
def s3(server):
    return server.client()


@pytest.fixture
def bucket(s3):
    name = f"bucket-{next(numbers)}"
    s3.create_bucket(Bucket=name)
    return name
