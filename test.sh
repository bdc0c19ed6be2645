#!/usr/bin/env bash
# Runs the tests.  The last line is "N passed, M failed"; exits with 1 if anything failed.
#   ./test.sh           everything: the suite in release and under AddressSanitizer, sweeps over mpirun,
#                       and the acceptance programs against an installed copy
#   ./test.sh fast      after an edit: the preset dev, the cases of the folders that git says are changed
#   ./test.sh fast all  the preset dev, all cases
set -euo pipefail

# shellcheck source=cmake/setup.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/cmake/setup.sh"
# shellcheck source=cmake/steps.sh
source "$kernbench_root/cmake/steps.sh"
cd "$kernbench_root"

jobs="$(nproc)"
readonly jobs
readonly acceptance=../shared/acceptance
readonly prefix="$kernbench_root/build/install"
passed=0
failed=0

usage() {
  sed -nE '2,/^set /s/^# ?//p' "${BASH_SOURCE[0]}"
}

finish() {
  local status=$?
  if ((status != 0 && failed == 0)); then failed=1; fi
  print_steps
  printf '%d passed, %d failed\n' "$passed" "$failed"
  ((failed == 0)) || exit 1
  exit 0
}

# must COMMAND...: without it nothing further makes sense, so its failure ends the run.
must() {
  "$@" && return
  say "kernbench: failed: $*"
  failed=$((failed + 1))
  exit 1
}

# count COMMAND...: one more test.
count() {
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
}

# suites PRESET COLUMN FOLDER...: of the executables with test cases that test these folders (all: of every one), the
# target (2) or the path (3).
suites() {
  local preset="$1" column="$2"
  shift 2
  awk -v column="$column" -v folders=" $* " 'folders == " all " || index(folders, " " $1 " ") { print $column }' \
    "build/$preset/test/suites.txt"
}

# run_cases PRESET TAG FOLDER...: the cases of these folders; with TAG, those that Catch2 selects by it.
# The JUnit file is counted.
run_cases() {
  local preset="$1" tag="$2"
  local -a programs select=()
  shift 2
  [[ -z "$tag" ]] || select=(--tag "$tag")
  mapfile -t programs < <(suites "$preset" 3 "$@")
  local cases="build/$preset/cases"
  rm -f "$cases/junit.xml"
  "build/$preset/test/runner/kernbench_run_tests" --jobs "$jobs" --folder "$cases" "${select[@]}" \
    "${programs[@]}" </dev/null || true
  if [[ ! -e "$cases/junit.xml" ]]; then
    failed=$((failed + 1))
    return
  fi
  local tests failures
  read -r tests failures < <(sed -nE 's/.*<testsuite name=.* tests="([0-9]+)" failures="([0-9]+)".*/\1 \2/p' \
    "$cases/junit.xml" | awk '{ tests += $1; failures += $2 } END { print tests + 0, failures + 0 }')
  passed=$((passed + tests - failures))
  failed=$((failed + failures))
}

# The folders in which git sees a change: of the work tree, or, if it is clean, of the last commit.  What every test
# is built with changes all.
changed_folders() {
  local files file folder
  files="$(git status --porcelain --untracked-files=all | cut -c4- | sed 's/.* -> //')"
  [[ -n "$files" ]] || files="$(git diff --name-only HEAD~1 HEAD)"
  while read -r file; do
    case "$file" in
      test/support/* | cmake/* | CMakeLists.txt | test/CMakeLists.txt | CMakePresets.json) echo all ;;
      adr/* | adr-ko/*) echo records ;;
      test/golden/*) echo ccl failures runtime parallel benches ;;
      topologies/writing-a-topology*) echo benches ;;
      benches/README.md) echo benches runtime ;;
      README*.md | how-far-to-trust-the-times*.md | training-a-model*.md) echo benches runtime parallel records ;;
      topologies/*) echo sim_engine ccl ;;
      runtime/parallel/*) echo runtime parallel ;;
      tp/*) echo tp parallel ;;
      */*)
        folder="${file#test/}"
        echo "${folder%%/*}"
        ;;
    esac
  done <<<"$files" | tr ' ' '\n'
  echo tidy
}

# What is compiled of the layers, and their headers.  (That of an executable waits for what it is linked with.)
objects_of_the_product() {
  ninja -C "build/$1" -t targets all | sed -nE 's/^(.*\.cpp\.o): CXX_COMPILER.*/\1/p' |
    grep -E '^(sim_engine|runtime|ccl|tp|benches)/.*/|kernbench_headers_alone' | grep -v kernbench_over_mpi
}

# Tests that are no cases of Catch2: what the compiler says of wrong programs.
run_compiler_tests() {
  local summary
  summary="$(ctest --test-dir "build/$1" --label-exclude cases --output-on-failure </dev/null |
    tee "build/$1/ctest.log" |
    sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p')" || true
  summary="${summary:-1 1}"
  if [[ "${summary% *}" != 0 ]]; then cat "build/$1/ctest.log"; fi
  failed=$((failed + ${summary% *}))
  passed=$((passed + ${summary#* } - ${summary% *}))
}

# The parsers that a user's bytes reach, each a test: 30 seconds in all of mutated inputs, which are the same in
# every run (ADR-0013).
run_fuzz() {
  local log="build/$1/fuzz.log" summary
  "build/$1/test/fuzz/kernbench_fuzz" --seconds 30 --failures "build/$1/fuzz-failures" </dev/null | tee "$log" || true
  summary="$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log")"
  summary="${summary:-0 1}"
  passed=$((passed + ${summary% *}))
  failed=$((failed + ${summary#* }))
}

run_fast() {
  local -a folders targets
  mapfile -t folders < <(changed_folders | sort -u)
  if [[ "${1:-}" == all || " ${folders[*]} " == *" all "* ]]; then folders=(all); fi
  say "kernbench: cases of ${folders[*]}"
  step "dev: build"
  must configure dev
  mapfile -t targets < <(suites dev 2 "${folders[@]}")
  must build dev kernbench_run_tests "${targets[@]}"
  step "dev: tests"
  run_cases dev "" "${folders[@]}"
  if [[ " ${folders[*]} " == *" all "* || " ${folders[*]} " == *" compile "* ]]; then run_compiler_tests dev; fi
}

# run_acceptance PROGRAM TOPOLOGY
run_acceptance() {
  local log="build/acceptance/$1-$2.log" status=0
  timeout 120 "build/acceptance/$1" "$prefix/share/kernbench/topologies/$2.yaml" \
    </dev/null >"$log" 2>&1 || status=$?
  if ((status == 0)); then
    printf '%s on %s: passed\n' "$1" "$2"
  else
    printf '%s on %s: FAILED (exit code %d)\n' "$1" "$2" "$status"
    cat "$log"
  fi
  return "$status"
}

# build_against_prefix PROJECT FOLDER TARGET...
build_against_prefix() {
  local project="$1" folder="$2" log="$2/build.log"
  shift 2
  mkdir -p "$folder"
  { cmake -S "$project" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_PREFIX_PATH="$prefix" &&
    cmake --build "$folder" --target "$@"; } >"$log" 2>&1 || { cat "$log" >&2; return 1; }
}

# run_shown_program NAME ARGUMENT...: one that README.md or another page shows; it may write files into the present
# folder.
run_shown_program() {
  local name="$1"
  shift
  (cd build/installed && timeout 120 "./$name" "$@") </dev/null
}

# Its row is the one that benches/README.md shows.
run_shown_bench() {
  local log=build/installed/my_bench.log
  run_shown_program my_bench run --bench my-bench --set n=8192 --topology ring_1d_6 >"$log" &&
    grep -E '^ +8192 ' "$log" | grep -qFf - benches/README.md || { cat "$log"; return 1; }
}

# --oversubscribe and the variables let mpirun start as many processes as it is told, and as root.
# Texts above the eager limit wait for their receiver: nearly all do here, as on a slow network.
mpi_run() {
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 \
    mpirun --oversubscribe --mca btl_vader_eager_limit 512 -n "$@" </dev/null
}

# What a command of the program leaves behind, of one process and of so many.
same_over_mpi() {
  local program="$PWD/build/release/benches/kernbench_over_mpi" folder=build/mpi/bytes processes="$1" count
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
  mkdir -p build/mpi
  seq -f 'unknown_%g: 1' 200 >"$topology"
  mpi_run 3 build/release/benches/kernbench_over_mpi run --bench ipcq --topology "$topology" \
    >build/mpi/wrong.log 2>&1 || status=$?
  [[ "$status" == 3 ]] || { cat build/mpi/wrong.log; return 1; }
}

# A report in a real browser: it opens from disk, draws, and throws no error.
run_page() {
  if ! command -v chromium >/dev/null; then
    printf 'chromium is not installed: skipped\n'
    return
  fi
  count "build/$1/test/benches/benches_test" "[browser]" </dev/null
}

run_everything() {
  step "release: build"
  must build release
  step "release: tests"
  run_cases release "" all
  run_compiler_tests release

  step "page: a report in a browser"
  run_page release

  step "alone: each file of the product and each header compiles by itself"
  must configure alone
  local -a objects
  mapfile -t objects < <(objects_of_the_product alone)
  must build alone "${objects[@]}"

  # Sweeps over numbers have nothing for a sanitizer to find that a few of them have not.  What reads texts alone
  # (records, tidy) has run.
  step "asan: build"
  local -a folders=(sim_engine runtime ccl tp parallel benches failures testing fuzz) targets
  must configure asan
  mapfile -t targets < <(suites asan 2 "${folders[@]}")
  must build asan kernbench_run_tests kernbench_fuzz "${targets[@]}"
  step "asan: tests"
  run_cases asan "~[exhaustive]" "${folders[@]}"
  step "asan: fuzz: 30 s"
  run_fuzz asan

  # Unlike the suite's queues between threads: real processes, and MPI's own start and end.
  step "mpi: the same bytes from one process and from several, and errors that end"
  count evaluation_over_mpi
  count operators_over_mpi
  count fail_over_mpi

  step "install"
  must cmake --install build/release --prefix "$prefix" >build/install.log

  step "acceptance: programs of a user, against the installed copy"
  must build_against_prefix test/installed build/installed worker train_gpt my_bench sum_test
  count run_shown_program worker "$prefix/share/kernbench/topologies/ring_1d_6.yaml"
  count run_shown_program train_gpt "$prefix/share/kernbench/topologies/default.yaml"
  count run_shown_bench
  count run_shown_program sum_test
  if [[ ! -d "$acceptance" ]]; then
    printf '%s is not here: skipped\n' "$acceptance"
    return
  fi
  local program topology
  must build_against_prefix "$acceptance" build/acceptance allreduce_worker failures own_collective custom_kernel tp_mlp
  count run_acceptance own_collective ring_1d_6  # its algorithm is a ring's
  for topology in default ring_1d_6; do count run_acceptance custom_kernel "$topology"; done
  for topology in default ring_1d_6 torus_2d_2x3; do count run_acceptance tp_mlp "$topology"; done
  for topology in ring_1d_6 torus_2d_2x3 mesh_2d_no_wrap_2x3; do
    for program in allreduce_worker failures; do count run_acceptance "$program" "$topology"; done
  done
}

case "$*" in
  "" | fast | "fast all") ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    say "kernbench: test.sh does not know '$*'"
    usage >&2
    exit 2
    ;;
esac
trap finish EXIT
trap 'exit 130' INT TERM

step "packages"
must install_packages
if [[ "${1:-}" == fast ]]; then
  run_fast "${2:-}"
else
  run_everything
fi
