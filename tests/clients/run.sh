#!/usr/bin/env bash
# Runs the suite of real clients (boto3, the aws command line, rclone, s3cmd, minio-go, Chromium) against the release binary.
#
#   tests/clients/run.sh [pytest arguments]
#
# SILTSTONE_BIN names a binary to use instead of building one.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=$here/.venv

if ! cmp -s "$here/requirements.txt" "$venv/installed.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$venv/installed.txt"
fi

if [ -z "${SILTSTONE_BIN:-}" ]; then
    cargo build --release --locked --manifest-path "$root/Cargo.toml" --bin siltstone --bin siltstone-tools
    SILTSTONE_BIN=$(cargo metadata --format-version 1 --no-deps --manifest-path "$root/Cargo.toml" |
        "$venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/siltstone
fi
export SILTSTONE_BIN

cd "$here"
exec "$venv/bin/python" -m pytest -p no:cacheprovider "$@"
