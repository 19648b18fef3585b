"""The tar file: programs that run anywhere, and their pages."""

import re
import subprocess
import tarfile

import pytest

from packages import SOURCES, package, run
from siltstone import ROOT

PROGRAMS = ["siltstone", "siltstone-tools"]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Where the tar file is installed, as its help says."""
    prefix = tmp_path_factory.mktemp("usr-local")
    run("tar", "-xzf", package("*.tar.gz"), "-C", prefix, "--strip-components=1")
    return prefix


def commands(program):
    """The commands of a program and the commands of these, as its help lists them."""
    found = []
    for line in run(*program, "--help").partition("\nCommands:\n")[2].partition("\n\n")[0].splitlines():
        name = line.split()[0] if line.startswith("  ") and not line.startswith("   ") else "help"
        if name != "help":
            found += [[name], *([name, *more] for more in commands([*program, name]))]
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_static_and_says_its_version(prefix, name):
    program = prefix / "bin" / name
    assert "INTERP" not in run("readelf", "--program-headers", "--wide", program)
    assert "NEEDED" not in run("readelf", "--dynamic", "--wide", program)
    loaded = subprocess.run(["ldd", program], capture_output=True, text=True)
    assert "statically linked" in loaded.stdout + loaded.stderr
    # The same name and version as in the name of the file.
    version = run("env", "-i", program, "--version").strip()
    assert package("*.tar.gz").name.startswith(version.replace(f"{name} ", "siltstone-") + "-")
    assert version.startswith(f"{name} ")


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_command_has_a_page(prefix, name):
    pages = {path.name for path in (prefix / "share/man/man1").iterdir()}
    expected = [[], *commands([prefix / "bin" / name])]
    assert len(expected) > 4, expected
    for command in expected:
        page = "-".join([name, *command]) + ".1.gz"
        assert page in pages
        text = run("zcat", prefix / "share/man/man1" / page)
        assert ".SH SYNOPSIS" in text and ".SH OPTIONS" in text


@pytest.mark.parametrize("name", PROGRAMS)
def test_bash_completes_commands_and_options(prefix, name):
    script = prefix / "share/bash-completion/completions" / name
    function = run("bash", "-c", f". {script}; complete -p {name}").split("-F ")[1].split()[0]
    for words, offered in [((name, ""), commands([prefix / "bin" / name])[0][0]), ((name, "--data-d"), "--data-dir")]:
        replies = run(
            "bash", "-c",
            f'. {script}; COMP_WORDS=("$@"); COMP_CWORD=1; {function} {name} "$2" {name}; echo "${{COMPREPLY[@]}}"',
            "bash", *words,
        )
        assert offered in replies.split()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_other_shells_have_their_files(prefix, name):
    assert f"complete -c {name} " in (prefix / f"share/fish/vendor_completions.d/{name}.fish").read_text()
    assert (prefix / f"share/zsh/site-functions/_{name}").read_text().startswith(f"#compdef {name}\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_guide_tells_the_size_of_a_program(prefix, name):
    page = (ROOT / "src/guide/packages.md").read_text()
    told = float(re.search(rf"^\| `{name}` \| (\S+) MB \|", page, re.M).group(1))
    assert abs((prefix / "bin" / name).stat().st_size / 1e6 - told) < 1, "measure again, also the compressed size and the page of appliances"


def test_nothing_but_programs_can_be_executed_and_the_licence_is_there(prefix):
    with tarfile.open(package("*.tar.gz")) as tar:
        for member in tar:
            is_program = member.name.split("/")[-2:-1] == ["bin"]
            assert member.mode == (0o755 if is_program or member.isdir() else 0o644), member.name
            assert (member.uid, member.gid) == (0, 0)
    assert "Apache License" in (prefix / "share/doc/siltstone/LICENSE").read_text()


def test_a_static_server_finds_a_host_by_its_name(prefix, server):
    """Static programs resolve names by libc's own code, without the host's modules."""
    environment = {"SILTSTONE_ACCESS_KEY": "suite", "SILTSTONE_SECRET_KEY": "suite/secret+key=="}
    told = run(
        prefix / "bin/siltstone-tools", "bench", "--endpoint", f"http://localhost:{server.port}",
        "--duration", "20ms", "--objects", "10", env=environment,
    )
    assert "put" in told


def test_the_same_programs_give_the_same_tar_file():
    """With their pages made again. test_release.py makes the other packages in another folder."""
    before = package("*.tar.gz").read_bytes()
    run(SOURCES / "build.sh", "tar")
    # A comparison within the assertion would be explained byte by byte, for minutes.
    is_same = package("*.tar.gz").read_bytes() == before
    assert is_same
