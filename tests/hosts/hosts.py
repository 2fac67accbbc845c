"""Hosts without hardware: namespaces with networks, names and files of their own, joined by a bridge. Real programs run
on them: Open MPI's daemons, TCP between them, and processes that can be killed one host at a time. As on cloud images
each has a bridge for containers, with the same address everywhere, and hosts share nothing but programs and sources."""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

ENTER = pathlib.Path(__file__).resolve().parent / "enter_host"
# The first process of a host's namespaces, which keeps the host alive. Shared folders keep their paths even in /tmp, of
# which each host has its own.
KEEP = """
host=$1 files=$2 names=$3 fabric=$4
shift 4
mount --bind "$names" /etc/hosts
mount --bind "$files/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$fabric" "$files/tmp/fabric"
for folder; do
  case $folder in
    /tmp/*) mkdir -p "$files$folder"; mount --bind "$folder" "$files$folder" ;;
  esac
done
mount --rbind "$files/tmp" /tmp
mount -t tmpfs -o size=1g tmpfs /dev/shm
hostname "$host"
echo ready
exec sleep infinity
"""


def what_is_missing():
    """The reason for which hosts cannot be made here whatever is installed, or None."""
    if os.geteuid() != 0:
        return "root (network namespaces)"
    probe = subprocess.run(["unshare", "--net", "--uts", "--mount", "true"], capture_output=True, text=True)
    return None if probe.returncode == 0 else f"the right to make namespaces ({probe.stderr.strip()})"


def command_of(pid):
    """The name of a process, "" when it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def is_alive(pid):
    """True for a process that still runs, and is no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition, seconds, step=0.05):
    """Waits until `condition` returns a true value, and returns its last value."""
    end = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < end:
        time.sleep(step)
    return result


def processes_in(namespace):
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True)
    return [pid for pid in map(int, listed.stdout.split()) if is_alive(pid)]


def remove(namespace):
    """Removes a namespace with all that runs in it."""
    for pid in processes_in(namespace):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # has ended by itself
    wait_for(lambda: not processes_in(namespace), 10)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


def remove_left_over():
    """Removes namespaces whose maker has ended, because a killed test cannot clean up."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for line in listed.splitlines():
        made = re.match(r"(p5(\d+)(?:h\d+|b))\b", line)
        if made and not is_alive(int(made[2])):
            remove(made[1])


class Hosts:
    """Use with `with`: makes `count` hosts named h1, h2, ... and removes them with all that runs on them.

    bridge: the bridge for containers that each host has, with the same address; "" for none. networks: how many real
    ones join the hosts; net0, on which mpirun reaches them, is 10.55.0.0/24, net1 10.55.1.0/24. default_route: True for
    one over net0. own_kernels: True for a boot id of its own on each. shared: folders that all hosts see, besides the
    system's. Made-up GPUs need a network too: /tmp/fabric, memory that all hosts share and nothing else may use.
    """

    def __init__(self, count, bridge="docker0", networks=1, default_route=True, own_kernels=False, shared=()):
        # Names of interfaces have at most 15 characters. The process id distinguishes concurrent tests.
        self.tag = f"p5{os.getpid()}"
        self.switch = f"{self.tag}b"
        self.names = [f"h{i}" for i in range(1, count + 1)]
        self.bridge, self.networks, self.default_route = bridge, networks, default_route
        self.own_kernels = own_kernels
        self.shared = [*map(str, shared), str(ENTER.parent)]
        self.keepers = {}

    def __enter__(self):
        remove_left_over()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="p5bench-hosts-"))
        self.fabric = tempfile.mkdtemp(prefix="p5bench-hosts-", dir="/dev/shm")
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for namespace in [*map(self.namespace, self.names), self.switch]:
            remove(namespace)
        for keeper in self.keepers.values():
            keeper.wait()
            keeper.stdout.close()
        for folder in (self.folder, self.fabric):
            shutil.rmtree(folder, ignore_errors=True)

    def namespace(self, name):
        return f"{self.tag}{name}"

    def files(self, name):
        """The folder that one host sees as /tmp."""
        return self.folder / name / "tmp"

    def _make(self):
        # The switch has a namespace of its own, so that the machine's firewall and addresses do not affect it.
        self._run("ip", "netns", "add", self.switch)
        for network in range(self.networks):
            self._run("ip", "-n", self.switch, "link", "add", f"bridge{network}", "type", "bridge")
            self._run("ip", "-n", self.switch, "link", "set", f"bridge{network}", "up")
        numbered = [*enumerate(self.names, 1)]
        (self.folder / "hosts").write_text("".join(["127.0.0.1 localhost\n"] + [f"10.55.0.{i} {name}\n" for i, name in numbered]))
        for number, name in numbered:
            self._run("ip", "netns", "add", self.namespace(name))
            self._connect(name, number)
            self._keep(name)
        if not wait_for(lambda: all(map(self._has_carriers, self.names)), 30):
            raise RuntimeError("an interface does not come up")

    def _connect(self, name, number):
        own = ["ip", "-n", self.namespace(name)]
        self._run(*own, "link", "set", "lo", "up")
        # The bridge precedes the real networks: programs that take interfaces in order take this one.
        if self.bridge:
            self._run(*own, "link", "add", self.bridge, "type", "bridge")
            self._run(*own, "address", "add", "172.17.0.1/16", "dev", self.bridge)
            self._run(*own, "link", "set", self.bridge, "up")
        for network in range(self.networks):
            outer, inner = f"port{network}-{number}", f"net{network}"
            self._run("ip", "-n", self.switch, "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", self.namespace(name))
            self._run("ip", "-n", self.switch, "link", "set", outer, "master", f"bridge{network}", "up")
            self._run(*own, "address", "add", f"10.55.{network}.{number}/24", "dev", inner)
            self._run(*own, "link", "set", inner, "up")
        if self.bridge:  # a container that started later
            self._run(*own, "link", "add", "veth1", "type", "veth", "peer", "name", f"container{number}", "netns", self.switch)
            self._run("ip", "-n", self.switch, "link", "set", f"container{number}", "up")
            self._run(*own, "link", "set", "veth1", "master", self.bridge, "up")
        if self.default_route:
            self._run(*own, "route", "add", "default", "via", "10.55.0.254")

    def _has_carriers(self, name):
        """The kernel takes up to a second to notice; programs that search interfaces do not wait for it."""
        shown = subprocess.run(["ip", "-n", self.namespace(name), "-oneline", "link", "show", "up"], capture_output=True, text=True).stdout
        return all(" state UP " in line for line in shown.splitlines() if "LOOPBACK" not in line)

    def _keep(self, name):
        (self.files(name) / "fabric").mkdir(parents=True)
        own = str(uuid.uuid4()) if self.own_kernels else pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        (self.folder / name / "boot_id").write_text(own + "\n")
        keeper = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace(name), "unshare", "--mount", "--uts", "sh", "-euc", KEEP, "sh", name,
             str(self.folder / name), str(self.folder / "hosts"), self.fabric, *self.shared],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.keepers[name] = keeper
        if keeper.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{name} cannot be made")

    @staticmethod
    def _run(*command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")

    def _port(self, name, network):
        return f"port{network}-{self.names.index(name) + 1}"

    def cut(self, name, network):
        """Disconnects one network: messages on it are lost without an answer."""
        self._run("ip", "-n", self.switch, "link", "set", self._port(name, network), "nomaster")

    def mend(self, name, network):
        """Connects the network again."""
        self._run("ip", "-n", self.switch, "link", "set", self._port(name, network), "master", f"bridge{network}")

    def slow(self, name, network):
        """Data for the host over this network arrives late and slowly."""
        self._shape(self.switch, self._port(name, network), "20mbit", "200ms")

    def shape(self, name, network, rate):
        """The host's interface has this rate, each way: "100mbit"."""
        self._shape(self.switch, self._port(name, network), rate, "100ms", "16kb")
        self._shape(self.namespace(name), f"net{network}", rate, "100ms", "16kb")

    def _shape(self, namespace, interface, rate, latency, burst="16kb"):
        self._run("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", "tbf",
                  "rate", rate, "burst", burst, "latency", latency)

    def processes(self, name):
        """The process ids that run on one host, without its keeper."""
        return [pid for pid in processes_in(self.namespace(name)) if pid != self.keepers[name].pid]

    def all_processes(self):
        return {pid: command_of(pid) for name in self.names for pid in self.processes(name)}

    def start_mpirun(self, ranks_per_host, program, output, options=(), **variables):
        """Starts `program` (a list) with mpirun on the first host; its output goes to the file `output`. No option
        names an interface: mpirun tries one after the other, and so may the program."""
        places = ",".join(f"{name}:{ranks_per_host}" for name in self.names)
        command = ["mpirun", "-np", str(ranks_per_host * len(self.names)), "--host", places, "--oversubscribe",
                   "--bind-to", "none", "--mca", "plm_rsh_agent", str(ENTER), *options]
        keepers = " ".join(f"{name}={keeper.pid}" for name, keeper in self.keepers.items())
        environment = {**os.environ, "P5BENCH_HOSTS": keepers, "HOME": "/tmp", "TMPDIR": "/tmp",
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **variables}
        with open(output, "wb") as file:
            return subprocess.Popen([str(ENTER), self.names[0], "exec " + shlex.join(command + program)],
                                    stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=environment)
