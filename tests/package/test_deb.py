"""The Debian package: held by Debian's own checker, and installed, upgraded and purged on a Debian that boots systemd."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from needs import needs, needs_root
from packages import PACKAGES, ROOT, SOURCES, package, run

UNIT = SOURCES / "deb/siltstone.service"

# The best is 0. A service that listens on the network and writes files cannot come below 1.
EXPOSURE_MAX = 1.5

BOOT_SECONDS_MAX = 300


def test_the_checker_of_debian_finds_nothing():
    needs("lintian")
    run("lintian", "--fail-on", "error,warning", package("*.deb"))


def test_the_service_is_confined():
    needs("systemd-analyze")
    told = run("systemd-analyze", "security", "--offline=true", "--no-pager", UNIT)
    exposure = float(re.search(r"Overall exposure level for \S+: (\S+)", told).group(1))
    assert exposure < EXPOSURE_MAX, told


def test_the_drop_in_of_the_guide_is_one(tmp_path):
    needs("systemd-analyze")
    [lines] = re.findall(r"^```text\n(\[Unit\]\n.*?)^```", (ROOT / "src/guide/packages.md").read_text(), re.M | re.S)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/bin/siltstone", "/bin/true"))
    folder = tmp_path / f"{UNIT.name}.d"
    folder.mkdir()
    (folder / "override.conf").write_text(lines)
    told = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert "override.conf" not in told.stderr, told.stderr
    (folder / "override.conf").write_text(lines.replace("ReadWritePaths", "ReadWritePath"))
    told = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert "override.conf" in told.stderr, "a wrong word would be found"


def test_the_configuration_is_accepted_by_the_server(server):
    """The file as it is, but for the place of the data and the port, which flags override."""
    from siltstone import BINARY

    done = subprocess.run(
        [BINARY, "--config", SOURCES / "deb/siltstone.toml", "--data-dir", server.data_dir, "--listen", "127.0.0.1:0"],
        capture_output=True, text=True,
    )
    # The directory is in use: the options were read before that is noticed.
    assert done.returncode == 1 and "another process uses" in done.stderr


def test_the_backup_is_confined():
    needs("systemd-analyze")
    told = run("systemd-analyze", "security", "--offline=true", "--no-pager", SOURCES / "deb/siltstone-backup.service")
    assert float(re.search(r"Overall exposure level for \S+: (\S+)", told).group(1)) < EXPOSURE_MAX, told


def test_the_logs_are_rotated_without_a_lost_line(own_server, tmp_path):
    """The file as it is, but for the place, the account, and the way to the server."""
    needs("logrotate")
    logs = tmp_path / "logs"
    logs.mkdir(mode=0o700)
    server = own_server("--access-log", str(logs / "access.log"), "--audit-log", str(logs / "audit.log")).start()
    server.client().create_bucket(Bucket="rotated-away")
    rules = (SOURCES / "deb/siltstone.logrotate").read_text().replace("/var/log/siltstone", str(logs))
    rules = re.sub(r"^ *su .*\n", "", rules, flags=re.M).replace("create 640 siltstone siltstone", "create 640")
    rules = re.sub(r"systemctl reload .*", f"kill -HUP {server.process.pid}", rules)
    (tmp_path / "rules").write_text(rules)
    (tmp_path / "rules").chmod(0o600)
    run("logrotate", "--force", "--state", tmp_path / "state", tmp_path / "rules")
    for name in ["access log", "audit log"]:
        wait_until(lambda: f"reopened the {name}" in server.log.read_text())
    server.client().create_bucket(Bucket="after-it")
    server.stop()
    for name in ["access.log", "audit.log"]:
        assert "rotated-away" in (logs / f"{name}.1").read_text() and "rotated-away" not in (logs / name).read_text()
        assert "after-it" in (logs / name).read_text()


def wait_until(holds):
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about")


@pytest.fixture(scope="session")
def debian():
    """The root of a Debian with systemd and nothing else, kept for the next run."""
    needs_root()
    needs("mmdebstrap", "systemd-nspawn")
    root = PACKAGES / "debian-root"
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        include = "--include=systemd,systemd-sysv,adduser"
        run("mmdebstrap", "--quiet", "--variant=minbase", include, codename(), root)
        (root / "test").mkdir()
        (root / "complete").touch()
    return root


def codename():
    release = Path("/etc/os-release").read_text()
    return re.search(r"^VERSION_CODENAME=(\S+)$", release, re.M).group(1)


def older(deb, tmp_path):
    """The package with a version before all others and another configuration file."""
    tree = tmp_path / "older"
    run("dpkg-deb", "--raw-extract", deb, tree)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", "Version: 0.0.0", control.read_text(), flags=re.M))
    config = tree / "etc/siltstone/siltstone.toml"
    config.write_text(config.read_text() + "# of the old version\n")
    run("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, tmp_path / "old.deb")


def boot(root, shared, script):
    """Boots a copy of the system that is forgotten at its end, runs the script in it, and gives all that was said."""
    unit = root / "etc/systemd/system/life.service"
    command = f"bash /test/{script} >/test/said 2>&1; systemctl poweroff --no-block"
    unit.write_text(f"[Service]\nType=oneshot\nExecStart=/bin/sh -c '{command}'\n")
    done = subprocess.run(
        ["systemd-nspawn", "--quiet", "--directory", root, "--volatile=overlay", "--bind", f"{shared}:/test",
         "--register=no", "--keep-unit", "--private-network", "--boot", "systemd.wants=life.service"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BOOT_SECONDS_MAX, text=True,
    )
    said = shared / "said"
    return said.read_text() if said.exists() else done.stdout


def test_the_package_installs_upgrades_and_purges(debian, tmp_path):
    deb = package("*.deb")
    shutil.copy(deb, tmp_path / "new.deb")
    older(deb, tmp_path)
    shutil.copy(Path(__file__).with_name("deb_life.sh"), tmp_path)
    said = boot(debian, tmp_path, "deb_life.sh")
    assert said.endswith("\nthe end\n"), said
