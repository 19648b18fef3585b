# How cargo builds the static programs; sourced by build.sh.

# Sets what cargo reads, for a target. Paths in messages of panics are independent of the machine, and there are no symbols: those are in
# a build of the same commit. A static program cannot look up whether libc has getrandom(2), and would read /dev/urandom instead, which
# a bare root does not have.
static_environment() {
    local flags=(-C target-feature=+crt-static --cfg 'getrandom_backend="linux_getrandom"')
    flags+=("--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" "--remap-path-prefix=$PWD=.")
    export CARGO_BUILD_TARGET=$1
    export RUSTFLAGS="${RUSTFLAGS:-} ${flags[*]}"
    export CARGO_PROFILE_RELEASE_STRIP=symbols
}
