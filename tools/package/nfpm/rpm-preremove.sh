#!/bin/sh
# $1 is the number of versions that stay: 0 at a removal, 1 at an upgrade.
if [ "${1:-0}" = 0 ] && command -v systemctl >/dev/null; then
    systemctl disable --now siltstone-backup.timer siltstone.service >/dev/null 2>&1 || true
fi
