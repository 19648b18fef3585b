#!/usr/bin/env bash
# Runs every fuzzer, or those named, each for so many seconds: tests/fuzz/run.sh [--seconds N] [TARGET...]
# What it finds lies in target/fuzz/findings/TARGET; what it learns stays in target/fuzz/corpus/TARGET for the next run.
#
#   tests/fuzz/run.sh --build     only builds them
#   tests/fuzz/run.sh --is-due    exit status 0 where the parsers are not those that all fuzzers ran on last
#   tests/fuzz/run.sh --long      ten minutes each, as before a release
#
# After all fuzzers have run and found nothing, the parsers are noted in tests/fuzz/parsers.sha256: commit it with a change of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

note=tests/fuzz/parsers.sha256

# Of every file that a fuzzer feeds, and of the fuzzers.
parsers() {
    find src/auth src/format src/http src/log src/s3 src/xml tools/minio/format tests/fuzz/targets -type f -name '*.rs' | LC_ALL=C sort |
        xargs sha256sum | sha256sum | cut -d' ' -f1
}

if [ "${1:-}" = --is-due ]; then
    [ "$(cat "$note" 2>/dev/null)" != "$(parsers)" ]
    exit
fi
if [ "${1:-}" = --long ]; then
    shift
    set -- --seconds 600 "$@"
fi
seconds=10
if [ "${1:-}" = --seconds ]; then
    seconds=$2
    shift 2
fi
build_only=false
if [ "${1:-}" = --build ]; then
    build_only=true
    shift
fi
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    mapfile -t targets < <(sed -n 's|^path = "targets/\(.*\)\.rs"$|\1|p' tests/fuzz/Cargo.toml)
fi
command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked

# The server has no unsafe code for a sanitizer to watch over: without one the fuzzers need no other toolchain and are faster.
export CARGO_TARGET_DIR=$PWD/target/fuzz
cargo fuzz build --fuzz-dir tests/fuzz --sanitizer none
! $build_only || exit 0

# One fuzzer keeps one processor busy.
fuzz() {
    local target=$1
    local corpus=target/fuzz/corpus/$target
    local findings=target/fuzz/findings/$target
    mkdir -p "$corpus" "$findings" target/fuzz/logs
    cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none "$target" "$corpus" "tests/fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -artifact_prefix="$findings/" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=1 \
        >"target/fuzz/logs/$target.log" 2>&1 || { tail -n 100 "target/fuzz/logs/$target.log"; return 1; }
    cat "target/fuzz/logs/$target.log"
}
export -f fuzz
export seconds
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I '{}' bash -euo pipefail -c 'fuzz "$1"' fuzz '{}'
if [ $# = 0 ]; then
    parsers >"$note"
fi
