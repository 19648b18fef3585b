#!/usr/bin/env bash
# Runs the suite of real clients (src/guide/clients.md) against the release binary.
#
#   tests/clients/run.sh [pytest arguments]
#
# SILTSTONE_BIN names a binary to use instead of building one, SILTSTONE_DYNAMIC_BIN one that loads its C library, for the tests of clocks.
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

# Node.js is not required: without it the tests of its clients say that they were skipped.
has_node() {
    command -v npm >/dev/null && [ "$(node -p 'parseInt(process.versions.node) >= 20')" = true ]
}

if has_node && ! cmp -s "$here/js/package.json" "$here/js/node_modules/installed.json"; then
    rm -rf "$here/js/node_modules"
    npm install --prefix "$here/js" --no-package-lock --no-audit --no-fund --loglevel error
    cp "$here/js/package.json" "$here/js/node_modules/installed.json"
fi

if [ -z "${SILTSTONE_BIN:-}" ]; then
    cargo build --release --locked --manifest-path "$root/Cargo.toml" --bin siltstone --bin siltstone-tools
    SILTSTONE_BIN=$(cargo metadata --format-version 1 --no-deps --manifest-path "$root/Cargo.toml" |
        "$venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/siltstone
fi
export SILTSTONE_BIN

cd "$here"
exec "$venv/bin/python" -m pytest -p no:cacheprovider "$@"
