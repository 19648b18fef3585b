#!/bin/sh
[ -z "${IPKG_INSTROOT}" ] || exit 0
/etc/init.d/siltstone stop
/etc/init.d/siltstone disable
exit 0
