#!/bin/sh
# The guest's only process. Persistent memory stands where tmpfs would, so that every memory file lies on it.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
for module in $(cat /modules/order); do insmod /modules/$module 2>/dev/null; done
value() { tr ' ' '\n' < /proc/cmdline | sed -n "s/^gannet.$1=//p" | tr '+' ' '; }
mount -t ext4 -o ro /dev/vda /mnt || { echo "guest: no disk"; poweroff -f; }
# What is on an NVDIMM can be mapped by processes once it says of itself that the kernel keeps a record for each of its
# pages (ndctl calls that fsdax); a later start finds it said.
nd=/sys/bus/nd
if [ "$(value format)" = yes ]; then
    pfn=$nd/devices/$(cat $nd/devices/region0/pfn_seed)
    echo namespace0.0 > $nd/drivers/nd_pmem/unbind
    echo ram > $pfn/mode; echo 2097152 > $pfn/align; cat /proc/sys/kernel/random/uuid > $pfn/uuid
    echo namespace0.0 > $pfn/namespace; echo "${pfn##*/}" > $nd/drivers/nd_pmem/bind
    mkfs.ext4 -q -F -b 4096 /dev/pmem0
fi
mkdir -p /dev/shm
mount -t ext4 -o dax=always,noatime /dev/pmem0 /dev/shm || { echo "guest: no DAX"; poweroff -f; }
echo "guest: $(uname -r), $(grep pmem0 /proc/mounts)"
ifconfig lo 127.0.0.1 up

serve() {
    /mnt/gannet serve --memory 64MiB --file /dev/shm/power --file-index $1 --checkpoint 1s --workers 1 --io epoll \
        --memcached 127.0.0.1:11211 --admin 127.0.0.1:11212 > /dev/console 2>&1 &
    until wget -q -O /dev/null http://127.0.0.1:11212/metrics 2> /dev/null; do sleep 1; done
}
figure() { wget -q -O - http://127.0.0.1:11212/metrics | sed -n "s/^$1 //p"; }
# sets COUNT of keys whose name begins so; every value tells its key.
sets() { awk -v n=$2 -v k=$1 'BEGIN { for (i = 0; i < n; i++) {
        printf "set %s%d 0 0 106 noreply\r\n%06d%0100d\r\n", k, i, i, i
    } printf "quit\r\n" }' | nc 127.0.0.1 11211 > /dev/null; }
# How many of COUNT keys are there, and of those how many hold another value than theirs.
found() { awk -v n=$2 -v k=$1 'BEGIN { for (i = 0; i < n; i++) printf "get %s%d\r\n", k, i; printf "quit\r\n" }' |
    nc 127.0.0.1 11211 | tr -d '\r' | awk -v k=$1 '/^VALUE/ { i = substr($2, length(k) + 1); getline; n++
        if ($0 != sprintf("%06d%0100d", i, i)) bad++ } END { print n + 0, bad + 0 }'; }

case "$(value part)" in
kills)
    # Where the tests look for the program.
    path=$(value path); mkdir -p "$(dirname "$path")"; ln -s /mnt/gannet "$path"
    export GANNET_SLOWER=20 GANNET_KILLS=$(value kills)
    /mnt/program restart:: restart_together:: --test-threads=1 > /dev/console 2>&1
    echo "guest: kills ended with $?" ;;
before)
    serve $(value index); sets kept $(value items)
    made=$(figure gannet_checkpoints_total)
    # The second from here began after all was stored.
    while [ $(figure gannet_checkpoints_total) -lt $((made + 2)) ]; do sleep 1; done
    sets late 1000
    echo "guest: stored $(found kept $(value items))"
    sleep 1000 ;;
after)
    serve $(value index)
    while [ "$(figure gannet_index_rebuild_segments)" != 0 ]; do sleep 1; done
    echo "guest: kept $(found kept $(value items))"
    echo "guest: late $(found late 1000)" ;;
esac
poweroff -f
