#!/usr/bin/env bash
# Becomes a systemd that starts only memcached.service, as the first process of private namespaces.
set -euo pipefail
. ./checks.sh
exec 9<"$1"
divert /proc/self/fd/9
exec 9<&-
# Its control groups are created below those of this process.
mount -o remount,rw /sys/fs/cgroup 2>/dev/null || true
exec env -i PATH="$PATH" container=test /usr/lib/systemd/systemd --system --unit=memcached.service
