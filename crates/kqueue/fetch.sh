#!/bin/sh
# Fetches the source package PACKAGE of the distribution that this machine is installed from, and unpacks it: `fetch.sh PACKAGE FOLDER`. It lies in
# FOLDER/source then. Lists and archives are kept in FOLDER: the machine's own are left as they are.
set -eu
package=$1
mkdir -p "$2/lists/partial" "$2/cache/archives/partial"
folder=$(realpath "$2")
cd "$folder"

[ ! -d source ] || exit 0
# The machine's own sources, as sources of source.
rm -rf sources
mkdir sources
for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
	[ -f "$list" ] || continue
	sed -e 's/^Types:.*/Types: deb-src/' -e 's/^deb /deb-src /' "$list" >"sources/$(basename "$list")"
done
apt() {
	apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$folder/sources" -o Dir::State::lists="$folder/lists" \
		-o Dir::Cache="$folder/cache" -o APT::Sandbox::User= "$@" >&2
}
[ ! -f sources/sources.list ] || mv sources/sources.list sources/own.list
apt update
# As it was released: that stays where it is, and what was mended since is replaced again and again.
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
apt source --download-only "$package/$release"
rm -rf unpacked
dpkg-source --no-check -x "$(ls ./"${package}"_*.dsc)" unpacked >&2
mv unpacked source
