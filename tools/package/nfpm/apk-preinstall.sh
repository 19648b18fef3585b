#!/bin/sh
# The user keeps its number over removals, since the data belong to it.
addgroup -S siltstone 2>/dev/null
adduser -S -D -H -h /var/lib/siltstone -s /sbin/nologin -G siltstone -g siltstone siltstone 2>/dev/null
exit 0
