#!/usr/bin/env bash
# Counts the instructions of the hot paths with valgrind and holds them against the ceilings in ceilings.txt: unlike times, they are
# the same on a busy machine. Needs valgrind, and says so and ends well where there is none. What the kernel and other
# threads do is not counted.
#
#   tests/benches/count.sh            fails where a path takes more than its ceiling
#   tests/benches/count.sh --record   writes new ceilings, a tenth above what is counted now
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ceilings=tests/benches/ceilings.txt

command -v valgrind >/dev/null || { echo "skipped: there is no valgrind"; exit 0; }

# The program, wherever cargo puts it.
hot=$(cargo bench --locked --bench hot --no-run --message-format=json |
    sed -n 's/.*"name":"hot".*"executable":"\([^"]*\)".*/\1/p')

count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no --toggle-collect='*hot::counted*' \
        "$hot" --count "$1" 2>&1 | sed -n 's/.*Collected *: *\([0-9]*\).*/\1/p'
}

record() {
    echo "# The most instructions that a path may take, and its name. tests/benches/count.sh --record writes this."
    for path in $(paths); do
        printf '%10d %s\n' $(($(count "$path") * 11 / 10)) "$path"
    done
}

# All but the one whose work is another thread's.
paths() { "$hot" --names | grep -vx commit; }

check() {
    local failed=0 path ceiling counted
    for path in $(paths); do
        ceiling=$(awk -v path="$path" '$2 == path { print $1 }' "$ceilings")
        counted=$(count "$path")
        if [ "${counted:-0}" -gt 0 ] && [ "${counted:-0}" -le "${ceiling:-0}" ]; then
            verdict=
        else
            verdict=' TOO MANY, OR NONE COUNTED' failed=1
        fi
        printf '%-10s %10d instructions, at most %10d%s\n' "$path" "${counted:-0}" "${ceiling:-0}" "$verdict"
    done
    return $failed
}

case ${1:-} in
    '') check ;;
    --record) new=$(record) && printf '%s\n' "$new" >"$ceilings" && cat "$ceilings" ;;
    *) echo "usage: count.sh [--record]" >&2; exit 2 ;;
esac
