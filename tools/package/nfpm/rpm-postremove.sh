#!/bin/sh
# $1 is the number of versions that stay. After an upgrade the files are those of the new version.
command -v systemctl >/dev/null || exit 0
systemctl daemon-reload >/dev/null 2>&1 || true
if [ "${1:-0}" -ge 1 ]; then
    systemctl try-restart siltstone.service >/dev/null 2>&1 || true
fi
