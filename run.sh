#!/usr/bin/env bash
# Builds kernbench, with what it needs, and runs it.
#   ./run.sh               kernbench run --bench ccl-allreduce on topologies/default.yaml; it builds that alone
#   ./run.sh ARGUMENTS...  kernbench ARGUMENTS...; it builds all of kernbench
set -euo pipefail

# shellcheck source=cmake/setup.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/cmake/setup.sh"
# shellcheck source=cmake/steps.sh
source "$kernbench_root/cmake/steps.sh"

# Without arguments, only what the first screen needs is built (ADR-0170).
target=kernbench
program=build/release/benches/kernbench
if (($# == 0)); then
  target=kernbench_first_screen
  program=build/release/benches/first_screen/kernbench_first_screen
fi

step packages >/dev/null
install_packages
step build >/dev/null
build release "$target"
end_step
# A build says what it cost; one that finds everything in place says nothing.
if awk '{ cpu += $2 } END { exit cpu < 5 }' <<<"$step_table"; then print_steps >&2; fi

(($# == 0)) || exec "$kernbench_root/$program" "$@"
cd "$kernbench_root"
status=0
"$program" || status=$?
[[ -e build/release/benches/kernbench ]] ||
  say 'kernbench: that was the part of it which this needs; ./run.sh list builds the rest'
exit "$status"
