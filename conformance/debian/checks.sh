# Functions for both suites, to be sourced.

failures=0

# check NAME COMMAND...: runs the command and reports whether it succeeded.
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

# eventually COMMAND...: retries for ten seconds.
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

# Sets up a private network and private writable files, and mounts the server over memcached.
divert() {
    mount --make-rprivate /
    mount -t proc proc /proc
    mount -t tmpfs tmpfs /run
    mount -t tmpfs tmpfs /tmp
    mount -t tmpfs tmpfs /var/log
    # The package's tmpfiles.d creates this at each boot.
    install -d -m 755 -o memcache -g memcache /run/memcached
    mount --bind "$1" /usr/bin/memcached
    ip link set lo up
}

# process PID: succeeds if the process is the server, run by the user of memcached.conf.
is_server() {
    [ "/proc/$1/exe" -ef /usr/bin/memcached ] && [ "$(stat -c %U "/proc/$1")" = memcache ]
}
