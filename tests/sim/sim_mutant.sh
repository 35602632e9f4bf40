#!/bin/bash
# sim_mutant.sh MUTANT WHOLE unsafe|stuck SEEDS [ARGUMENT..]: the simulator must catch MUTANT, a machine with one safety rule left out,
# within SEEDS seeds, in the way that the rule is there to prevent; WHOLE, with all rules, must be clean on the seed that did.
# ctest: timeout=600
set -u
said=$("$1" --expect "$3" --seeds "$4" "${@:5}")
status=$?
echo "$said"
[ $status -eq 0 ] || exit 1
[[ "$said" =~ ^caught\ by\ seed\ ([0-9]+)\ after ]] || exit 1
exec "$2" --seed "${BASH_REMATCH[1]}"
