#!/bin/sh
systemctl disable --now siltstone-backup.timer siltstone.service >/dev/null 2>&1 || true
