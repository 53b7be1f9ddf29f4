#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What tools/tally makes of results: a failure is counted and named, and nothing at all is a failure.
#   tally_test.sh TALLY
set -eu
tally=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# is EXIT "LAST LINE" FILE...
is() {
    want=$1 last=$2
    shift 2
    status=0
    "$tally" "$@" >out || status=$?
    [ "$status" -eq "$want" ] && [ "$(tail -n 1 out)" = "$last" ] ||
        { echo "exit $status and \"$(tail -n 1 out)\", expected $want and \"$last\"" >&2; exit 1; }
}

result() { printf '{"name": "%s", "result": "%s", "stdout": "%s"}\n' "$@"; }

result good OK '[  PASSED  ] 7 test(s).' >good
result script OK 'all is well' >>good
is 0 '8 passed, 0 failed' good
{ cat good; result bad FAIL '[  PASSED  ] 2 test(s).\n[  FAILED  ] 3 test(s), listed below:'; } >bad
is 1 '10 passed, 3 failed' bad
grep -q 'failed: bad (FAIL)' out
{ cat good; result crashed SIGSEGV '[ RUN      ] first'; } >crashed
is 1 '8 passed, 1 failed' crashed
{ cat good; result slow TIMEOUT ''; } >slow
is 1 '8 passed, 1 failed' slow
printf '1..2\nok 1 it works\nnot ok 2 it does not\n' >cli.tap
is 1 '9 passed, 1 failed' good cli.tap
grep -q 'failed: it does not' out
printf '1..3\nok 1 it works\n' >cut.tap
is 1 '9 passed, 2 failed' good cut.tap
: >none.tap
is 1 '8 passed, 1 failed' good none.tap
: >nothing
is 1 '0 passed, 0 failed' nothing
echo "tally counts what it should"
