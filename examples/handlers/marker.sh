#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Strength 3: a marker around an effect elsewhere.  emq work mails -- examples/handlers/marker.sh
# A mail that was sent is not sent again. One that may have been sent is not sent again either: the job fails,
# and somebody looks (emq effect ls mails).
set -eu

emq effect run mail --policy park -- ${MAILER:-sendmail -t}
