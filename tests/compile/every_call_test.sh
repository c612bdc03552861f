#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# every_call_test.sh INCLUDE - every_call.h names every function that device.h and the transport
# layer declare.
. "$(dirname "$0")/common.sh"
include=$1

for name in $(grep -oE '^ORIEL_DEV [a-z0-9_ *]*oriel_[a-z_0-9]+\(' "$include/oriel/device.h" \
	"$include/oriel/device/mapped.h" "$include/oriel/device/queued.h" |
	grep -oE 'oriel_[a-z_0-9]+\($' | tr -d '('); do
	expect "$name is in every_call.h" grep -qE "\b$name\(" "$here/every_call.h"
done
finish
