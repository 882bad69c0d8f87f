#!/bin/sh
# rustdoc as `cargo xtask test` has it write JSON: that is unstable. Told to rustdoc alone, since scripts of builds that see the variable build otherwise.
# Cargo is asked to run the examples of crates, for it gives these what the build has left: to write documents it would have everything read anew. So what
# says that examples are to be run is left out, and for whom the build is called.
takes=
for argument; do
    shift
    case $takes$argument in
    --test-run-directory) takes=+ ;;
    +*) takes= ;;
    --test | --emit=*) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
