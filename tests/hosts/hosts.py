"""Hosts without hardware: network namespaces with host names of their own, joined by a bridge. What runs on them is real:
Open MPI's daemons, TCP between them, and processes that can be killed one host at a time."""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

ENTER = pathlib.Path(__file__).resolve().parent / "enter_host"


def what_is_missing():
    """Why hosts cannot be made here, or None."""
    if os.geteuid() != 0:
        return "root (network namespaces)"
    for program in ("ip", "unshare", "mpirun"):
        if not shutil.which(program):
            return program
    probe = subprocess.run(["unshare", "--net", "--uts", "--mount", "true"], capture_output=True, text=True)
    return None if probe.returncode == 0 else f"the right to make namespaces ({probe.stderr.strip()})"


def command_of(pid):
    """The name of a process, "" when it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def is_alive(pid):
    """A process that still runs; one that waits to be reaped does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition, seconds, step=0.05):
    """What `condition` returned when it first was true, else what it returned last."""
    end = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < end:
        time.sleep(step)
    return result


def processes_in(namespace):
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True)
    return [pid for pid in map(int, listed.stdout.split()) if is_alive(pid)]


def remove(namespace):
    """Takes a namespace away, with all that runs in it."""
    for pid in processes_in(namespace):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # gone by itself
    wait_for(lambda: not processes_in(namespace), 10)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


def remove_left_over():
    """A test that was killed could not clean up: namespaces whose maker is gone."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for line in listed.splitlines():
        made = re.match(r"(p5(\d+)(?:h\d+|b))\b", line)
        if made and not is_alive(int(made[2])):
            remove(made[1])


class Hosts:
    """Use with `with`: makes `count` hosts named h1, h2, ... and takes them away again with all that runs on them."""

    def __init__(self, count):
        # Names of interfaces have at most 15 characters. The process id tells apart what runs at the same time.
        self.tag = f"p5{os.getpid()}"
        self.bridge = f"{self.tag}b"
        self.names = [f"h{i}" for i in range(1, count + 1)]

    def __enter__(self):
        remove_left_over()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="p5bench-hosts-"))
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for namespace in [*map(self.namespace, self.names), self.bridge]:
            remove(namespace)
        shutil.rmtree(self.folder, ignore_errors=True)

    def namespace(self, name):
        return f"{self.tag}{name}"

    def _make(self):
        # The bridge has a namespace of its own, so that the machine's firewall and addresses have no say.
        switch = ["ip", "-n", self.bridge]
        self._run("ip", "netns", "add", self.bridge)
        self._run(*switch, "link", "add", "bridge", "type", "bridge")
        self._run(*switch, "link", "set", "bridge", "up")
        lines = ["127.0.0.1 localhost"]
        for number, name in enumerate(self.names, 1):
            own, outer = ["ip", "-n", self.namespace(name)], f"port{number}"
            self._run("ip", "netns", "add", self.namespace(name))
            self._run(*switch, "link", "add", outer, "type", "veth", "peer", "name", "net0", "netns", self.namespace(name))
            self._run(*switch, "link", "set", outer, "master", "bridge", "up")
            self._run(*own, "address", "add", f"10.55.0.{number}/24", "dev", "net0")
            self._run(*own, "link", "set", "net0", "up")
            self._run(*own, "link", "set", "lo", "up")
            lines.append(f"10.55.0.{number} {name}")
            (self.folder / name).write_text(self.namespace(name))
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")

    @staticmethod
    def _run(*command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")

    def processes(self, name):
        """The process ids that run on one host."""
        return processes_in(self.namespace(name))

    def all_processes(self):
        return {pid: command_of(pid) for name in self.names for pid in self.processes(name)}

    def start_mpirun(self, ranks_per_host, program, output):
        """Starts `program` (a list) with mpirun on the first host; what it prints goes to the file `output`."""
        places = ",".join(f"{name}:{ranks_per_host}" for name in self.names)
        command = ["mpirun", "-np", str(ranks_per_host * len(self.names)), "--host", places, "--oversubscribe",
                   "--bind-to", "none", "--mca", "plm_rsh_agent", str(ENTER), "--mca", "btl", "tcp,self",
                   "--mca", "pml", "ob1", "--mca", "btl_tcp_if_include", "net0", "--mca", "oob_tcp_if_include", "net0"]
        # Open MPI's session folders go with the hosts, also those of killed daemons.
        environment = {**os.environ, "P5BENCH_HOSTS": str(self.folder), "TMPDIR": str(self.folder),
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        with open(output, "wb") as file:
            return subprocess.Popen([str(ENTER), self.names[0], "exec " + shlex.join(command + program)],
                                    stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=environment)
