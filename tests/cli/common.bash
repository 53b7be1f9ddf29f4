# Shared by the bats files: a fresh store per test, the built program on PATH. Under tests/lib/with_server
# the store is that server.
bats_require_minimum_version 1.5.0

setup() {
    EMQ_DIR=${EMQ_BUILD:-$BATS_TEST_DIRNAME/../../build}
    PATH=$EMQ_DIR:$PATH
    BOX=$(mktemp -d)
    export EMQ_URL="${EMQ_TEST_SERVER:-sqlite:$BOX/queue.db}"
    [ -z "${EMQ_TEST_SERVER:-}" ] || redis-cli -u "$EMQ_TEST_SERVER" flushall >/dev/null
    unset XDG_STATE_HOME NO_COLOR EMQ_PREFIX
    cd "$BOX" || return
}

teardown() {
    local pid
    for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null || :; done
    cd / && rm -rf "$BOX"
}

# The value of a member of a JSON object on stdin or in $output.
field() { jq -r "$1" <<<"${2:-$output}"; }

# What has to do with one kind of store, or with none, and need not be played beside a server.
needs_server() { [ -n "${EMQ_TEST_SERVER:-}" ] || skip "needs a server"; }
without_server() { [ -z "${EMQ_TEST_SERVER:-}" ] || skip "${1:-the same with every store}"; }

# Waits until a command succeeds: a generous deadline, no fixed sleep.
until_true() {
    local i
    for ((i = 0; i < 600; i++)); do
        "$@" && return
        sleep 0.05
    done
    echo "never became true: $*" >&2
    return 1
}

# status CODE COMMAND…: runs it and checks the exit status; output is stdout, stderr apart.
expect() {
    local code=$1
    shift
    run --separate-stderr "$@"
    if [ "$status" -ne "$code" ]; then
        echo "expected exit $code, got $status: $*" >&2
        echo "stdout: $output" >&2
        echo "stderr: $stderr" >&2
        return 1
    fi
}

# Every message is about the verb, and says the value that was wrong.
says() { [[ $stderr == *"$1"* ]] || { echo "stderr lacks \"$1\": $stderr" >&2; return 1; }; }
