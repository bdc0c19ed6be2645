#!/usr/bin/env bash
# Runs everything: the suite in release and under AddressSanitizer, the golden file in debug, and the
# acceptance programs against an installed copy.  The last line is "N passed, M failed"; exits 1 if anything failed.
set -euo pipefail

# shellcheck source=cmake/setup.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/cmake/setup.sh"
cd "$kernbench_root"

readonly jobs=2
readonly acceptance=../shared/acceptance
readonly prefix="$kernbench_root/build/install"
passed=0
failed=0

finish() {
  local status=$?
  if ((status != 0 && failed == 0)); then failed=1; fi
  printf '%d passed, %d failed\n' "$passed" "$failed"
  ((failed == 0)) || exit 1
  exit 0
}
trap finish EXIT
trap 'exit 130' INT TERM

step() {
  printf '== %s\n' "$*"
}

# must COMMAND...: without it nothing further makes sense, so its failure ends the run.
must() {
  "$@" && return
  say "kernbench: failed: $*"
  failed=$((failed + 1))
  exit 1
}

# run_suite PRESET: ctest, whose cases are counted.
run_suite() {
  local preset="$1" log="build/$1/ctest.log" summary
  ctest --preset "$preset" --parallel "$jobs" </dev/null 2>&1 | tee "$log" || true
  summary="$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p' "$log")"
  if [[ -z "$summary" ]]; then  # no test at all is a failure
    failed=$((failed + 1))
    return
  fi
  failed=$((failed + ${summary% *}))
  passed=$((passed + ${summary#* } - ${summary% *}))
}

# run_acceptance PROGRAM TOPOLOGY
run_acceptance() {
  local log="build/acceptance/$1-$2.log"
  if timeout 120 "build/acceptance/$1" "$prefix/share/kernbench/topologies/$2.yaml" \
    </dev/null >"$log" 2>&1; then
    printf '%s on %s: passed\n' "$1" "$2"
    passed=$((passed + 1))
  else
    printf '%s on %s: FAILED (exit code %d)\n' "$1" "$2" "$?"
    cat "$log"
    failed=$((failed + 1))
  fi
}

# --oversubscribe and the variables let mpirun start as many processes as it is told, and as root.
# Texts above the eager limit wait for their receiver: nearly all do here, as on a slow network.
mpi_run() {
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 \
    mpirun --oversubscribe --mca btl_vader_eager_limit 512 -n "$@" </dev/null
}

# What a command of the program leaves behind, of one process and of so many.
same_over_mpi() {
  local program="$PWD/build/mpi/benches/kernbench" folder=build/mpi/bytes processes="$1" count
  shift
  rm -rf "$folder"
  for count in 1 "$processes"; do
    mkdir -p "$folder/$count"
    (cd "$folder/$count" && mpi_run "$count" "$program" "$@" --jobs 1) >"$folder-$count.log" 2>&1 ||
      { cat "$folder-$count.log"; return 1; }
  done
  find "$folder" -name report.json -exec sed -i -E '/"(wall_s|events_per_s)"/d' {} +
  diff -r "$folder/1" "$folder/$processes"
}

# An evaluation with several sweeps.
evaluation_over_mpi() { same_over_mpi 3 run --bench milestone-1h-ccl --out results; }
operators_over_mpi() { same_over_mpi 2 bench --case rms --dtype f16 --plot --save-path results; }

# Every process finds many errors, has much to say of them, and ends.
fail_over_mpi() {
  local topology=build/mpi/wrong.yaml status=0
  seq -f 'unknown_%g: 1' 200 >"$topology"
  mpi_run 3 build/mpi/benches/kernbench run --bench ipcq --topology "$topology" >build/mpi/wrong.log \
    2>&1 || status=$?
  [[ "$status" == 3 ]] || { cat build/mpi/wrong.log; return 1; }
}

build_acceptance() {
  local log=build/acceptance/build.log
  mkdir -p build/acceptance
  { cmake -S "$acceptance" -B build/acceptance -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_PREFIX_PATH="$prefix" &&
    cmake --build build/acceptance --target "$@"; } >"$log" 2>&1 || { cat "$log" >&2; return 1; }
}

step "packages"
must install_packages

step "release: build"
must build release
step "release: tests"
run_suite release

step "asan: build"
must build asan
step "asan: tests"
run_suite asan

# What the golden file holds is the same in every build: without optimisation too.
step "debug: golden fingerprints"
must build debug ccl_test
if build/debug/test/ccl/ccl_test "[golden]" </dev/null; then
  passed=$((passed + 1))
else
  failed=$((failed + 1))
fi

# Unlike the suite's queues between threads: real processes, and MPI's own start and end.
step "mpi: the same bytes from one process and from several, and errors that end"
must build mpi kernbench
for check in evaluation_over_mpi operators_over_mpi fail_over_mpi; do
  if "$check"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
done

step "install"
must cmake --install build/release --prefix "$prefix" >build/install.log

step "acceptance: programs of a user, against the installed copy"
if [[ -d "$acceptance" ]]; then
  programs=(allreduce_worker failures)
  must build_acceptance "${programs[@]}" own_collective custom_kernel tp_mlp
  run_acceptance own_collective ring_1d_6  # its algorithm is a ring's
  for topology in default ring_1d_6; do run_acceptance custom_kernel "$topology"; done
  for topology in default ring_1d_6 torus_2d_2x3; do run_acceptance tp_mlp "$topology"; done
  for topology in ring_1d_6 torus_2d_2x3 mesh_2d_no_wrap_2x3; do
    for program in "${programs[@]}"; do run_acceptance "$program" "$topology"; done
  done
else
  printf '%s is not here: skipped\n' "$acceptance"
fi
