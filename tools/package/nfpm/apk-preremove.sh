#!/bin/sh
rc-service --ifstarted siltstone stop >/dev/null 2>&1
rc-update --quiet del siltstone >/dev/null 2>&1
exit 0
