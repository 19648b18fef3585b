#!/bin/sh
# Services are not started by packages of Arch.
systemd-sysusers siltstone.conf || true
systemctl daemon-reload >/dev/null 2>&1 || true
echo 'Start it with: systemctl enable --now siltstone'
