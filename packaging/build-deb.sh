#!/usr/bin/env bash
# Builds the Debian packages of a release build in FOLDER, whose earlier packages are removed:
#
#   packaging/build-deb.sh BINARY FOLDER
set -euo pipefail
mkdir -p "$2"
binary="$(realpath -e "$1")" folder="$(realpath -e "$2")"
cd "$(dirname "$0")"
. ./needs.sh
needs dpkg-dev debhelper python3

rm -rf "${folder:?}"/*
work="$folder/gannet"
mkdir "$work"
cp -r debian "$work"
cp gannet.sysusers "$work/debian/gannet.sysusers"
cp -r ../README.md ../NOTICE ../docs "$work"
./licences.py >"$work/LICENCES.dependencies"

# The program's version, at the time of the latest commit, so that two builds of one commit are equal.
version="$("$binary" --version | cut -d ' ' -f 2)"
time="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
maintainer="$(sed -n 's/^Maintainer: //p' debian/control)"
printf 'gannet (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of the source.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -u -R -d "@$time")" >"$work/debian/changelog"
mkdir "$work/debian/source"
echo '3.0 (native)' >"$work/debian/source/format"

cd "$work"
export GANNET_BINARY="$binary" GANNET_PACKAGING="$OLDPWD"
# The compiler may not be a Debian package, so that dpkg cannot check what the build depends on.
dpkg-buildpackage --build=binary --no-sign --no-check-builddeps >"$folder/build.log" 2>&1 || {
    tail -n 30 "$folder/build.log" >&2
    exit 1
}
rm -rf "$work"
echo "packages in $folder:"
cd "$folder"
ls -- *.deb
