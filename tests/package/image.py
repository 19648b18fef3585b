"""The container image, unpacked, and commands in it."""

import json

from packages import run

NOBODY = 65534


class Image:
    """An unpacked image: `config` as engines read it, and `root`."""

    def __init__(self, archive, directory):
        run("tar", "-xf", archive, "-C", directory)
        [manifest] = json.loads((directory / "manifest.json").read_text())
        self.tags = manifest["RepoTags"]
        self.config = json.loads((directory / manifest["Config"]).read_text())["config"]
        self.layers = [directory / layer for layer in manifest["Layers"]]
        self.root = directory / "root"
        self.root.mkdir()
        for layer in self.layers:
            run("tar", "-xpf", layer, "-C", self.root)


def contained(image, data, *command, uid=NOBODY):
    """The command line that runs a command in the image, as an engine does: a read-only root of its own with /proc, the volume
    /data and a uid without a name."""
    script = """
        mount --bind "$1" "$1"
        mkdir -p "$1/proc"
        mount -t proc proc "$1/proc"
        mount --bind "$2" "$1/data"
        mount -o remount,bind,ro "$1"
        root=$1 uid=$3
        shift 3
        exec chroot --userspec="$uid:$uid" --groups= "$root" "$@"
    """
    return ["unshare", "--mount", "sh", "-euc", script, "sh", str(image.root), str(data), str(uid), *command]
