#!/usr/bin/env bash
# Builds the packages for this host and runs their tests (tests/package).
#
#   tools/package/test.sh [pytest arguments]
#   tools/package/test.sh --is-due     exit status 0 where what packages are made of is not what was last tried
#
# After all tests have passed, what they were made of is noted in tests/package/tried.sha256: commit it with a change of these files.
# Tests whose programs are missing say that they were skipped, and so do those that start containers, without root: lintian, mmdebstrap,
# systemd-analyze, systemd-nspawn, buildah, podman with runc, rpm, bsdtar, pacman, minisign.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

note=tests/package/tried.sha256

# The scripts and files of packages, their tests, and the options and messages that these hold.
tried() {
    find tools/package tests/package src/cli src/main.rs Cargo.toml .dockerignore -type f ! -path "$note" ! -name '*.pyc' |
        LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1
}

if [ "${1:-}" = --is-due ]; then
    [ "$(cat "$note" 2>/dev/null)" != "$(tried)" ]
    exit
fi

parts=(tar)
! command -v dpkg-deb >/dev/null || parts+=(deb)
! command -v buildah >/dev/null || parts+=(image)
parts+=(rpm apk ipk arch)
tools/package/build.sh "${parts[@]}"
host=$(rustc -vV | sed -n 's/^host: //p')
SILTSTONE_BIN=$(realpath "${CARGO_TARGET_DIR:-target}")/$host/release/siltstone tests/clients/run.sh ../package "$@"
# Options that only change what is printed leave all tests in.
[[ " $* " == *" -k "* || " $* " == *" -m "* || " $* " == *.py* ]] || tried >"$note"
