#!/usr/bin/env bash
# Builds kernbench, with what it needs, and runs it.
#   ./run.sh               kernbench run --bench ccl-allreduce on topologies/default.yaml
#   ./run.sh ARGUMENTS...  kernbench ARGUMENTS...
set -euo pipefail

# shellcheck source=cmake/setup.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/cmake/setup.sh"
# shellcheck source=cmake/steps.sh
source "$kernbench_root/cmake/steps.sh"

step packages >/dev/null
install_packages
step build >/dev/null
build release kernbench
end_step
# A build says what it cost; one that finds everything in place says nothing.
if awk '{ cpu += $2 } END { exit cpu < 5 }' <<<"$step_table"; then print_steps >&2; fi

if (($# == 0)); then
  cd "$kernbench_root"
  set -- run --bench ccl-allreduce --topology topologies/default.yaml
fi
exec "$kernbench_root/build/release/benches/kernbench" "$@"
