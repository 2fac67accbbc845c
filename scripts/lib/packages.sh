# shellcheck shell=bash disable=SC2034  # the tables are read where this file is sourced
# Lists the missing ones of the packages that p5bench needs, and installs them. Sourced by quickstart and test.

# One line per package: its Debian name, and a probe that detects it. Probes rather than dpkg alone, so that a compiler
# or an Open MPI from elsewhere is accepted, and so that systems without apt can be checked too.
build_packages="
g++                  command g++
cmake                command cmake
ninja-build          command ninja
pkg-config           command pkg-config
libopenmpi-dev       command mpicxx
openmpi-bin          command mpirun
libhwloc-dev         header hwloc.h
nlohmann-json3-dev   header nlohmann/json.hpp
zlib1g-dev           header zlib.h
libcli11-dev         header CLI/CLI.hpp
libfmt-dev           header fmt/core.h
libbenchmark-dev     header benchmark/benchmark.h
libfabric-dev        pkgconfig libfabric
"
test_packages="
libgtest-dev         header gtest/gtest.h
libgmock-dev         header gmock/gmock.h
python3              file /usr/bin/python3
python3-jsonschema   module jsonschema
python3-yaml         module yaml
iproute2             command ip
hwloc                command hwloc-calc
glpk-utils           command glpsol
chromium             command chromium
"
nightly_packages="
debootstrap          command debootstrap
clang-19             command clang++-19
clang-tidy-19        command clang-tidy-19
libclang-rt-19-dev   file /usr/lib/llvm-19/lib/clang/19/lib/linux
valgrind             command valgrind
slurmctld            command slurmctld
slurmd               command slurmd
slurm-client         command srun
munge                command munged
"
# Packages that a system may lack (Ubuntu has Chromium as a snap only); the tests that need them are skipped. Without
# Google Benchmark the worker does not check single GPUs, without libfabric there is no backend ofi.
optional_packages="chromium libbenchmark-dev libfabric-dev zlib1g-dev clang-19 clang-tidy-19 libclang-rt-19-dev valgrind slurmctld slurmd slurm-client munge"

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 13
}

has_header() {
  command -v g++ >/dev/null && printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | g++ -x c++ -E - >/dev/null 2>&1
}

# The EFA installer's folder is included, as in the build.
has_pkgconfig() {
  command -v pkg-config >/dev/null &&
    PKG_CONFIG_PATH=/opt/amazon/efa/lib64/pkgconfig:/opt/amazon/efa/lib/pkgconfig:${PKG_CONFIG_PATH-} pkg-config --exists "$1"
}

is_there() {  # KIND WHAT
  case $1 in
    command) PATH=$PATH:/usr/sbin:/sbin command -v "$2" >/dev/null ;;
    file) [ -e "$2" ] ;;
    header) has_header "$2" ;;
    pkgconfig) has_pkgconfig "$2" ;;
    module) [ -x /usr/bin/python3 ] && /usr/bin/python3 -c "import $2" 2>/dev/null ;;
  esac
}

missing_packages() {  # TABLE
  local package kind what
  while read -r package kind what; do
    [ -z "$package" ] || is_there "$kind" "$what" || printf '%s ' "$package"
  done <<<"$1"
}

# Returns false also where there is no apt.
is_offered() {
  [[ "$(apt-cache policy "$1" 2>/dev/null)" =~ Candidate:\ [^\(] ]]
}

can_become_root() {
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }
}

# Prints the prefix for apt-get that makes it run as root; fails where that is not possible.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    return
  elif ! command -v sudo >/dev/null; then
    fail "missing packages: $*. You are not root and there is no sudo: have an administrator run apt-get install $*"
  elif [ -t 0 ]; then
    printf 'sudo '
  else
    printf 'sudo -n '  # no terminal for a password
  fi
}

# Sets `installed_packages` to what it installed.
ensure_packages() {  # TABLE
  installed_packages=""
  local missing wanted="" package root
  missing=$(missing_packages "$1")
  [ -n "$missing" ] || return 0
  if only_optional "$missing" && ! any_offered "$missing"; then
    echo "not offered by this system: $missing(what needs it is left out)"
    return 0
  elif only_optional "$missing" && ! can_become_root; then
    echo "not installed, which needs root: $missing(what needs it is left out)"
    return 0
  fi
  command -v apt-get >/dev/null ||
    fail "missing: $missing(Debian's names). This is no Debian-like system: install them by hand and start again"
  # shellcheck disable=SC2086
  root=$(as_root $missing)
  $root apt-get update </dev/null
  for package in $missing; do
    if is_offered "$package" || ! is_optional "$package"; then
      wanted+="$package "
    else
      echo "$package is not offered by this system; what needs it is left out"
    fi
  done
  [ -n "$wanted" ] || return 0
  echo "installing $wanted"
  # shellcheck disable=SC2086
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $wanted </dev/null ||
    fail "apt-get could not install: $wanted"
  installed_packages=$wanted
}

is_optional() {
  [[ " $optional_packages " == *" $1 "* ]]
}

only_optional() {  # PACKAGES
  local package
  for package in $1; do
    is_optional "$package" || return 1
  done
}

any_offered() {  # PACKAGES
  local package
  for package in $1; do
    ! is_offered "$package" || return 0
  done
  return 1
}
