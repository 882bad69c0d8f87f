#!/bin/sh
# Stands before rustc for the crates of this workspace where loom explores them (RUSTC_WORKSPACE_WRAPPER of cargo). They alone are told: so what others wrote is
# that of the build, compiled once. What is explored is built once and run once: only loom itself is optimised.
rustc=$1
shift
exec "$rustc" "$@" --cfg loom -C opt-level=0 -C debuginfo=0 -C strip=debuginfo
