# Builds the container image; sourced by build.sh.

# Storage of its own, so that nothing stays in that of the user. No command runs in the image, so no privileges are needed beyond
# those of buildah itself.
buildah_here() {
    buildah --root "$PWD/$out/buildah/root" --runroot "$PWD/$out/buildah/run" --storage-driver vfs "$@"
}

# The architecture as images name it.
image_architecture() {
    case ${target%%-*} in
        x86_64) echo amd64 ;;
        aarch64) echo arm64 ;;
        riscv64*) echo riscv64 ;;
        *) echo "build.sh: no name of an image architecture for $target" >&2; return 1 ;;
    esac
}

# The whole root. The tools are not in it: with them it would weigh nearly twice as much. The program looks at the name that it is called
# by: `minio server /data`, `mc ready local`, `curl -f http://localhost:9000/minio/health/live` of compose files work as they are.
# /data is open to every user like /tmp: a fresh volume takes its mode over, whichever uid the server has.
image_files() {
    local name
    install -D -t "$1/bin" "$out/stage/bin/siltstone"
    for name in minio mc curl wget; do
        ln -s siltstone "$1/bin/$name"
    done
    # Where MinIO's image has them, for commands with paths.
    install -d "$1/usr/bin" "$1/opt/bin"
    ln -s ../../bin/siltstone "$1/opt/bin/minio"
    for name in minio mc curl docker-entrypoint.sh; do
        ln -s ../../bin/siltstone "$1/usr/bin/$name"
    done
    install -D -m 644 -t "$1/usr/share/doc/siltstone" LICENSE
    install -d -m 1777 "$1/data"
}

# MinIO's image has the same entry point in effect, volume and port. Without a user of its own it runs as root, as that one: data
# directories of hosts belong to root more often than to any other user.
configure_image() {
    buildah_here config --arch "$(image_architecture)" --os linux \
        --entrypoint '["/bin/siltstone"]' --cmd '["server","/data"]' \
        --volume /data --port 9000/tcp --env PATH=/bin --workingdir / \
        --healthcheck 'CMD /bin/siltstone health' --healthcheck-interval 10s --healthcheck-timeout 10s \
        --healthcheck-start-period 60s --healthcheck-retries 3 \
        --label org.opencontainers.image.title=siltstone --label "org.opencontainers.image.version=$version" \
        --label org.opencontainers.image.licenses=Apache-2.0 \
        --label 'org.opencontainers.image.description=S3-style object store for small hosts' "$1"
}

build_rootfs() {
    rm -rf "$out/image"
    image_files "$out/image"
    echo "$out/image"
}

# The root with a shell, the small programs of busybox and the tools. Those that the program stands for keep its links.
debug_image_files() {
    local busybox applet
    busybox=$(command -v busybox) || { echo "build.sh: the debug image needs a static busybox (Debian: busybox-static)" >&2; return 1; }
    check_static "$busybox"
    image_files "$1"
    install -t "$1/bin" "$out/stage/bin/siltstone-tools" "$busybox"
    for applet in $("$busybox" --list); do
        [ -e "$1/bin/$applet" ] || ln -s busybox "$1/bin/$applet"
    done
    rm "$1/bin/wget" && ln -s busybox "$1/bin/wget"
    install -d -m 1777 "$1/tmp"
}

# In Docker's format of the configuration: OCI's has no place for a health check. All engines read both.
commit_image() {
    local tree=$1 tag=$2 name=$3 container
    container=$(buildah_here from --format docker scratch)
    buildah_here copy --quiet "$container" "$tree" / >/dev/null
    configure_image "$container"
    buildah_here commit --quiet --format docker --timestamp "$SOURCE_DATE_EPOCH" "$container" "siltstone:$tag" >/dev/null
    buildah_here push --quiet "siltstone:$tag" "docker-archive:$out/$name:siltstone:$tag"
    echo "$out/$name"
}

build_image() {
    local base=siltstone-$version-${target%%-*}
    rm -rf "$out/image" "$out/image-debug" "$out/buildah" "$out/$base-image.tar" "$out/$base-image-debug.tar"
    image_files "$out/image"
    commit_image "$out/image" "$version" "$base-image.tar"
    debug_image_files "$out/image-debug"
    commit_image "$out/image-debug" "$version-debug" "$base-image-debug.tar"
    rm -rf "$out/buildah"
}
