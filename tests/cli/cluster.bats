#!/usr/bin/env bats
# On a cluster: effects, why, fsck and the lab. Whatever the program makes of a queue is in the queue's slot.
# Beside tests/lib/with_server cluster.
# shellcheck disable=SC2016 # the programs of workers expand their own variables
load common

is() { [ "$1" = "$2" ] || { echo "\"$1\" is not \"$2\"" >&2; return 1; }; }
# Calls a command for each node: its port behind.
each_node() {
    local port
    for port in $(grep -oE '[0-9]{4,5}' <<<"${EMQ_TEST_CLUSTER#*127.0.0.1}" | sort -u); do "$@" "$port"; done
}
on_node() { local port=${*: -1}; redis-cli -p "$port" "${@:1:$#-1}"; }
redis() { redis-cli -c -p "$(grep -oE '[0-9]{4,5}$' <<<"$EMQ_TEST_CLUSTER")" "$@"; }
all_keys() { each_node on_node --scan; }

setup_cluster() {
    [ -n "${EMQ_TEST_CLUSTER:-}" ] || skip "needs a cluster"
    each_node on_node flushall >/dev/null
    export EMQ_URL=$EMQ_TEST_CLUSTER EMQ_PREFIX=$1
    Q=$2
}

# Each line of a file of keys as an argument of a command.
of_each() { sed "s/.*/$1 \"&\"/" "$2" | redis; }

# Every key of the cluster is in the slot of TAG; those that are not BullMQ's are P::emq:…, of this queue or of none, and each of them ends.
all_in_slot() {
    local tag=$1
    all_keys >keys
    of_each 'CLUSTER KEYSLOT' keys | paste -d' ' - keys >slots
    ! grep -v "^$(redis cluster keyslot "$tag") " slots || return 1
    grep -F "$EMQ_PREFIX::emq:" keys >private
    of_each PTTL private | paste -d' ' - private >ends
    ! grep '^-1 ' ends || return 1
    ! grep -vF -e "$EMQ_PREFIX::emq:$Q:" -e "$EMQ_PREFIX::emq::" -e "$EMQ_PREFIX:$Q:" -e "users$tag" keys
}

hand_out() { TOKEN=$(emq take "$Q" --lock "${1:-30s}" --json | jq -r .token); }

# Everything that leaves keys of its own.
live_through() {
    local tag=$1
    # Markers: recorded, and in doubt.
    emq add "$Q" 1 --id a
    emq work "$Q" --exit-when-empty --quiet -- emq effect run pay -- echo receipt
    is "$(emq effect show "$Q" a --json | jq -r .state)" "done"
    emq add "$Q" 1 --id b --backoff none
    hand_out 300ms
    expect 137 emq effect run pay --queue "$Q" --job b --token "$TOKEN" -- sh -c 'kill -9 $$'
    until_true sh -c "emq sweep '$Q' >/dev/null; [ \"\$(emq stats '$Q' --json | jq .waiting)\" = 1 ]"
    expect 1 emq settle "$Q" b --token "$TOKEN" --completed # which leaves a line of history
    hand_out
    is "$(emq effect show "$Q" b --json | jq -r .state)" in-doubt
    emq effect resolve "$Q" b pay --forget
    emq settle "$Q" b --token "$TOKEN" --completed
    # With the acknowledgement: of the queue's slot, or not at all.
    emq add "$Q" 1 --id c
    printf '["INCR","users%s:n"]\n' "$tag" >near
    emq work "$Q" --exit-when-empty --quiet -- sh -c 'echo "redis near" >&3'
    is "$(redis get "users$tag:n")" 1
    emq add "$Q" 1 --id d
    printf '["INCR","users%s:n"]\n["INCR","other{elsewhere}"]\n' "$tag" >far
    emq work "$Q" --exit-when-empty --quiet -- sh -c 'echo "redis far" >&3' 2>talk || is $? 1
    is "$(emq show "$Q" d --json | jq -r .state)" failed
    [[ $(emq show "$Q" d --json | jq -r .failedReason) == *slot* ]]
    is "$(redis get "users$tag:n")" 1
    # A batch, sessions, logs, dedup, delays.
    for i in $(seq 900); do echo "{\"data\":$i,\"delay\":$((i % 2 * 3600000))}"; done >batch
    emq add "$Q" --batch batch
    emq add "$Q" 1 --dedup x --dedup-mode keep-last
    emq work "$Q" --max-jobs 1 --quiet -- sh -c 'echo log >&2'
}

why_and_fsck() {
    emq why "$Q" b >told
    grep -q "handed out" told
    expect 0 emq fsck "$Q"
    expect 0 emq fsck
    redis lpush "$EMQ_PREFIX:$Q:wait" ghost
    redis set "$EMQ_PREFIX:$Q:gone:lock" x
    expect 1 emq fsck --wait 0 --repair --json
    is "$(jq -r '.flaw + " " + .outcome' <<<"$output" | sort | paste -sd' ')" "ghost repaired leftover repaired"
    expect 0 emq fsck --wait 0
    emq explain "$Q" >/dev/null
    emq doctor >/dev/null || is $? 1
}

@test "effects, why and fsck of a queue with a hash tag in its name stay in its slot" {
    setup_cluster emq '{q}'
    live_through '{q}'
    all_in_slot '{q}'
    why_and_fsck
    all_in_slot '{q}'
}

@test "effects, why and fsck under a prefix with a hash tag stay in its slot" {
    setup_cluster '{shop}' q
    live_through '{shop}'
    all_in_slot '{shop}'
    why_and_fsck
    all_in_slot '{shop}'
}

@test "a batch in several parts, and what a worker holds, are found wherever a prefix with a hash tag lives" {
    for i in $(seq 1001); do echo "{\"data\":$i}"; done >batch
    for prefix in '{a}' '{b}' '{c}' '{d}'; do
        setup_cluster "$prefix" q
        echo $(($(redis cluster keyslot "$prefix") * 3 / 16384)) >>nodes
        is "$(emq add q --batch batch)" 1001
        id=$(emq take q --name me --json | jq -r .id)
        is "$(emq ls q --worker me --json | jq -r .id)" "$id"
    done
    is "$(sort -u nodes | wc -l)" 3
    setup_cluster emq '{q}'
    expect 64 emq add '{q}' --batch batch
    says "one prefix with the braces in it"
}

@test "a worker is refused at once when one of its queues has no hash tag" {
    setup_cluster emq '{q}'
    for queues in a "$Q a" "a $Q"; do
        # shellcheck disable=SC2086
        expect 64 timeout 60 emq work $queues --exit-when-empty -- cat
        says 'into braces, like "{a}"'
    done
}

@test "fsck looks at the queues of all nodes" {
    setup_cluster emq none
    for q in '{a}' '{b}' '{c}' '{d}'; do
        emq add "$q" 1 --id "of-$q" >/dev/null
        redis rpush "emq:$q:wait" "ghost-$q" >/dev/null
    done
    expect 1 emq fsck --wait 0 --repair --json
    is "$(jq -r .id <<<"$output" | sort | paste -sd' ')" "ghost-{a} ghost-{b} ghost-{c} ghost-{d}"
    expect 0 emq fsck --wait 0
}

@test "the lab runs on a cluster, under a prefix with a hash tag, of which nothing stays" {
    setup_cluster emq none
    (while [ ! -e over ]; do all_keys; done >seen 2>/dev/null) 3>&- &
    for effect in transactional marker plain; do
        TMPDIR=$BOX expect 0 emq lab --url "$EMQ_URL" --mode at-least-once --effect "$effect"
    done
    TMPDIR=$BOX expect 0 emq lab soak --url "$EMQ_URL" --jobs 60 --kill-every 50ms --json
    is "$(jq -s 'map(.findings + (.lost - .expectedLost) + (.duplicates - .expectedDuplicates)) | add' <<<"$output")" 0
    touch over
    wait
    is "$(all_keys)" ""
    [ "$(wc -l <seen)" -gt 100 ]
    ! grep -vE '^\{emq-lab-[^}]*\}(:|::emq:|-counter-|-alive$)' seen
}
