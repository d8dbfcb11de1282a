#!/usr/bin/env bash
# Tests the packages in FOLDER, as root: lintian, then a new Debian in a folder of its own, in which the package is
# installed, serves under systemd with the unit's restrictions, is upgraded, removed and purged.
#
#   packaging/test-deb.sh FOLDER
#
# The Debian runs in private namespaces and is removed at the end. Each check prints a line that ends in [pass] or
# [FAIL].
set -uo pipefail
folder="$(realpath -e "$1")" || exit 1
cd "$(dirname "$0")" || exit 1
. ./needs.sh
. ../conformance/debian/checks.sh
if [ "$(id -u)" != 0 ]; then
    echo 'dpkg and systemd inside the chroot need root: run this as root'
    exit 1
fi
needs lintian debootstrap binutils systemd || exit 1
version="$(sed -n 's/^Version: //p' "$folder"/*.changes)"
deb="$folder/gannet_${version}_$(dpkg --print-architecture).deb"

work="$(mktemp -d)"
outside=
trap '[ -z "$outside" ] || { kill -KILL "$outside"; wait "$outside" 2>/dev/null; }; rm -rf "$work"' EXIT
root="$work/root"

equals() { [ "$1" = "$2" ] || { echo "$1 instead of $2"; return 1; }; }
no_errors() { lintian --allow-root --fail-on error "$folder"/*.changes; }
below_20_mb() { [ "$(stat -c %s "$work/deb/usr/bin/gannet")" -lt 20000000 ]; }
lists_licences() {
    local crates
    crates="$(zcat "$work/deb/usr/share/doc/gannet/LICENCES.dependencies.gz")"
    for crate in clap rustls ring tracing zstd; do
        grep -qE "^$crate [0-9.]+[^ ]*: .+ \([0-9, ]+\)\$" <<<"$crates" || { echo "no licence of $crate"; return 1; }
    done
    grep -q 'Permission is hereby granted, free of charge' <<<"$crates"
}
symbols_fit() {
    local id
    id="$(readelf -n "$work/deb/usr/bin/gannet" | sed -n 's/.*Build ID: //p')"
    [ -s "$work/dbgsym/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" ]
}
# Up to 2.0 of 10.
is_confined() { systemd-analyze security --offline=true --threshold=20 "$work/gannet@default.service"; }

dpkg-deb -x "$deb" "$work/deb"
dpkg-deb -x "$folder"/gannet-dbgsym_*.deb "$work/dbgsym"
cp "$work/deb/usr/lib/systemd/system/gannet@.service" "$work/gannet@default.service"
check 'lintian finds no error' no_errors
check 'the program has less than 20 MB' below_20_mb
check 'gannet-dbgsym has the symbols of this program' symbols_fit
check 'it contains the licences of its dependencies' lists_licences
check 'systemd-analyze security: the exposure is at most 2.0' is_confined

echo 'debootstrap: a minute'
debootstrap --variant=minbase --include=systemd bookworm "$root" >"$work/debootstrap.log" 2>&1 || {
    tail "$work/debootstrap.log"
    exit 1
}
# Everything that a package may leave behind; dpkg and the log keep records of their own.
records='proc|sys|dev|run|tmp|var/(log|cache|lib/(dpkg|systemd|apt))'
files() { find "$root" -xdev | grep -vE "^$root/($records)(/|$)" | sort; }
rm -f "$root/usr/sbin/policy-rc.d"
files >"$work/before"
users="$(cat "$root/etc/passwd")"
cp "$deb" "$root/gannet.deb"

unshare --mount --pid --fork --kill-child --ipc --uts --net ./test-deb-boot.sh "$root" >"$work/boot.log" 2>&1 &
outside=$!
first_inside() { tr -d ' ' <"/proc/$outside/task/$outside/children" >"$work/pid" && [ -s "$work/pid" ]; }
init=
inside() { nsenter --target "$init" --all --root --wd env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb "$@"; }
up() { inside systemctl list-units >/dev/null 2>&1; }
unit=gannet@default.service
property() { inside systemctl show --property "$1" --value "$unit"; }
with_checks() { inside bash -c "$(cat ../conformance/debian/checks.sh); $1"; }
if ! eventually first_inside || ! { init="$(cat "$work/pid")" && eventually up; }; then
    echo 'systemd does not start here:'
    cat "$work/boot.log"
    exit 1
fi

fails() { ! "$@"; }
check 'dpkg installs the package' inside dpkg -i /gannet.deb
check 'the installation starts no instance' fails inside systemctl is-active "$unit"
check 'the default instance has no fault' inside gannet config --check /etc/gannet/default.toml
check 'systemctl enable --now gannet@default' inside systemctl enable --now "$unit"
check 'systemctl waits until it serves' equals "$(property StatusText)" serving
check 'it stores and returns a value' with_checks 'eventually stores'
check 'it runs as the user gannet' equals "$(inside stat -c %U "/proc/$(property MainPID)")" gannet
check 'it logs no warning' fails inside bash -c "journalctl -u $unit | grep -E 'WARN|ERROR'"
check 'systemctl reload leaves it serving' inside systemctl reload "$unit"
check 'it stores after the reload' with_checks 'eventually stores'
inside bash -c "printf '[store]\nfile = \"/var/lib/gannet/kept/memory\"\nmemory = \"64MiB\"\n[listen]\nmemcached = \
[\"unix:/run/gannet/kept/memcached\"]\nadmin = \"none\"\n' >/etc/gannet/kept.toml"
check 'a second instance keeps a memory file in its folder' inside systemctl start gannet@kept.service
check 'its unix socket is in its runtime folder' with_checks 'eventually test -S /run/gannet/kept/memcached'
pid="$(property MainPID)"
inside bash -c 'echo "# changed" >>/etc/gannet/default.toml'
check 'dpkg installs a newer package' inside dpkg -i --force-confold /gannet.deb
check 'the instance runs the new program' fails equals "$(property MainPID)" "$pid"
check 'it stores after the upgrade' with_checks 'eventually stores'
check 'the changed configuration is kept' inside grep -q '# changed' /etc/gannet/default.toml
inside install -D -m 600 /dev/null /var/lib/gannet/doctor/run.jsonl
inside install -m 600 -o gannet /dev/null /dev/shm/gannet-default
check 'dpkg removes the package' inside dpkg -r gannet
check 'the memory files are kept' inside test -s /var/lib/gannet/kept/memory
check 'no instance runs' fails inside pidof gannet
check 'the configuration is kept' test -s "$root/etc/gannet/default.toml"
check 'dpkg purges the package' inside dpkg -P gannet
check 'the journal of the doctor is kept' inside rm -r /var/lib/gannet/doctor/run.jsonl
check 'the files of the instances are removed' fails inside ls /var/lib/gannet/kept /dev/shm/gannet-default
inside rm -r /var/lib/gannet
rm "$root/gannet.deb"
nothing_left() { files | diff "$work/before" -; }
check 'no file is left' nothing_left
check 'no user is left' equals "$(cat "$root/etc/passwd")" "$users"
if [ "$failures" != 0 ]; then
    inside journalctl --no-pager | grep -i gannet | tail -n 40
fi
[ "$failures" = 0 ]
