# shellcheck shell=bash
# How to build on this machine. Sourced by quickstart and test.

# Options for CMake. On few cores sources of a room are compiled together, which takes a third of the work. It hides an
# #include that is missing, which the weekly build finds. On many cores it would leave most of them idle.
build_options() {
  local together=24
  [ "$(nproc)" -gt 4 ] || together=40
  if [ "$(nproc)" -le 8 ]; then
    echo -D CMAKE_UNITY_BUILD=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=$together
  fi
}
