# Functions for the scripts of this folder, to be sourced.

# needs PACKAGE...: installs missing Debian packages; without root rights, lists them and fails.
needs() {
    local missing=() package
    for package in "$@"; do
        dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            missing+=("$package")
    done
    if [ "${#missing[@]}" = 0 ]; then
        return
    fi
    if [ "$(id -u)" != 0 ]; then
        echo "required packages are missing; run:  sudo apt-get install ${missing[*]}" >&2
        return 1
    fi
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}
