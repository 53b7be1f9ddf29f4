#!/usr/bin/env bats
# What only a server has: passwords, and the URL of another variable.
load common

needs_server() { [ -n "${EMQ_TEST_SERVER:-}" ] || skip "needs a server"; }

@test "a password on the command line is not shown by ps" {
    needs_server
    redis-cli -u "$EMQ_TEST_SERVER" ACL SETUSER ann on '>hush' '~*' '&*' +@all
    url=${EMQ_TEST_SERVER/redis:\/\//redis://ann:hush@}
    emq take q --wait 30s --url "$url" 3>&- &
    until_true sh -c "ps -o args= -p $! | grep -q 'redis://xxxxxxxx@'"
    run ps -o args= -p $!
    [[ $output != *hush* ]]
    # It is used all the same.
    emq add q '{}' --url="$url"
    wait $!
    redis-cli -u "$EMQ_TEST_SERVER" ACL DELUSER ann
}

@test "a password is in no message" {
    needs_server
    url=${EMQ_TEST_SERVER/redis:\/\//redis://ann:hush@}
    expect 77 emq ls -v --url "$url"
    [[ $stderr != *hush* && $stderr == *"user or password are wrong"* ]]
    expect 64 emq ls --url "$url/x?sentinel_password=hush"
    [[ $stderr != *hush* ]]
}

@test "--url redis: is the URL in REDIS_URL" {
    needs_server
    REDIS_URL=$EMQ_TEST_SERVER emq add q '{}' --url redis:
    [ "$(field .waiting "$(emq stats q --json)")" = 1 ]
    expect 64 env -u REDIS_URL emq ls --url redis:
    [[ $stderr == *REDIS_URL* ]]
}

@test "a server that is not there is unreachable, at once" {
    expect 69 emq ls --url redis://127.0.0.1:1
    [[ $stderr == *"127.0.0.1:1 can't be reached"* ]]
}
