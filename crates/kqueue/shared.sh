#!/bin/sh
# Links the shared library from the static one: `shared.sh ARCHIVE OUTPUT [SONAME]`.
#
# The soname libkqueue.so.0 makes a library for programs that were built against libkqueue: kevent takes that one's records. The functions that hear of closes get their
# C names here: only a shared library stands before the C library's, so the static one leaves them alone, and promises nothing when it starts.
set -eu
archive=$1
output=$2
soname=${3:-libcorelane_kqueue.so.1}
here=$(dirname "$0")

names="close dup2 dup3 close_range fclose"
set -- -Wl,-u,kqueue -Wl,-u,kqueue1 -Wl,-u,kqueuex -Wl,-u,kevent -Wl,-u,corelane_loaded -Wl,-init,corelane_loaded
for name in init ctl get_events wait commit put get_stats ring_map ring_unmap; do
	set -- "$@" "-Wl,-u,kevent_$name"
done
for name in aio_submit aio_cancel aio_progress lio_submit names; do
	set -- "$@" "-Wl,-u,corelane_$name"
done
for name in $names; do
	set -- "$@" "-Wl,-u,corelane_$name" "-Wl,--defsym=$name=corelane_$name"
done
# Programs that were linked against libkqueue have its record.
case $soname in
libkqueue.*) set -- "$@" -Wl,-u,corelane_short_kevent -Wl,--defsym=kevent=corelane_short_kevent ;;
esac
exec "${CC:-cc}" -shared -o "$output" "-Wl,-soname,$soname" "-Wl,--version-script=$here/kqueue.map" -Wl,--gc-sections \
	-Wl,-z,defs -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete "$@" "$archive" -lgcc_s -lpthread -lm -ldl -lc
