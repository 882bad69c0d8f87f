#!/bin/sh
# What share of a program each crate has: bytes of its functions and constants, by the first crate in each symbol's name.
# A function that was made for a type of another crate counts for the crate that it was written in.
#   sh bench/sizes.sh target/release/corelane
nm --defined-only --print-size --demangle "$1" | awk '
NF >= 4 && $3 ~ /^[tTwWdDrRbB]$/ {
    bytes = substr($2, 9)
    name = $4
    for (i = 5; i <= NF; i++) name = name " " $i
    sub(/^<+/, "", name); sub(/^(&|mut |dyn |\*const |\*mut |\[|\()+/, "", name)
    if (match(name, /^[a-z_][a-z0-9_]*(::|\[)/)) crate = substr(name, 1, RLENGTH - (substr(name, RLENGTH, 1) == "[" ? 1 : 2))
    else if (name ~ /^(ring_core_|aes|bn_|ec|gcm|ghash|chacha20|poly1305|sha[0-9]|x25519|p256|p384|fiat|vpaes|ChaCha20)/) crate = "ring"
    else crate = "others"
    sum[crate] += ("0x" bytes) + 0 ; count[crate]++
}
END { for (crate in sum) printf "%10d  %6d  %s\n", sum[crate], count[crate], crate }' | sort -rn
