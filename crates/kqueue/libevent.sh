#!/bin/sh
# Runs libevent's own tests, unmodified, on its kqueue back end over our library, and where some fail on epoll to compare:
# `libevent.sh ARCHIVE FOLDER`. ARCHIVE is libcorelane_kqueue.a; in FOLDER, which is made and kept, Debian's source package is fetched and built.
# Prints what fails on kqueue and not on epoll, and then fails. ONLY names the tests to run (regress's patterns; all where it is not set).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
archive=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
sh "$here/fetch.sh" libevent "$folder"
cd "$folder"

mkdir -p library
[ -d build ] || cp -a source build
sh "$here/shared.sh" "$archive" library/libcorelane_kqueue.so.1
ln -sf libcorelane_kqueue.so.1 library/libcorelane_kqueue.so

if [ ! -x build/test/regress ]; then
	(
		cd build
		CPPFLAGS="-I$here/include" LDFLAGS="-L$folder/library -Wl,-rpath,$folder/library" LIBS="-lcorelane_kqueue" CFLAGS=-O0 \
			./configure --disable-openssl --disable-shared --disable-samples --disable-dependency-tracking >configure.log 2>&1
		grep -q 'define HAVE_WORKING_KQUEUE 1' config.h || grep -q 'define EVENT__HAVE_WORKING_KQUEUE 1' config.h || {
			echo "libevent's configure finds no working kqueue: see $folder/build/config.log" >&2
			exit 1
		}
		# The package's patches are newer than what was generated of the files that they change: it is not generated again.
		as_it_is="ACLOCAL=: AUTOCONF=: AUTOMAKE=: AUTOHEADER=:"
		make $as_it_is include/event2/event-config.h test/rpcgen-attempted >make.log 2>&1
		make $as_it_is -j2 test/regress >>make.log 2>&1
	)
fi

# One system of events at a time: libevent takes the first that is not forbidden.
run() {
	log=$1
	shift
	(cd build/test && env EVENT_NOPOLL=1 EVENT_NOSELECT=1 "$@" ./regress ${ONLY:-} >"$folder/$log" 2>&1) || true
	tail -n 1 "$log"
}
# regress says what was wrong ("  FAIL ..."), and names the test on a line of its own ("  [NAME FAILED]"). One that only came to its moment more than 50 ms too
# late says how busy the machine is.
names() {
	awk '/^ *FAIL / { wrong++; late += /timeval_msec_diff/ }
		match($0, /\[[A-Za-z0-9_]+ FAILED\]/) { if (wrong == 0 || late < wrong) print substr($0, RSTART + 1, RLENGTH - 9); wrong = late = 0 }' "$1" | sort -u
}
echo "kqueue:"
run kqueue.log EVENT_NOEPOLL=1
names kqueue.log >kqueue.names
grep -aqE 'tests ok|TESTS FAILED' kqueue.log || {
	echo "libevent's tests came to no end: see $folder/kqueue.log"
	exit 1
}
[ -s kqueue.names ] || exit 0
# What fails on epoll too says nothing of the library.
echo "epoll:"
run epoll.log EVENT_NOKQUEUE=1
names epoll.log >epoll.names
new=$(comm -13 epoll.names kqueue.names)
if [ -n "$new" ]; then
	echo "fails on kqueue alone:"
	echo "$new"
	exit 1
fi
