#!/usr/bin/env bash
# Builds kernbench, with what it needs, and runs it.
#   ./run.sh               kernbench run --bench ccl-allreduce on topologies/default.yaml
#   ./run.sh ARGUMENTS...  kernbench ARGUMENTS...
set -euo pipefail

# shellcheck source=cmake/setup.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/cmake/setup.sh"

install_packages
build release kernbench

if (($# == 0)); then
  cd "$kernbench_root"
  set -- run --bench ccl-allreduce --topology topologies/default.yaml
fi
exec "$kernbench_root/build/release/benches/kernbench" "$@"
