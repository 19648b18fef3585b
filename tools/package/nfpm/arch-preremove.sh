#!/bin/sh
systemctl disable --now siltstone.service >/dev/null 2>&1 || true
