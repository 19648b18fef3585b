#!/usr/bin/env bash
# Builds the packages for this host and runs their tests (tests/package).
#
#   tools/package/test.sh [pytest arguments]
#
# Tests whose programs are missing say that they were skipped, and so do those that start containers, without root: lintian, mmdebstrap,
# systemd-analyze, systemd-nspawn, buildah.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

parts=(tar)
! command -v dpkg-deb >/dev/null || parts+=(deb)
! command -v buildah >/dev/null || parts+=(image)
tools/package/build.sh "${parts[@]}"
host=$(rustc -vV | sed -n 's/^host: //p')
SILTSTONE_BIN=$PWD/target/$host/release/siltstone tests/clients/run.sh ../package "$@"
