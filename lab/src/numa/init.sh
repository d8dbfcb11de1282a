#!/bin/sh
# The guest's only process: mounts, runs the lab with what the kernel's line asks for, and goes.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
for module in $(cat /modules/order); do insmod /modules/$module 2>/dev/null; done
mount -t ext4 -o noatime /dev/vda /mnt || { echo "guest: no disk"; poweroff -f; }
value() { tr ' ' '\n' < /proc/cmdline | sed -n "s/^gannet.$1=//p" | tr '+' ' '; }
[ -f /sys/kernel/mm/lru_gen/enabled ] && echo "$(value lru)" > /sys/kernel/mm/lru_gen/enabled
echo "guest: $(uname -r), lru_gen $(cat /sys/kernel/mm/lru_gen/enabled 2>/dev/null)"
echo "guest: nodes $(cat /sys/devices/system/node/node*/distance | tr '\n' '/')"
policy=""
[ "$(value policy)" = interleave ] && policy="numactl --interleave=all"
mount -t cgroup2 none /sys/fs/cgroup && echo "+cpu +memory" > /sys/fs/cgroup/cgroup.subtree_control
$policy /mnt/gannet doctor $(value run) --folder /mnt/lab --json > /tmp/outcome 2> /dev/console
echo "guest: the lab ended with $?"
cat /tmp/outcome > /dev/vdb; sync
poweroff -f
