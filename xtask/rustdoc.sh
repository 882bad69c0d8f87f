#!/bin/sh
# rustdoc as `cargo xtask test` has it write JSON: that is unstable. Told to rustdoc alone, since scripts of builds that see the variable build otherwise.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
