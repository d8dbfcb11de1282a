#!/bin/sh
# The guest's only process: two interfaces on one wire, the server behind one, and behind the other, in a network of its
# own, the generator.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
for module in $(cat /modules/order); do insmod /modules/$module 2>/dev/null; done
value() { tr ' ' '\n' < /proc/cmdline | sed -n "s/^gannet.$1=//p" | tr '+' ' '; }
mount -t ext4 -o ro /dev/vda /mnt || { echo "guest: no disk"; poweroff -f; }
hostname guest
# Of busybox, which has one too, it knows nothing of networks' names.
ip() { /bin/ip "$@"; }
worker=$(value worker); generator=$(value generator)
# What a device's queues are called in /proc/interrupts.
queues() { echo "$(basename "$(readlink /sys/class/net/$1/device)")-[io].*put"; }
numbers() { sed -n "s/^ *\([0-9]*\):.*$1.*/\1/p" /proc/interrupts; }
serves=$(numbers "$(queues eth0)"); asks=$(numbers "$(queues eth1)")
for irq in $serves; do echo "$worker" > /proc/irq/$irq/smp_affinity_list; done
for irq in $asks; do echo "$generator" > /proc/irq/$irq/smp_affinity_list; done
# Where the server's interrupts are to come to, and how many came to each CPU.
place() { cat /proc/irq/$1/smp_affinity_list; }
places() { echo "guest: $1$(for irq in $serves; do printf ' %s=%s' $irq "$(place $irq)"; done)"; }
came() { awk -v of=" $(echo $serves) " -v cpus="$(nproc)" '{ irq = $1; sub(":", "", irq) }
    index(of, " " irq " ") { for (i = 0; i < cpus; i++) sum[i] += $(i + 2) }
    END { printf "guest: came"; for (i = 0; i < cpus; i++) printf " %d", sum[i]; printf "\n" }' /proc/interrupts; }

mkdir -p /run/netns
ip netns add asks
ip link set lo up; ip address add 198.18.78.1/30 dev eth0; ip link set eth0 up
ip link set eth1 netns asks
ip -n asks address add 198.18.78.2/30 dev eth1; ip -n asks link set eth1 up
echo "guest: $(uname -r), $(nproc) CPUs, worker on $worker, generator on $generator"
server=198.18.78.1:11211
/mnt/gannet serve --memcached $server --unprotected --workers 1 --pin "$worker" --memory 64MiB --io epoll \
    > /dev/console 2>&1 &
pid=$!
apart() { nsenter -n/run/netns/asks "$@"; }
until printf 'version\r\nquit\r\n' | apart nc ${server%:*} ${server#*:} | grep -q VERSION; do sleep 1; done
asked() { apart /mnt/gannet load --target $server --quiet --pin "$generator" $(value load) "$@"; }
# Keys are stored first: the proof is of requests at a steady rate.
asked --closed --requests 1 --warm-up 0s > /dev/null 2>&1
asked --no-prefill --rate "$(value rate)" --arrivals constant --duration 12h > /tmp/asked 2>&1 &
sleep 5
places before; came
/mnt/gannet doctor prove --remedy irq.affinity --live 127.0.0.1:9555 --pid $pid \
    --report /tmp/irq.html --json /tmp/proof.json $(value prove) > /tmp/said 2>&1
code=$?
sed 's/^/guest: | /' /tmp/said
echo "guest: prove ended with $code"
came; places after
/mnt/gannet doctor undo 2>&1 | sed 's/^/guest: | /'
places undone
cp -r /var/lib/gannet/doctor /tmp/journals
cd /tmp && tar -cf - irq.html proof.json journals > /dev/vdb; sync
poweroff -f
