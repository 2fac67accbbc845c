"""SIMULATED machines for complete runs. make_tree() writes a recorded host (tests/fixtures/machines) as the files that
a kernel, EC2 and the EFA installer would have on it. `python3 morning.py FILE` is EC2's instance metadata service for
such a machine; FILE is the placement.json that make_tree() wrote."""

import http.server
import json
import pathlib
import sys

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
MACHINE = json.loads((FIXTURES / "machines" / "p5.48xlarge.json").read_text())
GENERATION_RATES = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
METADATA = {"availability zone": "placement/availability-zone", "placement group": "placement/group-name",
            "vpc": "network/interfaces/macs/02:00:00:00:00:01/vpc-id", "subnet": "network/interfaces/macs/02:00:00:00:00:01/subnet-id"}


def recorded_host():
    """A copy of the first recorded host, which the caller may change."""
    return json.loads(json.dumps(MACHINE["hosts"][0]))


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def make_device(sysfs, seen, device, vendor, kind):
    """Makes the folder of a PCI device at its place in the tree of bridges. Returns its path in `sysfs`, and its path
    below `seen`, the path at which programs see that folder: links have it."""
    place = pathlib.Path("devices").joinpath(*device["pci"]["path"], device["pci"]["address"])
    folder = sysfs / place
    write(folder / "vendor", vendor)
    write(folder / "class", kind)
    write(folder / "numa_node", "0")  # the cores are those of the machine that runs the test: it may have no other node
    for name, part in (("current", ""), ("max", "_max")):
        write(folder / f"{name}_link_speed", f"{GENERATION_RATES[device['pcie']['generation' + part]]} GT/s PCIe")
        write(folder / f"{name}_link_width", str(device["pcie"]["width" + part]))
    link = sysfs / "bus/pci/devices" / device["pci"]["address"]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"{seen}/{place}")
    return folder, f"{seen}/{place}"


def make_nic(sysfs, seen, nic):
    folder, place = make_device(sysfs, seen, nic, "0x1d0f", "0x020000")
    (sysfs / "drivers/efa").mkdir(parents=True, exist_ok=True)
    (folder / "driver").symlink_to(f"{seen}/drivers/efa")
    (folder / "infiniband_verbs" / nic["verbs"]).mkdir(parents=True)
    write(folder / "p2p", "NVIDIA" if nic["gdr"] else "")
    here = sysfs / "class/infiniband" / nic["name"]
    for name, text in {"node_type": "4: Unspecified", "node_guid": nic["hardware_address"], "fw_ver": nic["firmware"],
                       "ports/1/state": "4: ACTIVE", "ports/1/link_layer": "Unspecified",
                       "ports/1/rate": f"{nic['rate_gb_per_s'] * 8:.0f} Gb/sec (4X EDR)"}.items():
        write(here / name, text)
    for name, count in nic["counters"].items():
        write(here / "ports/1/hw_counters" / name, str(count))
    (here / "device").symlink_to(place)


def make_tree(folder, host, instance, plugin=True, kernel="/sys"):
    """Writes the machine as files in `folder`. `plugin`: aws-ofi-nccl is installed. Its file names no version, because
    the libfabric of the machine that runs the test may be too old for that version. `kernel`: the path at which
    programs see the simulated /sys."""
    sysfs, versions = folder / "sys", host["versions"]
    efa = [nic for nic in host["nics"] if nic["kind"] == "efa"]
    for nic in efa:
        make_nic(sysfs, kernel, nic)
    for gpu in host["gpu_devices"]:
        make_device(sysfs, kernel, gpu, "0x10de", "0x030200")
    for name, text in {"sys_vendor": "Amazon EC2", "product_name": host["instance_type"], "board_asset_tag": instance}.items():
        write(sysfs / "class/dmi/id" / name, text)
    for module in host["modules"]:
        (sysfs / "module" / module).mkdir(parents=True)
    write(sysfs / "module/efa/version", versions["efa driver"])
    write(sysfs / "module/nvidia/version", versions["nvidia driver"])
    for name, limit in (("nr_hugepages", "huge_pages"), ("free_hugepages", "huge_pages_free")):
        write(folder / "hugepages" / name, str(host["limits"][limit]))
    (folder / "dev").mkdir()
    write(folder / "dev/nvidiactl", "")
    for nic in efa:
        if nic["verbs_usable"]:
            write(folder / "dev/infiniband" / nic["verbs"], "")
    write(folder / "opt/amazon/efa_installed_packages", f"# EFA installer version: {versions['efa installer']}")
    if plugin:
        write(folder / "opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so", "SIMULATED")
    write(folder / "placement.json", json.dumps({**host["placement"], "instance": instance, "type": host["instance_type"]}))


# For each version of aws-ofi-nccl: the recorded version that logs the same lines, and the words that differ in them.
LOGS = {"1.9": ("1.9", {}), "1.17": ("1.17", {}), "1.21": ("1.17", {"1.17.2": "1.21.1"}),
        "1.13": ("1.9", {"1.9.2": "1.13.2", "version 1.20": "version 1.22", "Setting NCCL_TOPO_FILE environment variable to":
                         "topology file"})}


def plugin_log(version):
    """The lines that aws-ofi-nccl of this version logs on a healthy p5 (tests/fixtures/nccl-log/healthy): the fake NCCL
    prints them."""
    recorded, changes = LOGS[version]
    text = (FIXTURES / "nccl-log/healthy" / f"p5.48xlarge-plugin-{recorded}.log").read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    return [line.split(" NCCL INFO ", 1)[1] for line in text.splitlines() if " NCCL INFO NET/" in line]


class Metadata(http.server.BaseHTTPRequestHandler):
    texts = {}

    def answer(self, text):
        self.send_response(200 if text else 404)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        self.answer("token")

    def do_GET(self):
        self.answer(self.texts.get(self.path.removeprefix("/latest/meta-data/"), ""))

    def log_message(self, *arguments):
        pass


def serve(placement):
    Metadata.texts = {path: placement[name] for name, path in METADATA.items()}
    Metadata.texts |= {"instance-id": placement["instance"], "instance-type": placement["type"], "mac": "02:00:00:00:00:01"}
    server = http.server.ThreadingHTTPServer(("169.254.169.254", 80), Metadata)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(json.loads(pathlib.Path(sys.argv[1]).read_text()))
