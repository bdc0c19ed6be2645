# Shared by run.sh and test.sh, which source it: packages and builds.
# shellcheck shell=bash

# As in CMakePresets.json; ninja is called without cmake here.  The same object serves several builds, and
# the compiler's list of dependencies tells ccache what a file includes: its own look costs some 5 % of a build.
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1

kernbench_root="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"

# Messages go to stderr: stdout belongs to the program.
say() {
  printf '%s\n' "$*" >&2
}

# The packages of packages.txt that are not installed, one per line.
missing_packages() {
  local -a wanted
  mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$kernbench_root/packages.txt")
  local installed
  installed="$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "${wanted[@]}" \
    2>/dev/null || true)"
  local package
  for package in "${wanted[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

# Installs missing packages.  If it cannot, prints the command to type and returns 1.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "kernbench: this is no Debian; packages.txt lists what has to be there"
    return 0
  fi
  local -a missing
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} > 0)) || return 0

  local -a as_root=()
  if ((EUID != 0)); then
    as_root=(sudo)
    [[ -t 0 ]] || as_root=(sudo --non-interactive)  # nobody is there to type a password
  fi
  local -a install=(apt-get install --yes --no-install-recommends "${missing[@]}")
  say "kernbench: installing ${missing[*]}"
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    say "kernbench: neither root nor sudo; as root, run: ${install[*]}"
    return 1
  fi
  if ! { "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" -qq; } >&2; then
    say "kernbench: could not install them; as root, run: ${install[*]}"
    return 1
  fi
}

# configure PRESET: if that is needed.
configure() {
  local preset="$1" folder="$kernbench_root/build/$1" log
  mkdir -p "$folder"
  log="$folder/configure.log"
  # Later, ninja itself repeats the configure step when a CMake file has changed.
  if [[ ! -e "$folder/build.ninja" || "$kernbench_root/CMakePresets.json" -nt "$folder/build.ninja" ]]; then
    say "kernbench: configuring ($preset)"
    (cd "$kernbench_root" && cmake --preset "$preset") >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  else
    ninja -C "$folder" --quiet build.ninja >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  fi
}

# build PRESET [TARGET...]: configures, then builds; silent if there is nothing to do.
build() {
  local preset="$1" folder="$kernbench_root/build/$1" plan
  shift
  configure "$preset" || return 1
  plan="$(ninja -C "$folder" -n "$@")" || { printf '%s\n' "$plan" >&2; return 1; }
  [[ "$plan" != *"no work to do"* ]] || return 0

  say "kernbench: building ($preset)"
  if [[ -t 2 ]]; then
    ninja -C "$folder" "$@" >&2  # one line of progress
  else
    ninja -C "$folder" --quiet "$@" >&2
  fi
}
