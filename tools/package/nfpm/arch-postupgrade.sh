#!/bin/sh
systemctl daemon-reload >/dev/null 2>&1 || true
systemctl try-restart siltstone.service >/dev/null 2>&1 || true
