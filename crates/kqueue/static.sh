#!/bin/sh
# Makes the static library small and apart: `static.sh ARCHIVE OUTPUT`. Of cargo's archive it takes what the functions for C need, in one object, in which
# no other name can be seen: so it links with `gcc -static`, and beside other archives of Rust.
set -eu
archive=$1
output=$2
linker=$(command -v ld.bfd || echo ld)
object=$output.o

set --
keep=
for name in kqueue kqueue1 kqueuex kevent kevent_init kevent_ctl kevent_get_events kevent_wait kevent_commit kevent_put kevent_get_stats \
	kevent_ring_map kevent_ring_unmap corelane_aio_submit corelane_aio_cancel corelane_aio_progress corelane_lio_submit corelane_names; do
	set -- "$@" -u "$name"
	keep="$keep --keep-global-symbol=$name"
done
"$linker" -r -S --gc-sections "$@" -o "$object.whole" "$archive"
# Functions keep their names, without which neither profilers nor suppressions of ThreadSanitizer know them. What a compiler left for another one is read by ar(1),
# which takes it for a file of its own.
# shellcheck disable=SC2086
objcopy --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd $keep "$object.whole" "$object"
rm -f "$output"
ar rcs "$output" "$object"
rm "$object" "$object.whole"
