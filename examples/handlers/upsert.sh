#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Strength 0: an effect that is the same twice.  emq work pages -- examples/handlers/upsert.sh
# The data becomes the file of this job, as a whole: written beside it, then renamed over it.
set -eu

page=${PAGES:-.}/$EMQ_JOB_ID.txt
cat >"$page.$EMQ_FENCE" # no two hand-outs write to one file
mv "$page.$EMQ_FENCE" "$page"
