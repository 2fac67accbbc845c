# shellcheck shell=bash
# Starts ranks with the mpirun of this machine. Sourced by quickstart and gpu-test.

# The cores that this process may use, in Open MPI's count of slots: without hyper-threads.
usable_cores() {
  local allowed cores
  allowed=$(nproc)
  cores=$(lscpu --parse=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l) || cores=0
  [ "$cores" -gt 0 ] && [ "$cores" -lt "$allowed" ] || cores=$allowed
  echo "$cores"
}

# The number of this machine's GPUs; 0 without a driver.
count_gpus() {
  nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true
}

# True where one process may read another's memory, which Open MPI does to pass large messages. A container's system
# call filter can forbid it, and Open MPI 4 then complains about every message. Perl is part of every Debian; without it
# the answer is yes, Open MPI's own assumption.
can_read_other_processes() {
  local call
  case $(uname -m) in
    x86_64) call=310 ;;
    aarch64) call=270 ;;
    *) return 0 ;;
  esac
  command -v perl >/dev/null || return 0
  # shellcheck disable=SC2016  # perl's variables
  perl -e '
    my ($call, $text, $copy) = ($ARGV[0] + 0, "text", "....");
    my $child = fork() // exit 0;
    if (!$child) { sleep 60; exit 0; }
    my ($into, $from) = map { pack("QQ", unpack("Q", pack("P", $_)), 4) } $copy, $text;
    my $length = syscall($call, $child, $into, 1, $from, 1, 0);
    kill "KILL", $child;
    waitpid $child, 0;
    exit($length == 4 ? 0 : 1);' "$call"
}

# Sets `launcher` to the command that starts RANKS ranks on this machine.
prepare_launcher() {  # RANKS
  launcher=(mpirun -np "$1")
  # Options and variables below are Open MPI's own; other launchers need none of them.
  [[ "$(mpirun --version 2>/dev/null)" == *"Open MPI"* ]] || return 0
  if [ "$(usable_cores)" -lt "$1" ]; then
    launcher+=(--oversubscribe)
  fi
  if ! can_read_other_processes; then
    export OMPI_MCA_btl_vader_single_copy_mechanism=none
  fi
  if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# Runs the command and returns its exit code. TERM and HUP go on to it, so that the ranks write what they have and end;
# INT comes from a terminal, which sends it to all of its processes. It is ignored here, since bash 5.2 may forget the
# exit code of a process that ends while INT interrupts `wait`.
run_ranks() {  # COMMAND...
  local ranks="" signalled="" early="" status=0
  # TERM and HUP may come before the ranks do.
  trap 'signalled=yes; if [ -n "$ranks" ]; then kill "$ranks" 2>/dev/null || true; else early=yes; fi' TERM HUP
  trap '' INT
  (trap - INT && exec "$@") </dev/null &
  ranks=$!
  [ -z "$early" ] || kill "$ranks" 2>/dev/null || true
  wait "$ranks" || status=$?
  # A trapped signal ends `wait`, and not the ranks.
  while [ -n "$signalled" ]; do
    signalled="" status=0
    wait "$ranks" || status=$?
  done
  trap - TERM HUP INT
  return "$status"
}
