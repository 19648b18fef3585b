# The life of the Debian package, run as root on a Debian whose init is systemd (test_deb.py starts one). Expects old.deb and new.deb,
# of which the older has another version and another configuration file, beside itself. Prints "the end" if all held.
set -euxo pipefail
cd "$(dirname "$0")"
export DEBIAN_FRONTEND=noninteractive

config=/etc/siltstone/siltstone.toml
data=/var/lib/siltstone
as_siltstone="runuser -u siltstone -- siltstone --config $config"

# Where both sides changed the configuration, that of the administrator stays.
install_package() {
    dpkg --force-confdef --force-confold --install "$1"
}

# "set -e" does not see a command after "!".
refuse() {
    if "$@"; then return 1; fi
}

status_of() {
    exec 3<>/dev/tcp/127.0.0.1/9000
    printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$1" >&3
    local line
    read -r line <&3
    echo "$line"
}

main_pid() {
    systemctl show --value -p MainPID siltstone
}

# Starts return once the server accepts connections, so nothing waits here.
serves() {
    systemctl is-active siltstone
    status_of /-/ready | grep ' 200 '
}

value() {
    sed -n "s/^$1 = \"\(.*\)\"/\1/p" $data/users.toml | head -1
}

writes_and_reads() {
    SILTSTONE_ACCESS_KEY=$(value access_key) SILTSTONE_SECRET_KEY=$(value secret_key) \
        siltstone-tools bench --duration 50ms --objects 20
}

: an installation starts the service
install_package old.deb
serves
systemctl is-enabled siltstone
writes_and_reads
[ "$(stat -c %U:%G:%a $data)" = siltstone:siltstone:700 ]
[ "$(stat -c %U "/proc/$(main_pid)")" = siltstone ]
user=$(id siltstone)

: a reload reads the users again
pid=$(main_pid)
$as_siltstone user add camera --actions PutObject --resources 'pictures/*'
systemctl reload siltstone
until journalctl -u siltstone | grep 'the users file was read again'; do sleep 0.1; done
[ "$(main_pid)" = "$pid" ]
$as_siltstone user list | grep camera

: a backup is made where the administrator asks for it
refuse systemctl is-enabled siltstone-backup.timer
refuse systemctl start siltstone-backup.service
install -d -o siltstone -g siltstone -m 700 /var/backups/siltstone
systemctl enable --now siltstone-backup.timer
systemctl start siltstone-backup.service
ls /var/backups/siltstone/*/users.toml

: the files of its logs are rotated by renaming
sed -i 's,^# access_log = ,access_log = ,' $config
systemctl restart siltstone
[ "$(stat -c %U:%a /var/log/siltstone)" = siltstone:750 ]
status_of /rotated
mv /var/log/siltstone/access.log /var/log/siltstone/access.log.1
systemctl reload siltstone
until [ -e /var/log/siltstone/access.log ]; do sleep 0.1; done
grep '/rotated' /var/log/siltstone/access.log.1
pid=$(main_pid)

: an upgrade keeps the configuration and restarts
echo '# changed by the administrator' >>$config
install_package new.deb
grep -q 'changed by the administrator' $config
serves
[ "$(main_pid)" != "$pid" ]
[ "$(siltstone --version)" = "siltstone $(dpkg-query -Wf '${Version}' siltstone)" ]
$as_siltstone user list | grep camera

: an upgrade does not start a service that was stopped and disabled
systemctl disable --now siltstone
install_package old.deb
refuse systemctl is-active siltstone
refuse systemctl is-enabled siltstone
systemctl enable --now siltstone
serves

: a removal stops it and keeps configuration and data
dpkg -r siltstone
refuse systemctl is-active siltstone
[ -e $config ] && [ -e $data/users.toml ]

: a later installation goes on with them
install_package new.deb
serves
$as_siltstone user list | grep camera

: a purge takes the configuration and keeps objects with their user
dpkg -P siltstone | tee purged
grep -q 'were kept' purged
[ ! -e /etc/siltstone ] && [ -e $data/users.toml ]
[ "$(id siltstone)" = "$user" ]
refuse systemctl cat siltstone

: a purge without objects leaves nothing
rm -rf $data
install_package new.deb
systemctl stop siltstone
rm -rf /var/backups/siltstone
find $data -mindepth 1 -delete
dpkg -P siltstone
[ ! -e $data ] && [ ! -e /etc/siltstone ]
find / -xdev -path /test -prune -o -path /var/log -prune -o -name '*siltstone*' -print | tee left
[ ! -s left ]

echo 'the end'
