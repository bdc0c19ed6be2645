# Shared by run.sh and test.sh, which source it: measures the wall and CPU time of each step.
# shellcheck shell=bash

step_table=
step_name=
step_begin=
step_now=

# Sets step_now to "WALL CPU": seconds since the epoch, and those that ended children have computed.
# `times` must not run in a subshell, which has no children of its own: hence the file.
read_clock() {
  local file
  file="$(mktemp)"
  times >"$file"
  step_now="$(date +%s.%N) $(awk 'function seconds(t) { split(t, part, /[ms]/); return 60 * part[1] + part[2] }
    NR == 2 { printf "%.3f", seconds($1) + seconds($2) }' "$file")"
  rm -f "$file"
}

# step NAME...: ends the step before it.
step() {
  end_step
  step_name="$*"
  read_clock
  step_begin="$step_now"
  printf '== %s\n' "$step_name"
}

end_step() {
  [[ -n "$step_name" ]] || return 0
  read_clock
  step_table+="$(awk -v name="$step_name" '{ printf "%9.1f %9.1f  %s", $3 - $1, $4 - $2, name }' \
    <<<"$step_begin $step_now")"$'\n'
  step_name=
}

# Prints the time of each step so far, and the sum.
print_steps() {
  end_step
  [[ -n "$step_table" ]] || return 0
  printf '%9s %9s  %s\n' 'wall (s)' 'CPU (s)' step
  printf '%s' "$step_table" |
    awk '{ print; wall += $1; cpu += $2 } END { printf "%9.1f %9.1f  %s\n", wall, cpu, "all" }'
}
