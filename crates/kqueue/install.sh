#!/bin/sh
# Puts the library into a folder as other libraries are there: `install.sh [--libkqueue] FOLDER [ARCHIVE]`, with FOLDER such as /usr/local.
# With --libkqueue the library that takes libkqueue's place (libkqueue.so.0) is put there, too: for programs that were built against that.
#
# A program is then built with `cc program.c $(pkg-config --cflags --libs corelane_kqueue)`, where pkg-config looks into FOLDER/lib/pkgconfig (PKG_CONFIG_PATH), or
# with `cc -static program.c $(pkg-config --static --cflags --libs corelane_kqueue)`; it is run where the loader looks into FOLDER/lib (ldconfig(8), or LD_LIBRARY_PATH).
set -eu
here=$(dirname "$0")
in_place=no
if [ "${1:-}" = --libkqueue ]; then
	in_place=yes
	shift
fi
folder=$1
archive=${2:-$here/../../target/release/libcorelane_kqueue.a}
# Where ldconfig is, which is no program for everybody.
PATH=$PATH:/usr/sbin:/sbin

mkdir -p "$folder/lib/pkgconfig" "$folder/include/sys" "$folder/include/corelane" "$folder/share/man/man2" "$folder/share/corelane"
sh "$here/static.sh" "$archive" "$folder/lib/libcorelane_kqueue.a"
shared() {
	sh "$here/shared.sh" "$archive" "$folder/lib/$1" "$1"
	strip --strip-unneeded "$folder/lib/$1"
}
shared libcorelane_kqueue.so.1
ln -sf libcorelane_kqueue.so.1 "$folder/lib/libcorelane_kqueue.so"
[ "$in_place" = no ] || shared libkqueue.so.0
install -m 644 "$here/corelane_kqueue.pc" "$here/corelane_kevent.pc" "$folder/lib/pkgconfig"
install -m 644 "$here/include/sys/event.h" "$folder/include/sys"
install -m 644 "$here/include/corelane/aio.h" "$here/include/corelane/kevent.h" "$folder/include/corelane"
install -m 644 "$here/man/kqueue.2" "$here/man/kevent_init.2" "$folder/share/man/man2"
install -m 644 "$here/tsan.supp" "$folder/share/corelane"
# Where the loader looks into this folder, it is told of what is new there.
if ldconfig -N -X -v 2>/dev/null | grep -q "^$(realpath "$folder")/lib:"; then
	ldconfig
fi
