#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The promises of tests/lib/test.h, checked from outside. The argument is the program runner_demo.
set -u
demo=$1
box=$(mktemp -d) || exit 1
trap 'rm -rf "$box"' EXIT
export TMPDIR="$box"
unset EMQ_TEST_ONLY EMQ_TEST_SEED EMQ_TEST_KEEP EMQ_TEST_REQUIRE
out=
code=0

run() { # variables... ; fills out and code
    out=$(env "$@" "$demo" 2>&1)
    code=$?
}
die() {
    printf 'FAILED: %s\nstatus %s, output:\n%s\n' "$1" "$code" "$out" >&2
    exit 1
}
has() { case $out in *"$1"*) ;; *) die "the output lacks: $1" ;; esac; }
lacks() { case $out in *"$1"*) die "the output has: $1" ;; esac; }
is() { [ "$code" -eq "$1" ] || die "the status is not $1"; }

run EMQ_TEST_SEED=42
is 1
has "seed=42"
has "EMQ_TEST_SEED=42 EMQ_TEST_ONLY=demo_fails $demo"
has "E_STORE"
has "the disk said no"
has "unicorn is missing: install one"
lacks "EMQ_TEST_ONLY=demo_passes"
lacks "EMQ_TEST_ONLY=demo_skips"
[ -z "$(ls -A "$box")" ] || die "a temporary folder was left"

run EMQ_TEST_ONLY='demo_p*'
is 0
lacks demo_fails

run EMQ_TEST_ONLY=demo_passes EMQ_TEST_KEEP=1
is 0
has "kept: $box/"
[ -f "$box"/*/file ] || die "the temporary folder was not kept"

run EMQ_TEST_ONLY=nothing_like_it
is 77
has "no test of 3 matches"

run EMQ_TEST_ONLY=demo_skips
is 0
run EMQ_TEST_ONLY=demo_skips EMQ_TEST_REQUIRE="redis unicorn"
is 1
run EMQ_TEST_ONLY=demo_skips EMQ_TEST_REQUIRE="unicorns redis"
is 0
run EMQ_TEST_ONLY=demo_skips EMQ_TEST_REQUIRE=all
is 1
echo "the runner keeps its promises"
