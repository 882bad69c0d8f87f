#!/bin/sh
# Runs libevent's own tests, unmodified, on its kqueue back end over our library, and on epoll to compare:
# `libevent.sh ARCHIVE FOLDER [DSC]`. ARCHIVE is libcorelane_kqueue.a; in FOLDER, which is made, all is built. DSC is the source package's
# description where it was fetched before; else `apt-get source libevent` fetches it, for which apt needs a deb-src line.
# Prints what fails on kqueue and not on epoll, and then fails. ONLY names the tests to run (regress's patterns; all where it is not set).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
archive=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
package=${3:+$(realpath "$3")}
cd "$folder"

if [ ! -d source ]; then
	[ -n "$package" ] || {
		apt-get source --download-only libevent >&2
		package=$(ls ./libevent_*.dsc)
	}
	dpkg-source --no-check -x "$package" source >&2
fi
mkdir -p library build
sh "$here/shared.sh" "$archive" library/libcorelane_kqueue.so.1
ln -sf libcorelane_kqueue.so.1 library/libcorelane_kqueue.so

if [ ! -x build/test/regress ]; then
	(
		cd build
		CPPFLAGS="-I$here/include" LDFLAGS="-L$folder/library -Wl,-rpath,$folder/library" LIBS="-lcorelane_kqueue" \
			../source/configure --disable-openssl --disable-shared --disable-samples --disable-dependency-tracking >configure.log 2>&1
		grep -q 'define HAVE_WORKING_KQUEUE 1' config.h || grep -q 'define EVENT__HAVE_WORKING_KQUEUE 1' config.h || {
			echo "libevent's configure finds no working kqueue: see $folder/build/config.log" >&2
			exit 1
		}
		make -j2 libevent.la >make.log 2>&1
		make -C test -j2 regress >>make.log 2>&1
	)
fi

# One system of events at a time: libevent takes the first that is not forbidden.
run() {
	log=$1
	shift
	(cd build/test && env EVENT_NOPOLL=1 EVENT_NOSELECT=1 EVENT_NODEVPOLL=1 EVENT_NOEVPORT=1 "$@" ./regress ${ONLY:-} >"$folder/$log" 2>&1) || true
	grep -aE '\[[a-z ]*FAILED\]|^[^ ]*: \[.*FAILED' "$log" | sed 's/.*\(FAILED\)/\1/' | sort >"$log.failed" || true
	tail -n 1 "$log"
}
# regress names a failed test on a line of its own, "  [NAME FAILED]".
echo "epoll:"
run epoll.log EVENT_NOKQUEUE=1
echo "kqueue:"
run kqueue.log EVENT_NOEPOLL=1
names() {
	grep -aoE '\[[A-Za-z0-9_]+ FAILED\]' "$1" | tr -d '[]' | sort -u
}
names epoll.log >epoll.names || true
names kqueue.log >kqueue.names || true
if new=$(comm -13 epoll.names kqueue.names) && [ -n "$new" ]; then
	echo "fails on kqueue alone:"
	echo "$new"
	exit 1
fi
