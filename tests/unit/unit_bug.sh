#!/bin/bash
# unit_bug.sh PROGRAM TEST: PROGRAM, a unit test that was built with an old bug put back, must fail in TEST.
set -u
said=$("$1" 2>&1)
status=$?
echo "$said"
[ $status -ne 0 ] && grep -qx "\[  FAILED  \] $2" <<<"$said"
