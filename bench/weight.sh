#!/bin/bash
# What a program of one's own weighs: the README's echo, and axum's hello beside it, each in a package of its own, built by cargo's own profiles.
#   bash bench/weight.sh > bench/results/weight.txt
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=2
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" # beside no settings of the project's

# A package of this name with these dependencies, of the program on standard input, with what the project has locked. All it needs is fetched.
package() {
    mkdir -p "$1/src"
    cat > "$1/src/main.rs"
    printf '[workspace]\n[package]\nname = "%s"\nedition = "2024"\n[dependencies]\n%s\n' "$1" "$2" > "$1/Cargo.toml"
    cp "$root/Cargo.lock" "$1"
    cargo fetch --quiet --manifest-path "$1/Cargo.toml"
}
package echo "corelane = { path = \"$root/crates/corelane\" }" < "$root/crates/corelane/examples/echo.rs"
package hello $'axum = "0.8"\ntokio = { version = "1", features = ["macros", "rt-multi-thread"] }' <<'RUST'
use axum::{Router, routing::get};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, Router::new().route("/", get(async || "hello\n"))).await
}
RUST

# Builds a package from nothing. Says what CPU time cargo took, and all that it started; the program is left as PACKAGE-PROFILE.
build() {
    TIMEFORMAT='%U %S'
    { time cargo build --quiet --offline --profile "$2" --manifest-path "$1/Cargo.toml" 2>> said; } 2> time
    cp "$1/target/"*"/$1" "$1-$2"
    rm -r "$1/target"
    awk '{ print $1 + $2 }' time
}
idle="load $(cut -d' ' -f1 /proc/loadavg) before it"
for _ in $(seq "$rounds"); do
    for name in echo hello; do build $name dev >> $name.cpu; done
done
for name in echo hello; do
    build $name release > $name.release
    strip -o $name-stripped $name-release
    (cd $name && cargo tree --offline --prefix none) | sed 's/ (\*)$//' | sort -u | wc -l > $name.crates
done

# The middle of the figures on standard input, in units of as many.
middle() { sort -n | awk -v unit="$1" '{ n[NR] = $1 } END { print (n[int((NR + 1) / 2)] + n[int(NR / 2) + 1]) / 2 / unit }'; }
# Four figures of a package: CPU seconds, debug and stripped megabytes, crates.
figures() { middle 1 < "$1.cpu"; stat -c %s "$1-dev" | middle 1e6; stat -c %s "$1-stripped" | middle 1e6; cat "$1.crates"; }
printf 'bash bench/weight.sh\n%s; build %s; %s, %s x%s; %s\n' "$(date +%F)" "$(git -C "$root" describe --always --dirty --abbrev=8)" \
    "$(rustc --version | cut -d' ' -f1,2)" "$(nproc)" "$(sed -n 's/^model name.*:/ /p' /proc/cpuinfo | head -1 | tr -s ' ')" "$idle"
printf 'each built from nothing, packages fetched before; the two in turns; a crate of ours counts as one\n\n'
printf '%-9s %-40s %8s  %s  %10s  %s  %s\n' cell figure value '90 % interval' bar rounds verdict
paste <(printf '%s\n' 'debug build, CPU s' 'debug program, MB' 'release program, stripped, MB' crates) <(figures echo) <(figures hello) \
    <(printf '%s\n' 40 50 2.5 50) <(printf '%s\n' "$rounds" 1 1 1) | awk -F'\t' '{
    verdict = $2 <= $4 ? "met" : "MISSED"
    printf "%-9s %-40s %8.2f  %13s  %10s  %6d  %s\n", "weight", $1, $2, "-", "at most " $4, $5, verdict
    beside = beside sprintf("%-50s %8.2f\n", $1, $3)
} END { printf "\nhello by axum\n%s", beside }'
for name in echo hello; do
    echo
    echo "$name: debug builds, CPU s: $(tr '\n' ' ' < $name.cpu); release build: $(cat $name.release)"
done
