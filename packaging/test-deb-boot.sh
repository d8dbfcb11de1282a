#!/usr/bin/env bash
# Becomes the systemd of the Debian in folder $1, as the first process of private namespaces.
set -euo pipefail
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/run"
mount -t tmpfs tmpfs "$1/tmp"
mount -o remount,rw "$1/sys/fs/cgroup" 2>/dev/null || true
ip link set lo up
cd "$1"
mkdir -p run/old
pivot_root . run/old
umount -l /run/old
rmdir /run/old
exec env -i PATH="$PATH" container=test /usr/lib/systemd/systemd --system --unit=basic.target
