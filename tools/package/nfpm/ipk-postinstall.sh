#!/bin/sh
# While an image is built, IPKG_INSTROOT is its root. lib/functions.sh writes into that one, too.
set -e
. "${IPKG_INSTROOT}/lib/functions.sh"
group_exists siltstone || group_add siltstone 9000
user_exists siltstone || user_add siltstone 9000 9000 siltstone /var/lib/siltstone /bin/false
