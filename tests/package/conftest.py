"""What tests are handed: servers that the packages are held against, and the image."""

import pytest

from image import Image
from packages import needs, needs_root, package
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


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    needs("buildah")
    needs_root()
    return Image(package("*-image.tar"), tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def debug_image(tmp_path_factory):
    needs("buildah")
    needs_root()
    return Image(package("*-image-debug.tar"), tmp_path_factory.mktemp("debug-image"))
