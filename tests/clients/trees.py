"""Directory trees: made, described and compared."""

import hashlib
import os


def digests(root):
    """The SHA-256 of every file below `root`, by its path from there."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def write(root, files):
    for name, body in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
