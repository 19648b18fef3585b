"""What tests are handed: servers that the packages are held against, and the image."""

import pytest

from image import Image
from needs import needs, needs_root
from packages import package
from servers import own_server, server


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
