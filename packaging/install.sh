#!/usr/bin/env bash
# Installs a release build with its man pages, completions, unit and default instance below DESTDIR:
#
#   packaging/install.sh BINARY DESTDIR PREFIX
#
# An existing /etc/gannet/default.toml is kept. STRIP names the program that removes debug symbols from the installed
# copy; BINARY itself keeps them.
set -euo pipefail
binary="$(realpath -e "$1")" dest="${2:+$(realpath -m "$2")}" prefix="$3"
cd "$(dirname "$0")"

generated="$(mktemp -d)"
trap 'rm -rf "$generated"' EXIT
for what in man bash zsh fish; do
    mkdir "$generated/$what"
    "$binary" generate "$what" "$generated/$what"
done
"$binary" config --default >"$generated/default.toml"
sed "s|@BINDIR@|$prefix/bin|" gannet@.service >"$generated/gannet@.service"

# Debian's zsh has one folder for packages and another for the administrator.
zsh=site-functions
if [ "$prefix" = /usr ]; then
    zsh=vendor-completions
fi
share="$dest$prefix/share"
install -D -m 755 "$binary" "$dest$prefix/bin/gannet"
"${STRIP:-strip}" "$dest$prefix/bin/gannet"
install -D -m 644 -t "$share/man/man1" "$generated"/man/*.1
install -D -m 644 "$generated/bash/gannet.bash" "$share/bash-completion/completions/gannet"
install -D -m 644 "$generated/zsh/_gannet" "$share/zsh/$zsh/_gannet"
install -D -m 644 "$generated/fish/gannet.fish" "$share/fish/vendor_completions.d/gannet.fish"
install -D -m 644 "$generated/gannet@.service" "$dest$prefix/lib/systemd/system/gannet@.service"
install -D -m 644 gannet.sysusers "$dest$prefix/lib/sysusers.d/gannet.conf"
if [ ! -e "$dest/etc/gannet/default.toml" ]; then
    install -D -m 644 "$generated/default.toml" "$dest/etc/gannet/default.toml"
fi
