#!/usr/bin/env bash
# Runs /etc/init.d/memcached with the server at $1 instead of memcached, in private namespaces.
set -uo pipefail
. ./checks.sh
# The work folder is below /tmp, over which a mount follows.
exec 9<"$1"
divert "/proc/self/fd/9" || exit 1

script=/etc/init.d/memcached
pid_file=/var/run/memcached.pid

started() { [ -s "$pid_file" ] && is_server "$(cat "$pid_file")" && stores; }
gone() { ! [ -d "/proc/$1" ]; }
# The server writes its own pid file once clients can connect, so the file may appear after the first reply.
same_pid() { [ -s /run/memcached/memcached.pid ] && [ "$(cat "$pid_file")" = "$(cat /run/memcached/memcached.pid)" ]; }
says() { "$script" status | grep -q "$1"; }

check 'init script: start succeeds' "$script" start
check 'init script: the process it names serves, as the user memcache' eventually started
check 'init script: the pid file of memcached.conf is written' eventually same_pid
check 'init script: status says that it runs' says 'is running'
first="$(cat "$pid_file")"
check 'init script: a second start leaves the first alone' "$script" start
check 'init script: the same process serves' is_server "$first"
check 'init script: restart succeeds' "$script" restart
check 'init script: another process serves' eventually started
check 'init script: the first one is gone' gone "$first"
second="$(cat "$pid_file")"
check 'init script: stop succeeds' "$script" stop
check 'init script: the process is gone' gone "$second"
check 'init script: stop of nothing succeeds' "$script" stop
[ "$failures" = 0 ]
