#!/bin/sh
# $1 is the number of versions that are installed after this step: 1 for the first one.
set -e

create_user() {
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers siltstone.conf
    elif ! getent passwd siltstone >/dev/null; then
        useradd --system --user-group --home-dir /var/lib/siltstone --shell /usr/sbin/nologin siltstone
    fi
}

create_user
if command -v systemctl >/dev/null; then
    # The distribution's presets decide whether services of packages are enabled.
    if [ "${1:-1}" = 1 ]; then systemctl preset siltstone.service >/dev/null 2>&1 || true; fi
    systemctl daemon-reload >/dev/null 2>&1 || true
fi
