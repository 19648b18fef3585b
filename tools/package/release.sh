#!/usr/bin/env bash
# Makes a release; see usage below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
    cat <<'TEXT'
Makes a release of Siltstone in target/release-VERSION: packages, sums, bill of materials, signature.

usage: tools/package/release.sh [--key FILE | --unsigned] [--snapshot] [--from FILE ...] [--check]

  --key FILE    secret key of minisign that signs the sums; its password is asked for
  --unsigned    make no signature
  --snapshot    a trial: also without a tag, with changes that are not committed, and with a changelog that says "Unreleased"
  --from FILE   take this tar file instead of compiling; one for each architecture. The first is that of the image's host
  --check       only check whether the tree is one to release
  --help        this text

What is in the folder:
  siltstone-*, siltstone_*   packages of tools/package/build.sh, for each architecture
  siltstone-VERSION-ARCH.cdx.json   the bill of materials (CycloneDX 1.5)
  CHANGES.md                 the section of .github/CHANGELOG.md
  SHA256SUMS                 of all others, and SHA256SUMS.minisig, which signs it

Examples:
  tools/package/release.sh --check
  tools/package/release.sh --snapshot --unsigned
  tools/package/release.sh --key ~/.minisign/siltstone.key

To release: write the section "## VERSION (YYYY-MM-DD)" of the changelog, set the version in Cargo.toml, commit,
tag the commit as vVERSION, and run this.
The same commit gives the same files, in any folder. To check: run it in two, and compare SHA256SUMS.
TEXT
}

out=target/package
version=$(sed -n 's/^version = "\(.*\)"/\1/p;T;q' Cargo.toml)
release=target/release-$version
key=
is_signed=true
is_snapshot=false
is_check=false
tars=()

fail() {
    echo "release.sh: $*" >&2
    exit 1
}

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --help | -h) usage; exit 0 ;;
            --key) key=${2:?--key needs a file}; shift ;;
            --unsigned) is_signed=false ;;
            --snapshot) is_snapshot=true ;;
            --from) tars+=("${2:?--from needs a tar file}"); shift ;;
            --check) is_check=true ;;
            *) echo "release.sh: unknown argument: $1; see --help" >&2; exit 2 ;;
        esac
        shift
    done
    if ! $is_check && $is_signed && [ -z "$key" ]; then
        echo "release.sh: name a secret key by --key, or say --unsigned; minisign -G makes one" >&2
        exit 2
    fi
}

# The lines of this version in the changelog, without their heading.
changes() {
    local heading="## $version ("
    ! $is_snapshot || ! grep -q "^## Unreleased ($version)$" .github/CHANGELOG.md || heading="## Unreleased ($version)"
    awk -v heading="$heading" 'index($0, "## ") == 1 { is_inside = index($0, heading) == 1; next } is_inside' .github/CHANGELOG.md
}

check_tree() {
    local tagged date
    [ -n "$(changes | tr -d '[:space:]')" ] || fail "the changelog has no section \"## $version (YYYY-MM-DD)\" with a text"
    grep -A1 '^name = "siltstone"$' Cargo.lock | grep -qx "version = \"$version\"" || fail "Cargo.lock has another version than Cargo.toml"
    ! $is_snapshot || return 0
    date=$(sed -n "s/^## $version (\(.*\))$/\1/p" .github/CHANGELOG.md)
    [ "$(date -d "$date" +%F 2>/dev/null)" = "$date" ] || fail "not a date in the changelog: $date"
    [ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed"
    tagged=$(git rev-parse --verify --quiet "v$version^{commit}") || fail "there is no tag v$version"
    [ "$tagged" = "$(git rev-parse HEAD)" ] || fail "the tag v$version is of another commit"
}

# All packages of an architecture. The first tar file may be one to compile.
build_packages() {
    local tar
    if [ ${#tars[@]} = 0 ]; then
        tools/package/build.sh tar >/dev/null
        tars=("$out/siltstone-$version-$(uname -m)-linux.tar.gz")
    fi
    for tar in "${tars[@]}"; do
        tools/package/build.sh --from "$tar" tar deb rpm apk ipk arch image | xargs cp -t "$release"
        write_bill "$(basename "$tar")"
    done
}

write_bill() {
    local architecture=${1#"siltstone-$version-"}
    architecture=${architecture%-linux.tar.gz}
    python3 tools/package/sbom.py "$architecture-unknown-linux-gnu" >"$release/siltstone-$version-$architecture.cdx.json"
}

# The sums alone are signed: they stand for all other files.
sign() {
    (cd "$release" && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
    ! $is_signed || minisign -S -s "$key" -m "$release/SHA256SUMS" -t "siltstone $version" >/dev/null
}

read_arguments "$@"
check_tree
if $is_check; then
    echo "version $version can be released"
    exit
fi
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
rm -rf "$release"
mkdir -p "$release"
build_packages
changes >"$release/CHANGES.md"
sign
ls "$release"
