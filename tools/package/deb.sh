# Builds the Debian package; sourced by build.sh.

# The architecture as Debian names it.
deb_architecture() {
    case ${target%%-*} in
        x86_64) echo amd64 ;;
        aarch64) echo arm64 ;;
        riscv64*) echo riscv64 ;;
        *) echo "build.sh: no name of a Debian architecture for $target" >&2; return 1 ;;
    esac
}

deb_control() {
    cat <<TEXT
Package: siltstone
Version: $version
Architecture: $1
Maintainer: Siltstone maintainers <maintainers@siltstone.invalid>
Installed-Size: $(du -sk --apparent-size "$2" | cut -f1)
Depends: adduser
Section: net
Priority: optional
Description: S3-style object store for small hosts
 One binary and one data directory, without replication. A request that was
 answered with 200 is on disk. Unmodified S3 clients work.
 .
 The package runs it as a service under a user of its own, and has the tools
 that check, copy, compact and rebuild a data directory.
TEXT
}

deb_changelog() {
    printf 'siltstone (%s) stable; urgency=medium\n\n  * Release %s.\n\n' "$version" "$version"
    printf ' -- Siltstone maintainers <maintainers@siltstone.invalid>  %s\n' "$(date -uR -d "@$SOURCE_DATE_EPOCH")"
}

# The files of the package, without DEBIAN.
deb_files() {
    local tree=$1 from=tools/package/deb
    mkdir -p "$tree/usr"
    cp -r "$out/stage/." "$tree/usr"
    mv "$tree/usr/share/zsh/site-functions" "$tree/usr/share/zsh/vendor-completions"
    rm "$tree/usr/share/doc/siltstone/LICENSE"
    install -D -m 644 -t "$tree/usr/share/doc/siltstone" "$from/copyright"
    deb_changelog | gzip -9n >"$tree/usr/share/doc/siltstone/changelog.gz"
    install -D -m 644 -t "$tree/usr/lib/systemd/system" "$from"/*.service "$from"/*.timer
    install -D -m 644 -t "$tree/etc/siltstone" "$from/siltstone.toml"
    install -D -m 644 "$from/siltstone.logrotate" "$tree/etc/logrotate.d/siltstone"
    install -D -m 644 "$from/lintian-overrides" "$tree/usr/share/lintian/overrides/siltstone"
}

deb_metadata() {
    local tree=$1 architecture=$2
    mkdir "$tree/DEBIAN"
    (cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
    deb_control "$architecture" "$tree" >"$tree/DEBIAN/control"
    printf '%s\n' /etc/logrotate.d/siltstone /etc/siltstone/siltstone.toml >"$tree/DEBIAN/conffiles"
    install -m 755 -t "$tree/DEBIAN" tools/package/deb/{postinst,prerm,postrm}
}

build_deb() {
    local architecture tree=$out/deb
    architecture=$(deb_architecture)
    rm -rf "$tree"
    deb_files "$tree"
    deb_metadata "$tree" "$architecture"
    chmod -R go=rX,u+w "$tree"
    dpkg-deb --root-owner-group --build "$tree" "$out/siltstone_${version}_$architecture.deb" >/dev/null
    echo "$out/siltstone_${version}_$architecture.deb"
}
