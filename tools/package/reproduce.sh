#!/usr/bin/env bash
# Compiles the static programs a second time, from a clone of HEAD in another folder and without what was compiled before, and holds
# both against those that tools/package/build.sh has built here. Takes as long as a build.
#
#   tools/package/reproduce.sh [TRIPLE]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
here=${CARGO_TARGET_DIR:-target}/$target/release
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
[ -z "$(git status --porcelain --untracked-files=no)" ] || { echo "reproduce.sh: there are changes that are not committed" >&2; exit 1; }
tools/package/build.sh --target "$target" programs
git clone --quiet --no-local . "$there/a folder of another name"
(cd "$there/a folder of another name" && env -u CARGO_TARGET_DIR tools/package/build.sh --target "$target" programs)
for program in siltstone siltstone-tools; do
    cmp "$here/$program" "$there/a folder of another name/target/$target/release/$program"
    sha256sum "$here/$program"
done
echo "the same programs in both folders"
