"""The container image, unpacked, and commands in it."""

import json

from packages import run

NOBODY = 65534


class Image:
    """An unpacked image: `config` as engines read it, `root`, and the `entries` that it had before any container added places to mount."""

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
        self.entries = list(self.root.rglob("*"))


def contained(image, data, *command, uid=NOBODY, binds=None, network=False):
    """The command line that runs a command in the image, as an engine does: a read-only root of its own with /proc and /dev, the
    volume /data, further binds (path in the container: file or directory) and a uid without a name; perhaps with a network of its own."""
    script = """
        uid=$1 root=$2 network=$3
        shift 3
        mount --bind "$root" "$root"
        mkdir -p "$root/proc" "$root/dev"
        mount -t proc proc "$root/proc"
        mount -t tmpfs tmpfs "$root/dev"
        for device in null zero random urandom; do
            touch "$root/dev/$device"
            mount --bind "/dev/$device" "$root/dev/$device"
        done
        ln -s /proc/self/fd/2 "$root/dev/stderr"
        while [ "$1" != -- ]; do
            mkdir -p "$(dirname "$root$1")"
            if [ -d "$2" ]; then mkdir -p "$root$1"; else touch "$root$1"; fi
            mount --bind "$2" "$root$1"
            shift 2
        done
        shift
        mount -o remount,bind,ro "$root"
        [ "$network" = False ] || ip link set lo up
        exec chroot --userspec="$uid:$uid" --groups= "$root" "$@"
    """
    bound = [str(word) for pair in {"/data": data, **(binds or {})}.items() for word in pair]
    namespaces = ["unshare", "--mount", *(["--net"] if network else [])]
    return [*namespaces, "sh", "-euc", script, "sh", str(uid), str(image.root), str(network), *bound, "--", *command]
