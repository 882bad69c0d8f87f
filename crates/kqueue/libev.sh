#!/bin/sh
# Runs the tests of libev, as Debian's libev-perl has them, on its kqueue back end over our library: `libev.sh ARCHIVE FOLDER`. ARCHIVE is libcorelane_kqueue.a; in FOLDER,
# which is made and kept, Debian's source package is fetched and built. libev gives its kqueue up where a probe of its own fails, so the first that is looked at is which system it uses.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
archive=$(realpath "$1")
mkdir -p "$2/library"
folder=$(realpath "$2")
sh "$here/fetch.sh" libev-perl "$folder"
cd "$folder/source"

sh "$here/shared.sh" "$archive" "$folder/library/libcorelane_kqueue.so.1"
ln -sf libcorelane_kqueue.so.1 "$folder/library/libcorelane_kqueue.so"
if [ ! -f "$folder/perl/auto/EV/EV.so" ]; then
	mkdir -p "$folder/perl/auto/EV" "$folder/perl/common"
	cp -r EV.pm EV "$folder/perl/"
	# A matter of style, in a package of its own, of which the tests need nothing.
	echo 'package common::sense; sub import { strict->import; } require strict; 1;' >"$folder/perl/common/sense.pm"
	core=$(perl -MConfig -e 'print "$Config{archlibexp}/CORE"')
	xsubpp -typemap "$(perl -MConfig -e 'print "$Config{privlibexp}/ExtUtils/typemap"')" -typemap typemap EV.xs >EV.c
	# shellcheck disable=SC2046
	cc -shared -fPIC -O0 -w $(perl -MExtUtils::Embed -e ccopts) -I. -Ilibev -I"$here/include" -I"$core" -DVERSION=\"4.33\" -DXS_VERSION=\"$(perl -ne \
		'print $1 if /VERSION = .?([0-9.]+)/' EV.pm)\" -DEV_USE_KQUEUE=1 -DEV_USE_EPOLL=0 -DEV_USE_POLL=1 -DEV_USE_SELECT=1 -DEV_USE_LINUXAIO=0 -DEV_USE_IOURING=0 \
		-DEV_USE_MONOTONIC=1 -DEV_USE_CLOCK_SYSCALL=0 -DEV_USE_INOTIFY=0 -DEV_USE_EVENTFD=0 -DEV_USE_SIGNALFD=0 -DEV_USE_TIMERFD=0 -DEV_ENABLE_ASSERTIONS=1 \
		EV.c -L"$folder/library" -lcorelane_kqueue -Wl,-rpath,"$folder/library" -o "$folder/perl/auto/EV/EV.so"
fi
# EVBACKEND_KQUEUE, and nothing else.
export LIBEV_FLAGS=8 PERL5LIB="$folder/perl"
perl -MEV -e 'EV::backend == EV::BACKEND_KQUEUE or die "libev does not use kqueue, but system ", EV::backend, "\n"'
prove -j2 t/*.t
