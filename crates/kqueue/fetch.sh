#!/bin/sh
# Fetches the source package PACKAGE of the distribution that this machine is installed from, and unpacks it: `fetch.sh PACKAGE FOLDER`. It lies in
# FOLDER/source then. Lists and archives are kept in FOLDER, or where CORELANE_APT says for several packages: the machine's own are left as they are.
set -eu
package=$1
mkdir -p "$2"
folder=$(realpath "$2")
[ ! -d "$folder/source" ] || exit 0

lists=${CORELANE_APT:-$folder}
mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
lists=$(realpath "$lists")
cd "$lists"
# One at a time: reading the lists takes seconds of CPU, and who comes behind finds them read.
exec 9>lock
flock 9
# The machine's own sources, as sources of source.
rm -rf sources
mkdir sources
for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
	[ -f "$list" ] || continue
	sed -e 's/^Types:.*/Types: deb-src/' -e 's/^deb /deb-src /' "$list" >"sources/$(basename "$list")"
done
apt() {
	apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$lists/sources" -o Dir::State::lists="$lists/lists" \
		-o Dir::Cache="$lists/cache" -o APT::Sandbox::User= "$@" >&2
}
[ ! -f sources/sources.list ] || mv sources/sources.list sources/own.list
if [ -z "$(find updated -mmin -60 2>/dev/null)" ]; then
	apt update
	touch updated
fi
# As it was released: that stays where it is, and what was mended since is replaced again and again.
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
cd "$folder"
apt source --download-only "$package/$release"
exec 9>&-
rm -rf unpacked
dpkg-source --no-check -x "$(ls ./"${package}"_*.dsc)" unpacked >&2
mv unpacked source
