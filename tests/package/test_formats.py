"""The packages for RPM, Alpine, OpenWrt and Arch, each read by programs that did not make it, and held against the tar file."""

import gzip
import hashlib
import io
import re
import subprocess
import tarfile
import zlib

import pytest

from needs import needs
from packages import SOURCES, package, run

FILES = {"rpm": "*.rpm", "apk": "*.apk", "ipk": "*.ipk", "arch": "*.pkg.tar.zst"}
CONFIG = "etc/siltstone/siltstone.toml"
UNITS = "usr/lib/systemd/system"
LOGROTATE = "etc/logrotate.d/siltstone"
INIT = "etc/init.d/siltstone"
LICENCE = "usr/share/licenses/siltstone/LICENSE"


class Entry:
    """A file of a package: its bytes as a digest, its mode, and whether it belongs to root."""

    def __init__(self, digest, mode, is_roots):
        self.told = (digest, mode, is_roots)

    def __eq__(self, other):
        return self.told == other.told

    def __repr__(self):
        return repr(self.told)


def entry(data, mode):
    return Entry(hashlib.sha256(data).hexdigest(), mode, True)


def files_of_tar(tar):
    """The files in a tar file, by path."""
    found = {}
    for member in tar:
        if member.isfile():
            data = tar.extractfile(member).read()
            found[member.name.removeprefix("./")] = Entry(hashlib.sha256(data).hexdigest(), member.mode & 0o7777, (member.uid, member.gid) == (0, 0))
    return found


def rpm_files():
    """Told by rpm itself: path, size, time, digest, mode, owner, group, is it configuration."""
    needs("rpm")
    found = {}
    for line in run("rpm", "--query", "--package", "--dump", package(FILES["rpm"])).splitlines():
        path, _, _, digest, mode, owner, group, *_ = line.split()
        if mode.startswith("0100"):
            found[path.removeprefix("/")] = Entry(digest, int(mode, 8) & 0o7777, (owner, group) == ("root", "root"))
    return found


def arch_files():
    """Unpacked by libarchive, which pacman uses."""
    needs("bsdtar")
    packed = subprocess.run(["bsdtar", "-cf", "-", "--format=pax", f"@{package(FILES['arch'])}"], check=True, stdout=subprocess.PIPE).stdout
    return files_of_tar(tarfile.open(fileobj=io.BytesIO(packed)))


def apk_streams():
    """Alpine's packages are gzip streams, one behind the other: here the control segment and the files, without a signature."""
    left, streams = package(FILES["apk"]).read_bytes(), []
    while left:
        reader = zlib.decompressobj(wbits=31)
        streams.append(reader.decompress(left))
        left = reader.unused_data
    return streams


def apk_files():
    _, data = apk_streams()
    return files_of_tar(tarfile.open(fileobj=io.BytesIO(data)))


def ipk_part(name):
    with tarfile.open(package(FILES["ipk"])) as outer:
        return tarfile.open(fileobj=io.BytesIO(gzip.decompress(outer.extractfile(f"./{name}.tar.gz").read())))


def ipk_files():
    return files_of_tar(ipk_part("data"))


READERS = {"rpm": rpm_files, "apk": apk_files, "ipk": ipk_files, "arch": arch_files}


def expected(kind):
    """What the package has to hold: the files of the tar file below /usr, and those of its init system."""
    found = {CONFIG: entry((SOURCES / "deb/siltstone.toml").read_bytes(), 0o644)}
    with tarfile.open(package("*-linux.tar.gz")) as tar:
        for path, each in files_of_tar(tar).items():
            path = path.split("/", 1)[1]
            if path == "share/doc/siltstone/LICENSE":
                path = LICENCE.removeprefix("usr/")
            if kind != "ipk" or path.startswith("bin/"):
                found[f"usr/{path}"] = each
    if kind in ("rpm", "arch"):
        for unit in ("siltstone.service", "siltstone-backup.service", "siltstone-backup.timer"):
            found[f"{UNITS}/{unit}"] = entry((SOURCES / "deb" / unit).read_bytes(), 0o644)
        found[LOGROTATE] = entry((SOURCES / "deb/siltstone.logrotate").read_bytes(), 0o644)
        found["usr/lib/sysusers.d/siltstone.conf"] = entry((SOURCES / "nfpm/sysusers.conf").read_bytes(), 0o644)
    if kind in ("apk", "ipk"):
        found[INIT] = entry((SOURCES / "nfpm" / {"apk": "openrc", "ipk": "procd"}[kind]).read_bytes(), 0o755)
    return found


@pytest.mark.parametrize("kind", FILES)
def test_a_package_holds_the_files_of_the_tar_file_and_a_service(kind):
    files = READERS[kind]()
    files = {path: each for path, each in files.items() if not path.startswith(".")}
    assert files == expected(kind)
    assert {f"usr/bin/{name}" for name in ("siltstone", "siltstone-tools")} <= set(files)


def version():
    return re.fullmatch(r"siltstone-(.+?)-[^-]+-linux\.tar\.gz", package("*-linux.tar.gz").name).group(1)


def test_rpm_knows_name_version_licence_and_configuration():
    needs("rpm")
    told = run("rpm", "--query", "--package", "--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{LICENSE}", package(FILES["rpm"]))
    assert told.split()[:3] == ["siltstone", version(), "1"] and told.endswith(" Apache-2.0"), told
    assert run("rpm", "--query", "--package", "--configfiles", package(FILES["rpm"])) == f"/{LOGROTATE}\n/{CONFIG}\n"
    # Static programs need no library, and the scripts nothing but a shell.
    needed = run("rpm", "--query", "--package", "--requires", package(FILES["rpm"])).split("\n")
    assert all(each.startswith("rpmlib(") or each in ("", "/bin/sh") for each in needed), needed


def test_rpm_installs_verifies_and_keeps_a_changed_configuration(tmp_path):
    needs("rpm")
    root = tmp_path / "root"
    # rpm of Debian knows of no package that gives /bin/sh.
    rpm = ["rpm", "--root", root, "--nodeps", "--noscripts"]
    run("rpm", "--root", root, "--initdb")
    run(*rpm, "--install", package(FILES["rpm"]))
    assert run("rpm", "--root", root, "--verify", "--nodeps", "--noscripts", "siltstone") == ""
    assert run(root / "usr/bin/siltstone", "--version") == f"siltstone {version()}\n"
    (root / CONFIG).write_text("# mine\n")
    run(*rpm, "--erase", "siltstone")
    assert (root / f"{CONFIG}.rpmsave").read_text() == "# mine\n"
    assert not (root / "usr/bin/siltstone").exists()


def test_pacman_knows_the_package_and_installs_it(tmp_path):
    needs("pacman")
    told = run("pacman", "--query", "--info", "--file", package(FILES["arch"]))
    assert re.search(rf"^Version +: {re.escape(version())}-1$", told, re.M) and re.search(r"^Depends On +: None$", told, re.M), told
    (tmp_path / "db").mkdir()
    config = tmp_path / "pacman.conf"
    config.write_text("[options]\nSigLevel = Never\n")
    pacman = ["pacman", "--config", config, "--root", tmp_path, "--dbpath", tmp_path / "db", "--cachedir", tmp_path / "cache", "--noconfirm"]
    run(*pacman, "--noscriptlet", "--upgrade", package(FILES["arch"]))
    assert run(tmp_path / "usr/bin/siltstone", "--version") == f"siltstone {version()}\n"
    # It compares every file with the package's own list.
    assert " 0 altered files" in run(*pacman, "--query", "--check", "--check", "siltstone")


def control_of_apk():
    control, _ = apk_streams()
    # The control segment has no end of a tar file, since the files follow it.
    return tarfile.open(fileobj=io.BytesIO(control + bytes(1024)))


def test_alpine_knows_the_package_and_the_digest_of_its_files():
    with control_of_apk() as control:
        told = control.extractfile(".PKGINFO").read().decode()
    fields = dict(line.split(" = ", 1) for line in told.splitlines() if not line.startswith("#"))
    assert (fields["pkgname"], fields["pkgver"]) == ("siltstone", f"{version()}-r1")
    # Of the stream as it lies in the file: the part behind the control segment.
    whole = package(FILES["apk"]).read_bytes()
    reader = zlib.decompressobj(wbits=31)
    reader.decompress(whole)
    assert fields["datahash"] == hashlib.sha256(reader.unused_data).hexdigest()


def test_openwrt_knows_the_package():
    with ipk_part("control") as control:
        fields = dict(line.split(": ", 1) for line in control.extractfile("./control").read().decode().splitlines() if ": " in line)
        assert control.extractfile("./conffiles").read().decode().split() == [f"/{CONFIG}"]
    assert (fields["Package"], fields["Version"]) == ("siltstone", f"{version()}-1")
    assert package(FILES["ipk"]).name == f"siltstone_{version()}-1_{fields['Architecture']}.ipk"


def scripts():
    return sorted((SOURCES / "nfpm").glob("*.sh")) + [SOURCES / "nfpm/openrc", SOURCES / "nfpm/procd"]


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_a_script_is_one_of_a_small_shell(script):
    """Routers and Alpine have busybox's shell; bash would take more."""
    needs("busybox")
    run("busybox", "sh", "-n", script)


def packaged_scripts(kind):
    if kind == "rpm":
        needs("rpm")
        return run("rpm", "--query", "--package", "--scripts", package(FILES["rpm"]))
    if kind == "arch":
        needs("bsdtar")
        return run("bsdtar", "-xOf", package(FILES["arch"]), ".INSTALL")
    with control_of_apk() if kind == "apk" else ipk_part("control") as control:
        return "\n".join(control.extractfile(member).read().decode() for member in control if member.isfile())


@pytest.mark.parametrize("kind", FILES)
def test_the_scripts_of_a_package_are_in_it(kind):
    told = packaged_scripts(kind)
    for script in (SOURCES / "nfpm").glob(f"{kind}-*.sh"):
        body = script.read_text().split("\n", 1)[1].strip()
        assert body in told or all(line.strip() in told for line in body.splitlines()), script


def test_the_user_is_made_in_the_root_of_a_system(tmp_path):
    needs("systemd-sysusers")
    (tmp_path / "etc").mkdir()
    run("systemd-sysusers", f"--root={tmp_path}", SOURCES / "nfpm/sysusers.conf")
    line = next(line for line in (tmp_path / "etc/passwd").read_text().splitlines() if line.startswith("siltstone:"))
    assert line.endswith(":Siltstone object store:/var/lib/siltstone:/usr/sbin/nologin"), line


def test_openwrt_makes_the_user_once(tmp_path):
    """Its functions are those of OpenWrt as far as the script calls them: they note what they were told."""
    functions = tmp_path / "lib/functions.sh"
    functions.parent.mkdir()
    functions.write_text(
        'group_exists() { grep -q "^group $1 " "$IPKG_INSTROOT/made" 2>/dev/null; }\n'
        'user_exists() { grep -q "^user $1 " "$IPKG_INSTROOT/made" 2>/dev/null; }\n'
        'group_add() { echo "group $*" >>"$IPKG_INSTROOT/made"; }\n'
        'user_add() { echo "user $*" >>"$IPKG_INSTROOT/made"; }\n'
    )
    for _ in range(2):
        run("sh", SOURCES / "nfpm/ipk-postinstall.sh", env={"IPKG_INSTROOT": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert (tmp_path / "made").read_text() == "group siltstone 9000\nuser siltstone 9000 9000 siltstone /var/lib/siltstone /bin/false\n"
