#!/usr/bin/env bash
# Builds and tries the programs for 64-bit ARM on another machine; see usage below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
    cat <<'TEXT'
Builds Siltstone for 64-bit ARM on a Debian of another architecture, and runs it by qemu.

usage: tools/package/cross.sh STEP ...

  package   static programs; their tar file, the deb and the other packages in target/package
  smoke     runs a part of the client suite against the static programs, and verifies, restarts and kills them
  test      the unit tests of format, index and log
  deb       installs the deb in a Debian for ARM, starts the server in it, and removes it
  all       all of these

The compiler and the libraries are Debian's rustc-web and libstd-rust-web-dev:arm64, unpacked in target/cross. Nothing else of the
system changes but that the compiler for C, the C library and qemu-user-static are installed where they are missing.
SILTSTONE_BIN of the smoke is a script that calls qemu. None of this is part of .ci/run: it takes longer than all of that.
TEXT
}

cross=$PWD/target/cross
toolchain=$cross/toolchain
built=${CARGO_TARGET_DIR:-target}

architecture=aarch64
target=aarch64-unknown-linux-gnu
emulator=(qemu-aarch64-static -L /usr/aarch64-linux-gnu)

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

get_tools() {
    local missing=()
    command -v "$architecture-linux-gnu-gcc" >/dev/null || missing+=("gcc-$architecture-linux-gnu")
    [ -e "/usr/$architecture-linux-gnu/lib/libc.a" ] || missing+=(libc6-dev-arm64-cross)
    command -v "${emulator[0]}" >/dev/null || missing+=(qemu-user-static)
    [ ${#missing[@]} = 0 ] || as_root apt-get install -qq -y --no-install-recommends "${missing[@]}"
    [ -x "$cross/rustc" ] || unpack_toolchain
    "$cross/rustc" --version
    export CROSS_RUSTC=$cross/rustc
}

# Lists of both architectures, in a folder of their own: the system goes on with its own.
apt_here() {
    "$1" -o APT::Sandbox::User=root -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o "Dir::State::Lists=$cross/lists" -o "Dir::Cache=$cross/cache" "${@:2}"
}

unpack_toolchain() {
    local package llvm
    mkdir -p "$cross/lists/partial" "$cross/cache/archives/partial" "$cross/debs"
    apt_here apt-get update -qq
    (
        cd "$cross/debs"
        apt_here apt-get download -qq rustc-web:amd64 libstd-rust-web-dev:amd64 libstd-rust-web-dev:arm64
        # The library of the compiler has a version in its name, as has that of LLVM.
        package=$(dpkg-deb --field libstd-rust-web-dev_*_amd64.deb Depends | grep -o 'libstd-rust-web-[0-9.]*' | head -n 1)
        apt_here apt-get download -qq "$package:amd64"
        llvm=$(dpkg-deb --field "$package"_*.deb Depends | grep -o 'libllvm[0-9]*')
        apt_here apt-get download -qq "$llvm:amd64"
    )
    rm -rf "$toolchain"
    for package in "$cross"/debs/*.deb; do
        dpkg-deb --extract "$package" "$toolchain"
    done
    rm -rf "$cross/debs" "$cross/cache"
    # It finds its own libraries, and nothing else looks there.
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' \
        "$toolchain/usr/lib/x86_64-linux-gnu:$toolchain/usr/lib" "$toolchain/usr/bin/rustc" >"$cross/rustc"
    chmod +x "$cross/rustc"
}

# What cargo and the build script of ring ask for.
export_tools() {
    local name=${target//-/_}
    export "CC_$name=$architecture-linux-gnu-gcc"
    export "CARGO_TARGET_${name^^}_LINKER=$architecture-linux-gnu-gcc"
    export "CARGO_TARGET_${name^^}_RUNNER=${emulator[*]}"
}

package() {
    tools/package/build.sh --target "$target" tar deb rpm apk ipk arch
}

# Programs that call those built by the emulator, for whoever starts programs by their names. With these variables the server does not
# execute itself once more, which the kernel could not without the emulator.
write_emulated() {
    local program
    mkdir -p "$cross/bin-$architecture"
    for program in siltstone siltstone-tools; do
        printf '#!/bin/sh\nexport MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072\nexec %s %s "$@"\n' "${emulator[*]}" "$(realpath "$built/$target/release/$program")" >"$cross/bin-$architecture/$program"
        chmod +x "$cross/bin-$architecture/$program"
    done
}

# Under qemu each system call costs many times what it does natively: these tests do not depend on time.
smoke() {
    write_emulated
    SILTSTONE_BIN=$cross/bin-$architecture/siltstone tests/clients/run.sh -q test_python_clients.py test_multipart.py test_versions.py test_emulated.py
}

run_tests() {
    ${CROSS_RUSTC:+env "RUSTC=$CROSS_RUSTC"} cargo test --quiet --locked --lib --target "$target" -- format:: index:: log::
}

# A Debian whose programs are those of ARM; the kernel hands them to the emulator meanwhile.
install_deb() {
    local root deb handler=/proc/sys/fs/binfmt_misc/qemu-aarch64
    deb=$(ls -t target/package/siltstone_*_arm64.deb | head -n 1)
    [ "$(id -u)" = 0 ] || { echo "cross.sh: deb needs root" >&2; return 1; }
    # A mount namespace of its own, so that nothing stays mounted. The entry is global, and goes with the trap.
    if [ -z "${CROSS_IS_INSIDE:-}" ]; then
        CROSS_IS_INSIDE=1 exec unshare --mount "$0" deb-itself
    fi
    [ -e "$handler" ] || mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    root=$(mktemp -d)
    if [ ! -e "$handler" ]; then
        printf '%s' ':qemu-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:F' >/proc/sys/fs/binfmt_misc/register
        # Filled in here: the function has ended when the trap runs.
        trap "echo -1 >'$handler'; rm -rf '$root'" EXIT
    else
        trap "rm -rf '$root'" EXIT
    fi
    mmdebstrap --quiet --architectures=arm64 --variant=minbase --include=adduser bookworm "$root"
    cp "$deb" "$root/siltstone.deb"
    chroot "$root" sh -euxc '
        dpkg --print-architecture | grep -x arm64
        dpkg --install /siltstone.deb
        siltstone --version
        # As the unit does it.
        install -d -o siltstone -g siltstone -m 750 /var/lib/siltstone
        setpriv --reuid=siltstone --regid=siltstone --init-groups siltstone --config /etc/siltstone/siltstone.toml >/said 2>&1 &
        until grep -q "listening on" /said; do kill -0 $! || { cat /said; exit 1; }; sleep 0.2; done
        siltstone health
        value() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" /var/lib/siltstone/users.toml | head -1; }
        SILTSTONE_ACCESS_KEY=$(value access_key) SILTSTONE_SECRET_KEY=$(value secret_key) siltstone-tools bench --duration 50ms --objects 20 --clients 4
        kill $!
        wait $!
        siltstone-tools --data-dir /var/lib/siltstone verify
        dpkg --purge siltstone | grep "were kept"
    '
}

[ $# -gt 0 ] || { usage >&2; exit 2; }
case $1 in --help | -h) usage; exit 0 ;; esac
steps=("$@")
[ "${steps[*]}" != all ] || steps=(package smoke test deb)
for step in "${steps[@]}"; do
    case $step in
        package | smoke | test | deb | deb-itself) ;;
        *) echo "cross.sh: unknown step: $step; see --help" >&2; exit 2 ;;
    esac
done
get_tools
export_tools
for step in "${steps[@]}"; do
    case $step in
        package) package ;;
        smoke) smoke ;;
        test) run_tests ;;
        # Of its own: it ends this process.
        deb) "$0" deb-itself ;;
        deb-itself) install_deb ;;
    esac
done
