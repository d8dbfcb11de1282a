#!/usr/bin/env bash
# Runs memcached.service with the server instead of memcached, under a private systemd, with all of the unit's
# restrictions. $1 is the work folder, in which the server is called memcached.
set -uo pipefail
. ./checks.sh

unshare --mount --pid --fork --kill-child --ipc --uts --net ./systemd-boot.sh "$1/memcached" >"$1/systemd.log" 2>&1 &
outside=$!
trap 'kill -KILL "$outside" 2>/dev/null; wait "$outside" 2>/dev/null' EXIT

# The first process inside, by its id in this namespace.
first_inside() { tr -d " " <"/proc/$outside/task/$outside/children" >"$1" && [ -s "$1" ]; }
if ! eventually first_inside "$1/pid"; then
    echo 'systemd does not start here:'
    cat "$1/systemd.log"
    exit 1
fi
init="$(cat "$1/pid")"
inside() { nsenter --target "$init" --mount --pid --net --ipc --uts "$@"; }
ask() { inside systemctl "$@"; }
property() { ask show --property "$1" --value memcached.service; }
field() { inside sed -n "s/^$1:[[:space:]]*//p" "/proc/$(property MainPID)/status"; }
active() { [ "$(ask is-active memcached.service 2>/dev/null)" = active ]; }
# The folder of this file may not be visible inside, so the text of checks.sh is passed along.
with_checks() { inside bash -c "$(cat checks.sh); $1" - "${@:2}"; }
in_place() { with_checks 'is_server "$1"' "$(property MainPID)"; }
serves() { eventually active && with_checks 'eventually stores'; }
# The server writes it once clients can connect, so it may appear after the first reply.
pid_file_names_main() { equals "$(property MainPID)" "$(inside cat /run/memcached/memcached.pid)"; }
equals() { [ "$1" = "$2" ] || { echo "$1 instead of $2"; return 1; }; }

check 'systemd: the unit of the package starts it' eventually active
check 'systemd: it serves at the address of memcached.conf' serves
check 'systemd: the main process is the server, as the user memcache' in_place
check 'systemd: the pid file names the main process' eventually pid_file_names_main
# The effect of the unit's CapabilityBoundingSet, NoNewPrivileges and system call filters.
check 'systemd: it has no capability' equals "$(field CapEff)" 0000000000000000
# setgid, setuid and sys_resource, as far as this machine grants them.
bound=$((0x$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status) & 0x10000c0))
check 'systemd: it can be given no more than the unit grants' equals "$(field CapBnd)" "$(printf '%016x' "$bound")"
check 'systemd: it can gain no privilege' equals "$(field NoNewPrivs)" 1
check 'systemd: its system calls are filtered' equals "$(field Seccomp)" 2
for name in MemoryDenyWriteExecute PrivateDevices PrivateTmp RestrictRealtime RestrictNamespaces; do
    check "systemd: the unit asks for $name" equals "$(property "$name")" yes
done
check 'systemd: nothing had to be restarted' equals "$(property NRestarts)" 0
before="$(property MainPID)"
check 'systemd: restart succeeds' ask restart memcached.service
check 'systemd: it serves again' serves
check 'systemd: by another process' test "$(property MainPID)" != "$before"
check 'systemd: reload by SIGHUP leaves it serving' ask kill --signal HUP memcached.service
check 'systemd: it still serves' serves
check 'systemd: stop succeeds' ask stop memcached.service
check 'systemd: the unit ended well' equals "$(property Result) $(property ExecMainStatus)" 'success 0'
if [ "$failures" != 0 ]; then
    inside journalctl --unit memcached.service --no-pager | tail -n 20
    tail -n 20 "$1/systemd.log"
fi
[ "$failures" = 0 ]
