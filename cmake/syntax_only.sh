#!/usr/bin/env bash
# syntax_only.sh COMPILER ARGUMENTS...: a compiler launcher for the preset `alone`.  Headers to precompile are
# compiled; of any other file only the syntax is checked, and its object is empty.
set -euo pipefail

output='' previous=''
for argument in "$@"; do
  if [[ "$previous" == -o ]]; then output="$argument"; fi
  previous="$argument"
done
if [[ "$output" == *.gch ]]; then exec "$@"; fi
"$@" -fsyntax-only
: >"$output"
