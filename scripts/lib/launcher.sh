# shellcheck shell=bash
# How to start ranks with the mpirun of this machine. Sourced by quickstart.

# The cores that this process may use, as Open MPI counts its slots: without hyper-threads.
usable_cores() {
  local allowed cores
  allowed=$(nproc)
  cores=$(lscpu --parse=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l) || cores=0
  [ "$cores" -gt 0 ] && [ "$cores" -lt "$allowed" ] || cores=$allowed
  echo "$cores"
}

# Sets `launcher` to the command that starts RANKS ranks on this machine.
prepare_launcher() {  # RANKS
  launcher=(mpirun -np "$1")
  # Options and variables below are Open MPI's own; other launchers need none of them.
  [[ "$(mpirun --version 2>/dev/null)" == *"Open MPI"* ]] || return 0
  if [ "$(usable_cores)" -lt "$1" ]; then
    launcher+=(--oversubscribe)
  fi
  if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}
