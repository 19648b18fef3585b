#!/usr/bin/env bash
# Runs every fuzzer, or those named, each for so many seconds: tests/fuzz/run.sh [--seconds N] [TARGET...]
# With --build in place of all that it only builds them.
# What it finds lies in target/fuzz/findings/TARGET; what it learns stays in target/fuzz/corpus/TARGET for the next run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=10
if [ "${1:-}" = --seconds ]; then
    seconds=$2
    shift 2
fi
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    mapfile -t targets < <(sed -n 's|^path = "targets/\(.*\)\.rs"$|\1|p' tests/fuzz/Cargo.toml)
fi
command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked

# The server has no unsafe code for a sanitizer to watch over: without one the fuzzers need no other toolchain and are faster.
export CARGO_TARGET_DIR=$PWD/target/fuzz
cargo fuzz build --fuzz-dir tests/fuzz --sanitizer none
if [ "${1:-}" = --build ]; then
    exit
fi
for target in "${targets[@]}"; do
    corpus=target/fuzz/corpus/$target
    findings=target/fuzz/findings/$target
    mkdir -p "$corpus" "$findings"
    cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none "$target" "$corpus" "tests/fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -artifact_prefix="$findings/" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=1
done
