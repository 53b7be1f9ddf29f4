#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Strength 4: the other side deduplicates.  emq work charges -- examples/handlers/pay.sh
# The key is the same for each attempt of this job, and another for any other job.
set -eu

exec curl -fsS --max-time 20 -H "Idempotency-Key: $EMQ_IDEMPOTENCY_KEY" --data-binary @- "$PAYMENTS/charges"
