# What both suites share. Sourced.

failures=0

# check NAME COMMAND...: runs the command and says whether it succeeded.
check() {
    local name="$1" output
    shift
    if output="$("$@" 2>&1)"; then
        printf '%-70s [pass]\n' "$name"
    else
        printf '%-70s [FAIL]\n' "$name"
        printf '    %s: %s\n' "$*" "$output"
        failures=$((failures + 1))
    fi
}

# eventually COMMAND...: tries for ten seconds.
eventually() {
    local try
    for try in $(seq 100); do
        "$@" && return 0
        sleep 0.1
    done
    return 1
}

# Stores and reads a value at the address of memcached.conf.
stores() {
    exec 3<>/dev/tcp/127.0.0.1/11211 || return 1
    printf 'set debian 0 0 5\r\nhello\r\nget debian\r\nquit\r\n' >&3
    local answer
    answer="$(tr -d '\r' <&3)"
    exec 3>&-
    [ "$answer" = $'STORED\nVALUE debian 0 5\nhello\nEND' ]
} 2>/dev/null

# A network and files to write to that nobody else has, and the server in the place of memcached.
divert() {
    mount --make-rprivate /
    mount -t proc proc /proc
    mount -t tmpfs tmpfs /run
    mount -t tmpfs tmpfs /tmp
    mount -t tmpfs tmpfs /var/log
    # What the package's tmpfiles.d asks for at each start of the machine.
    install -d -m 755 -o memcache -g memcache /run/memcached
    mount --bind "$1" /usr/bin/memcached
    ip link set lo up
}

# process PID: it is the server, run by the user of memcached.conf.
is_server() {
    [ "/proc/$1/exe" -ef /usr/bin/memcached ] && [ "$(stat -c %U "/proc/$1")" = memcache ]
}
