#!/bin/sh
# Builds nginx from Debian's source package on its kqueue module over our library: `nginx.sh ARCHIVE FOLDER`. ARCHIVE is libcorelane_kqueue.a; in FOLDER,
# which is made and kept, all is built. Prints the program's path. What serves a file and nothing more is all that is built.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
archive=$(realpath "$1")
mkdir -p "$2/library"
folder=$(realpath "$2")

sh "$here/shared.sh" "$archive" "$folder/library/libcorelane_kqueue.so.1"
ln -sf libcorelane_kqueue.so.1 "$folder/library/libcorelane_kqueue.so"
sh "$here/fetch.sh" nginx "$folder"
cd "$folder/source"
if [ ! -x objs/nginx ]; then
	without=
	for module in access auth_basic autoindex browser charset empty_gif fastcgi geo grpc gzip limit_conn limit_req map memcached mirror proxy referer \
		rewrite scgi split_clients ssi upstream_hash upstream_ip_hash upstream_keepalive upstream_least_conn upstream_random upstream_zone userid uwsgi; do
		without="$without --without-http_${module}_module"
	done
	# What is built here serves once, so it is not optimised.
	# shellcheck disable=SC2086
	./configure --prefix="$folder" --without-http-cache --without-pcre $without --with-cc-opt="-O0 -g0 -D_GNU_SOURCE -I$here/include -include sys/event.h" \
		--with-ld-opt="-L$folder/library -lcorelane_kqueue -Wl,-rpath,$folder/library" >configure.log 2>&1
	grep -q 'define NGX_HAVE_KQUEUE *1' objs/ngx_auto_config.h || {
		echo "nginx finds no kqueue: see $folder/source/objs/autoconf.err" >&2
		exit 1
	}
	# Of the two systems that it finds here it knows one at a time.
	echo '#undef NGX_HAVE_EPOLLEXCLUSIVE' >>objs/ngx_auto_config.h
	make -j2 >make.log 2>&1
fi
echo "$folder/source/objs/nginx"
