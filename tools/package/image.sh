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

# The whole root. The tools are not in it: with them it would weigh more than its 15 MB. /data is open to every user like /tmp: a fresh volume takes its mode over, whichever uid the server has.
image_files() {
    install -D -t "$1/bin" "$out/stage/bin/siltstone"
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

# In Docker's format of the configuration: OCI's has no place for a health check. All engines read both.
build_image() {
    local tree=$out/image container name=siltstone-$version-${target%%-*}-image.tar
    rm -rf "$tree" "$out/buildah" "$out/$name"
    image_files "$tree"
    container=$(buildah_here from --format docker scratch)
    buildah_here copy --quiet "$container" "$tree" / >/dev/null
    configure_image "$container"
    buildah_here commit --quiet --format docker --timestamp "$SOURCE_DATE_EPOCH" "$container" "siltstone:$version" >/dev/null
    buildah_here push --quiet "siltstone:$version" "docker-archive:$out/$name:siltstone:$version"
    rm -rf "$out/buildah"
    echo "$out/$name"
}
