# shellcheck shell=bash
# How this machine compiles fastest. Sourced by quickstart and test.

# Options for cmake. On few cores sources of a room are compiled together, which takes a third of the work; on many it
# would leave most of them idle.
compile_together() {
  if [ "$(nproc)" -le 8 ]; then
    printf '%s\n' -D CMAKE_UNITY_BUILD=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=24
  fi
}
