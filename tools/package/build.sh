#!/usr/bin/env bash
# Builds the packages; see usage below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
    cat <<'TEXT'
Builds the packages of Siltstone in target/package.

usage: tools/package/build.sh [--target TRIPLE] [PART ...]

Parts, all by default:
  tar       siltstone-VERSION-ARCH-linux.tar.gz: static programs, man pages, shell completions
  deb       siltstone_VERSION_ARCH.deb: the same as a service of systemd
  image     siltstone-VERSION-ARCH-image.tar: a container image for docker load or podman load; and the same with a shell,
            siltstone-VERSION-ARCH-image-debug.tar
  programs  only the programs, static, in target/TRIPLE/release; not by default

Options:
  --target TRIPLE   architecture to build for; default: that of this host. For
                    another one, rustup needs the target and cargo its linker,
                    as CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER
  --help            this text

Examples:
  tools/package/build.sh
  tools/package/build.sh tar
      Unpack it with: tar -xzf FILE -C /usr/local --strip-components=1
  tools/package/build.sh image
      Use it with: docker load -i FILE, docker run -p 9000:9000 -v siltstone:/data siltstone:VERSION

Needs cargo and a C compiler, dpkg-deb for the deb, and buildah and a static busybox
for the image.
The same commit gives the same tar and deb on the same host: times in them are
that of the commit, or SOURCE_DATE_EPOCH.
TEXT
}

out=target/package
target=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p;T;q' Cargo.toml)
parts=()

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --help | -h) usage; exit 0 ;;
            --target) target=${2:?--target needs a triple}; shift ;;
            tar | deb | image | programs) parts+=("$1") ;;
            *) echo "build.sh: unknown argument: $1; see --help" >&2; exit 2 ;;
        esac
        shift
    done
    [ ${#parts[@]} -gt 0 ] || parts=(tar deb image)
}

# Machine-independent paths in messages of panics, and no symbols: those are in a build of the same commit. A static program cannot
# look up whether libc has getrandom(2), and would read /dev/urandom instead, which a bare root does not have.
build_programs() {
    local flags=(-C target-feature=+crt-static --cfg 'getrandom_backend="linux_getrandom"')
    flags+=("--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" "--remap-path-prefix=$PWD=.")
    RUSTFLAGS="${RUSTFLAGS:-} ${flags[*]}" CARGO_PROFILE_RELEASE_STRIP=symbols \
        cargo build --quiet --release --locked --target "$target" --bins
}

# The linker falls back to shared libraries where a static one is missing.
check_static() {
    local program
    for program in "$@"; do
        if readelf --program-headers "$program" | grep -q INTERP || readelf --dynamic "$program" | grep -q NEEDED; then
            echo "build.sh: $program needs shared libraries" >&2
            return 1
        fi
    done
}

# Man pages and completions, from a build of the tests for this host.
write_pages() {
    local log=$out/pages.log
    SILTSTONE_PAGES=$PWD/$out/stage cargo test --quiet --locked --bins -- --ignored write_pages >"$log" 2>&1 || { cat "$log"; return 1; }
}

# The files below a prefix such as /usr or /usr/local.
stage() {
    local built=target/$target/release
    check_static "$built/siltstone" "$built/siltstone-tools"
    rm -rf "$out/stage"
    install -D -t "$out/stage/bin" "$built/siltstone" "$built/siltstone-tools"
    write_pages
    gzip -9n "$out"/stage/share/man/man1/*
    install -D -m 644 -t "$out/stage/share/doc/siltstone" README.md LICENSE
}

# A tar file that depends on names, modes and contents alone.
make_tar() {
    tar --create --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=go=rX,u+w --mtime="@$SOURCE_DATE_EPOCH" "$@"
}

build_tar() {
    local name=siltstone-$version-${target%%-*}-linux
    make_tar --transform="s,^\.,$name," -C "$out/stage" . | gzip -9n >"$out/$name.tar.gz"
    echo "$out/$name.tar.gz"
}

. tools/package/deb.sh
. tools/package/image.sh

read_arguments "$@"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH
build_programs
[ "${parts[*]}" != programs ] || exit 0
stage
for part in "${parts[@]}"; do
    "build_$part"
done
