#!/usr/bin/env bash
# Tests Debian's ways to start memcached, with Gannet instead of the binary and everything else unchanged.
#
# Everything runs in private namespaces: the machine's files, processes and network stay unchanged. Inside, the server
# is mounted over /usr/bin/memcached, and Debian's init script, and systemd with the package's unit, start it.
#
#   GANNET_BIN=target/release/gannet conformance/debian/run.sh
#
# Each check prints a line that ends in [pass] or [FAIL].
set -uo pipefail
cd "$(dirname "$0")"

server="$(realpath -e "${GANNET_BIN:?say which server in GANNET_BIN}")" || exit 1
if [ "$(id -u)" != 0 ]; then
    echo 'Debian starts memcached as root: run this as root'
    exit 1
fi

changed="$(dpkg --verify memcached)"
if [ -n "$changed" ]; then
    printf 'files of the package have been changed, so this is not what Debian ships:\n%s\n' "$changed"
    exit 1
fi

# A unique name for the processes inside.
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp "$server" "$work/memcached"
chmod 755 "$work" "$work/memcached"

spaces=(unshare --mount --pid --fork --kill-child --ipc --uts --net)
if ! "${spaces[@]}" true; then
    echo 'this machine gives no namespaces, so nothing can be shown here'
    exit 1
fi

status=0
timeout 60 "${spaces[@]}" ./init-script.sh "$work/memcached" || status=1
timeout 60 ./systemd-unit.sh "$work" || status=1
exit "$status"
