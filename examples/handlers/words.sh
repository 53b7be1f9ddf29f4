#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A handler in shell:  emq work texts -- examples/handlers/words.sh
# The data is on stdin, stdout is the result, stderr is the job's log, descriptor 3 takes progress.
set -eu

echo "job $EMQ_JOB_ID, attempt $EMQ_ATTEMPT" >&2
words=$(wc -w)

# 65: this input will never work, do not try again. 75: not now, give it back.
if [ "$words" -eq 0 ]; then
    echo "there is no text" >&2
    exit 65
fi
echo "progress 100" >&3
echo "{\"words\":$((words))}"
