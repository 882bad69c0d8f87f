#!/bin/sh
# Puts the library into a folder as other libraries are there: `install.sh FOLDER [ARCHIVE]`, with FOLDER such as /usr/local.
#
# A program is then built with `cc program.c $(pkg-config --cflags --libs corelane_kqueue)`, where pkg-config looks into FOLDER/lib/pkgconfig (PKG_CONFIG_PATH), and
# run where the loader looks into FOLDER/lib (ldconfig(8), or LD_LIBRARY_PATH).
set -eu
here=$(dirname "$0")
folder=$1
archive=${2:-$here/../../target/release/libcorelane_kqueue.a}

mkdir -p "$folder/lib/pkgconfig" "$folder/include/sys" "$folder/include/corelane" "$folder/share/man/man2"
install -m 644 "$archive" "$folder/lib/libcorelane_kqueue.a"
sh "$here/shared.sh" "$archive" "$folder/lib/libcorelane_kqueue.so.1"
ln -sf libcorelane_kqueue.so.1 "$folder/lib/libcorelane_kqueue.so"
install -m 644 "$here/corelane_kqueue.pc" "$here/corelane_kevent.pc" "$folder/lib/pkgconfig"
install -m 644 "$here/include/sys/event.h" "$folder/include/sys"
install -m 644 "$here/include/corelane/aio.h" "$here/include/corelane/kevent.h" "$folder/include/corelane"
install -m 644 "$here/man/kqueue.2" "$here/man/kevent_init.2" "$folder/share/man/man2"
