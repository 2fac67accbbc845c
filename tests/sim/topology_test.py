"""p5bench topo and its probes: on this machine, on a fake driver that is healthy, sick, silent or old, and on recorded
machines."""

import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import jsonschema

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, SCHEMA, SOURCE, Folder, main  # noqa: E402

PROBE = BUILD / "p5bench-probe-nvml"
DRIVER = BUILD / "tests" / "fakes" / "nvml"
OLD_DRIVER = BUILD / "tests" / "fakes" / "nvml-old"
OFFLINE = {"AWS_EC2_METADATA_DISABLED": "true"}
TOPOLOGY = jsonschema.Draft202012Validator({"$defs": SCHEMA.schema["$defs"], "$ref": "#/$defs/topology"})


def probe(limit="20", driver=DRIVER, faults="", gpus=8):
    variables = {**os.environ, "LD_LIBRARY_PATH": str(driver), "P5BENCH_FAKE_NVML": faults,
                 "P5BENCH_FAKE_GPUS": str(gpus)}
    done = subprocess.run([PROBE, limit], env=variables, capture_output=True, text=True, timeout=60, check=True,
                          stdin=subprocess.DEVNULL)
    return json.loads(done.stdout)


class Probe(unittest.TestCase):
    def test_tells_what_a_healthy_driver_says(self):
        told = probe()
        self.assertEqual((told["driver"], told["cuda"], told["problem"], len(told["gpus"])),
                         ("580.00.fake", "13.0", "", 8))
        gpu = told["gpus"][3]
        self.assertRegex(gpu["uuid"], r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assertEqual(gpu["pci"]["address"], "0000:40:00.0")
        self.assertEqual((gpu["architecture"], gpu["links"], gpu["links_possible"]), (90, 18, 18))
        self.assertEqual(gpu["link_rate_raw_gb_per_s"], 26.562)
        self.assertEqual(gpu["nvlinks"][5], {"number": 5, "active": True, "rate_raw_gb_per_s": 26.562,
                                             "remote": "switch", "remote_pci": "0000:c1:00.0",
                                             "errors": {"replay": 0, "recovery": 0, "crc_flit": 0, "crc_data": 0}})
        self.assertEqual(gpu["pcie"], {"generation": 5, "width": 16, "generation_max": 5, "width_max": 16})
        self.assertEqual((gpu["fabric_state"], gpu["fabric_status"], gpu["mig"], gpu["persistence"]),
                         ("completed", 0, False, True))
        self.assertEqual((gpu["sm_clock_max_mhz"], gpu["power_cap_w"], gpu["processes"]), (1980, 700.0, 0))
        self.assertEqual(gpu["state"], {"sm_clock_mhz": 1980, "memory_clock_mhz": 2619, "temperature_c": 34,
                                        "power_w": 71.5, "throttle_mask": 1})
        self.assertEqual((gpu["errors"]["ecc"], gpu["errors"]["uncorrected"], gpu["errors"]["remap_pending"],
                          gpu["errors"]["retired_pages"]), (True, 0, False, None))

    def test_tells_what_is_wrong_with_one_gpu_and_nothing_wrong_of_others(self):
        told = probe(faults="link-down:gpu=2:count=3,pcie:gpu=1:generation=3:width=8,throttle:gpu=4:mask=0x48,"
                            "ecc:gpu=5:uncorrected=7,remapped:gpu=6:rows=2:pending=1:failed=1,busy:gpu=7:processes=2,"
                            "fabric:gpu=0:state=2")["gpus"]
        self.assertEqual([gpu["links"] for gpu in told], [18, 18, 15, 18, 18, 18, 18, 18])
        self.assertEqual([link["active"] for link in told[2]["nvlinks"]], [True] * 15 + [False] * 3)
        self.assertEqual([gpu["pcie"]["generation"] for gpu in told], [5, 3] + [5] * 6)
        self.assertEqual([gpu["state"]["throttle_mask"] for gpu in told], [1] * 4 + [0x48] + [1] * 3)
        self.assertEqual([gpu["errors"]["uncorrected"] for gpu in told], [0] * 5 + [7, 0, 0])
        self.assertEqual([gpu["errors"]["remap_failed"] for gpu in told], [False] * 6 + [True, False])
        self.assertEqual([gpu["processes"] for gpu in told], [0] * 7 + [2])
        self.assertEqual([gpu["fabric_state"] for gpu in told], ["in progress"] + ["completed"] * 7)

    def test_tells_all_conditions_of_the_health_of_a_fabric(self):
        told = probe(faults="clique:gpu=1:health=0x5aa,clique:gpu=2:health=0x1a9")["gpus"]
        self.assertEqual([gpu.get("fabric_trouble") for gpu in told[:3]], [None, ["insufficient NVLinks"], ["degraded bandwidth"]])

    def test_tells_of_links_that_recovered_where_they_count_nothing_else(self):
        told = probe(faults="nvlink5:gpu=2:link=4:recovered=3:failed=1")["gpus"][2]["nvlinks"]
        self.assertEqual([told[link]["errors"] for link in (3, 4)],
                         [{"recovery": 0, "recovery_failed": 0}, {"recovery": 3, "recovery_failed": 1}])

    def test_a_gpu_that_does_not_answer_costs_its_deadline_and_what_it_had_not_told_yet(self):
        told = probe(limit="0.5", faults="block:function=nvmlDeviceGetNvLinkState:gpu=5")
        self.assertEqual([gpu["links"] for gpu in told["gpus"]], [18] * 5 + [None] + [18] * 2)
        # Longer where another GPU answered late, as on a busy machine.
        self.assertRegex(told["gpus"][5]["problem"], r"^nvmlDeviceGetNvLinkState did not answer within (0\.5|0\.75|1) s$")
        self.assertEqual(told["gpus"][5]["name"], "Fake GPU")
        self.assertEqual([gpu["problem"] for gpu in told["gpus"]].count(""), 7)

    def test_gpus_that_start_one_after_the_other_are_waited_for_longer(self):
        told = probe(limit="3", faults="start:ms=500")
        self.assertEqual([gpu["problem"] for gpu in told["gpus"]], [""] * 8)

    def test_a_driver_that_never_answers_is_a_problem_in_words(self):
        told = probe(limit="0.3", faults="block:function=nvmlInit_v2")
        self.assertEqual((told["gpus"], told["problem"]), ([], "nvmlInit_v2 did not answer within 0.3 s"))

    def test_a_driver_that_refuses_says_why(self):
        told = probe(faults="init:error=9")
        self.assertIn("Driver Not Loaded", told["problem"])

    def test_a_lost_gpu_keeps_its_place(self):
        told = probe(faults="lost:gpu=6")
        self.assertEqual(len(told["gpus"]), 8)
        self.assertIn("GPU is lost", told["gpus"][6]["problem"])
        self.assertEqual(told["gpus"][6]["uuid"], "")

    def test_what_an_old_driver_does_not_know_is_unknown(self):
        gpu = probe(driver=OLD_DRIVER)["gpus"][0]
        self.assertEqual((gpu["name"], gpu["state"]["sm_clock_mhz"], gpu["problem"]), ("Fake GPU", 1980, ""))
        for unknown in ("links", "processes", "mig", "persistence", "power_cap_w", "fabric_status"):
            self.assertIsNone(gpu[unknown], unknown)
        self.assertIsNone(gpu["state"]["throttle_mask"])
        self.assertEqual((gpu["nvlinks"], gpu["fabric_state"]), ([], ""))

    def test_no_driver_at_all_is_said(self):
        with tempfile.TemporaryDirectory() as nothing:
            told = probe(driver=nothing)
        if told["driver"]:
            self.skipTest("this machine has a driver")
        # Its library is missing, or it is installed where no GPU is.
        self.assertRegex(told["problem"], r"libnvidia-ml\.so\.1|Driver Not Loaded")


class Watch(unittest.TestCase):
    def test_tells_every_second_until_nobody_listens_and_at_the_end_once_more(self):
        variables = {**os.environ, "LD_LIBRARY_PATH": str(DRIVER), "P5BENCH_FAKE_GPUS": "2",
                     "P5BENCH_FAKE_NVML": "clock:gpu=1:sm=345,throttle:gpu=1:mask=0x40,xid:gpu=1:code=94"}
        with subprocess.Popen([PROBE, "--watch"], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as watching:
            first = json.loads(watching.stdout.readline())
            watching.stdin.close()
            rest = [json.loads(line) for line in watching.stdout]
            self.assertEqual(watching.wait(timeout=30), 0)
        self.assertEqual([gpu["state"]["sm_clock_mhz"] for gpu in first["gpus"]], [1980, 345])
        self.assertEqual(len(rest), 1)
        xids = first["xids"] + rest[0]["xids"]
        self.assertEqual(xids, [{"uuid": first["gpus"][1]["uuid"], "code": 94, "text": "", "count": 1}])

    def test_watches_nics_without_a_driver(self):
        with tempfile.TemporaryDirectory() as nothing:
            done = subprocess.run([PROBE, "--watch"], env={**os.environ, "LD_LIBRARY_PATH": nothing},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
        line = json.loads(done.stdout.splitlines()[0])
        self.assertEqual(set(line), {"gpus", "nics", "xids"})


class Metadata(http.server.BaseHTTPRequestHandler):
    TEXTS = {"instance-id": "i-0fake", "instance-type": "p5.48xlarge", "placement/availability-zone": "us-east-1z",
             "placement/group-name": "tight", "mac": "02:00:00:00:00:01",
             "network/interfaces/macs/": "02:00:00:00:00:01/\n02:00:00:00:00:02/\n02:00:00:00:00:03/",
             "network/interfaces/macs/02:00:00:00:00:02/network-card": "0",
             "network/interfaces/macs/02:00:00:00:00:03/network-card": "1",
             "network/interfaces/macs/02:00:00:00:00:01/vpc-id": "vpc-0fake",
             "network/interfaces/macs/02:00:00:00:00:01/subnet-id": "subnet-0fake"}

    def answer(self, code, text=""):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        self.answer(200 if self.path == "/latest/api/token" else 404, "token-1")

    def do_GET(self):
        if self.headers["X-aws-ec2-metadata-token"] != "token-1":
            self.answer(401)
            return
        text = self.TEXTS.get(self.path.removeprefix("/latest/meta-data/"))
        self.answer(200 if text else 404, text or "")

    def log_message(self, *arguments):
        pass


class Command(Folder):
    def topo(self, *arguments, faults="", gpus=8, code=0, **more):
        variables = {**OFFLINE, "LD_LIBRARY_PATH": str(DRIVER), "P5BENCH_FAKE_NVML": faults,
                     "P5BENCH_FAKE_GPUS": str(gpus), **more}
        done = self.run_it("topo", *arguments, variables=variables)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def topo_json(self, *arguments, **more):
        told = json.loads(self.topo("--format", "json", *arguments, **more))
        self.assertEqual([error.message for error in TOPOLOGY.iter_errors(told["topology"])], [])
        return told

    def test_shows_a_fake_host_as_a_tree_and_what_is_wrong_where_it_stands(self):
        text = self.topo(faults="link-down:gpu=2:count=2")
        lines = text.splitlines()
        gpu = next(line for line in lines if "GPU 2 " in line and "Fake GPU" in line)
        self.assertTrue(gpu.startswith("! "), gpu)
        self.assertIn("16 NVLinks", gpu)
        self.assertFalse(next(line for line in lines if "GPU 3 " in line and "Fake GPU" in line).startswith("!"))
        self.assertRegex(text, r"error: gpu\.links \S+ GPU 2: ")
        self.assertNotIn("NOT this machine", text)

    def test_visible_devices_change_the_numbering_of_ranks_and_nothing_else(self):
        plain = self.topo_json()
        turned = self.topo_json(CUDA_VISIBLE_DEVICES="3,1," + plain["topology"]["hosts"][0]["gpu_devices"][7]["uuid"])
        for topology in (plain["topology"], turned["topology"]):
            for volatile in ("discovery_s", "memory_available_bytes", "limits", "nics"):
                topology["hosts"][0].pop(volatile)
            topology.pop("taken")
        self.assertEqual(plain["topology"], turned["topology"])
        self.assertEqual(plain["bindings"][0]["gpu"], 0)
        self.assertEqual(turned["bindings"][0]["gpu"], 3)

    def test_a_recording_is_read_again_and_never_taken_for_this_machine(self):
        self.topo("--record", "here.json", faults="link-down:gpu=1:count=1")
        again = self.topo("--load", "here.json", gpus=0)
        self.assertRegex(again.splitlines()[0], r"^RECORDED \S+Z: NOT this machine$")
        self.assertRegex(again, r"error: gpu\.links \S+ GPU 1: ")
        recording = json.loads((self.folder / "here.json").read_text())
        host = recording["topology"]["hosts"][0]
        self.assertEqual(list(recording["hwloc_xml"]), [host["name"]])
        (self.folder / "lstopo.xml").write_text(recording["hwloc_xml"][host["name"]])
        told = self.topo_json("--load", "lstopo.xml")["topology"]
        self.assertEqual(told["provenance"], "recorded")
        for count in ("packages", "cores", "threads", "numa_nodes"):
            self.assertEqual(told["hosts"][0][count], host[count], count)

    def test_settings_are_looked_at_and_recorded_without_secrets(self):
        there = {"NCCL_PROTO": "simple", "NCCL_TUNER_PLUGIN": str(self.folder / "gone.so"), "FI_AUTH_KEY": "hunter2"}
        self.topo("--record", "here.json", **there)
        recording = json.loads((self.folder / "here.json").read_text())
        settings = recording["topology"]["settings"]
        self.assertEqual(settings["dangling"], ["NCCL_TUNER_PLUGIN"])
        self.assertEqual(settings["variables"]["NCCL_PROTO"], "simple")
        self.assertNotIn("hunter2", json.dumps(recording))
        for found in (recording["findings"], self.topo_json("--load", "here.json")["findings"]):
            self.assertLessEqual({"settings.proto_simple", "settings.tuner_missing"}, {each["id"] for each in found})

    def test_all_that_is_found_in_broken_machines_is_listed(self):
        listed = [line.split()[0] for line in self.run_it("list", "findings").stdout.splitlines()]
        self.assertEqual(len(listed), len(set(listed)), "each once")
        faults = json.loads((SOURCE / "tests/fixtures/machines/faults.json").read_text())
        self.assertLessEqual({fault["finding"] for fault in faults}, set(listed))

    def test_a_silent_gpu_is_unknown_and_not_accused_of_missing_links(self):
        told = self.topo_json(faults="lost:gpu=6")
        self.assertNotIn("gpu.links", [finding["id"] for finding in told["findings"]])

    def load(self, file, code=0):
        done = self.run_it("topo", "--load", file, "--format", "json")
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else json.loads(done.stdout)

    def test_reads_the_folder_of_a_run(self):
        self.run_it("--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2", "--sizes", "8", "--quiet")
        folder = self.folder / "p5bench-out" / "latest"
        whole = self.load(folder)
        self.assertEqual(len(whole["topology"]["hosts"]), 2)
        self.assertEqual(self.load(folder / "topology.json"), whole)
        (folder / "topology.json").unlink()
        self.assertEqual(len(self.load(folder)["topology"]["hosts"]), 2)
        self.assertIn("is of no run, and has no 'sys'", self.load(self.folder, code=2))

    def test_reads_the_topology_that_nccl_writes(self):
        told = self.load(SOURCE / "tests/fixtures/topologies/nccl.xml")
        self.assertEqual(told["findings"], [])
        host = told["topology"]["hosts"][0]
        self.assertEqual((host["name"], host["gpus"], host["numa_nodes"]), ("nccl", 2, 2))
        near, far = host["gpu_devices"]
        self.assertEqual((near["pci"]["address"], near["numa_node"], near["links"], near["architecture"]), ("0000:22:00.0", 0, 18, 90))
        self.assertEqual((near["pcie"]["generation"], near["pcie"]["width"], near["nics"]), (5, 16, ["mlx5_2"]))
        self.assertEqual((far["pci"]["address"], far["pcie"]["generation"], far["links"]), ("0000:a2:00.0", None, None))
        nic, other = host["nics"]
        self.assertEqual((nic["name"], nic["kind"], nic["rate_gb_per_s"], nic["pcie"]["generation"], nic["pcie"]["width"], nic["gdr"]),
                         ("mlx5_2", "infiniband", 25.0, 4, 8, True))
        self.assertEqual((other["name"], other["kind"], other["rate_gb_per_s"]), ("eth0", "ethernet", 1.25))

    def test_attributes_in_all_forms_of_xml_are_read(self):
        text = (SOURCE / "tests/fixtures/topologies/nccl.xml").read_text()
        wanted = self.load(SOURCE / "tests/fixtures/topologies/nccl.xml")
        (self.folder / "other").mkdir()
        for other in (text.replace('"', "'"), text.replace('="', ' = "'), text.replace('" ', '"\n\t'), text.replace('" ', '"'),
                      text.replace('dev="0"', 'dev="a > \'b\'"'),
                      text.replace("<nic>", "<!-- <gpu dev='9'/> and <pci> of another host -->\n<nic>")):
            (self.folder / "other/nccl.xml").write_text(other)
            self.assertEqual(self.load("other/nccl.xml"), wanted, other)
        (self.folder / "uncounted.xml").write_text(text.replace(' count="12"', "").replace(' count="6"', ""))
        self.assertIsNone(self.load("uncounted.xml")["topology"]["hosts"][0]["gpu_devices"][0]["links"])

    # The clouds' images have such files, as {ndv5,p4d-24xl}-topo.xml; those of Azure name no vendor.
    def test_a_file_that_nccl_reads_has_gpus_and_nics_by_their_pci_class(self):
        def of_switch(number, *devices):
            return (f'<pci busid="ffff:ff:0{number}.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">'
                    + "".join(f'<pci busid="{place}" class="{kind}" link_speed="32.0 GT/s PCIe" link_width="16" {ids}/> <!-- one -->'
                              for place, kind, ids in devices) + "</pci>")
        (self.folder / "file.xml").write_text(
            '<system version="1"><cpu numaid="0" arch="x86_64">'
            + of_switch(1, ("0001:00:00.0", "0x030200", ""), ("0101:00:00.0", "0x020700", ""))
            + of_switch(2, ("0002:00:00.0", "0x030200", 'vendor="0x10de" device="0x2330"'),
                        ("0102:00:00.0", "0x020000", 'vendor="0x1d0f" device="0xefa2"'), ("0102:00:01.0", "0x020000", 'vendor="0x1d0f" device="0xec20"'),
                        ("0003:00:00.0", "0x030000", 'vendor="0x1a03" device="0x2000"'), ("0004:00:00.0", "0x010802", ""))
            + '</cpu><cpu numaid="1" arch="x86_64"/></system>')
        told = self.load("file.xml")
        self.assertEqual(told["findings"], [])
        host = told["topology"]["hosts"][0]
        self.assertEqual([(each["pci"]["address"], each["pci"]["path"][-1], each["numa_node"], each["pcie"]["generation"])
                          for each in host["gpu_devices"]],
                         [("0001:00:00.0", "ffff:ff:01.0", 0, 5), ("0002:00:00.0", "ffff:ff:02.0", 0, 5)])
        self.assertEqual([(each["name"], each["kind"], each["state"], each["rate_gb_per_s"], each["pci"]["path"][-1]) for each in host["nics"]],
                         [("0101:00:00.0", "infiniband", "unknown", None, "ffff:ff:01.0"), ("0102:00:00.0", "efa", "unknown", None, "ffff:ff:02.0"),
                          ("0102:00:01.0", "ethernet", "unknown", None, "ffff:ff:02.0")])
        (self.folder / "places.xml").write_text(
            '<system version="1"><cpu numaid="0"><pci busid="0000:00:16.0"/><pci busid="0000:00:17.0"/></cpu></system>')
        self.assertIn("it names no GPU and no NIC", self.load("places.xml", code=2))
        shown = self.run_it("topo", "--load", "file.xml").stdout
        self.assertRegex(shown, r"GPU 0  \(model unknown\)  0001:00:00\.0")

    # NCCL writes GPUs in the order of their NUMA nodes, and those of its job only.
    def test_gpus_of_nccl_have_its_numbers_and_compute_capabilities(self):
        def host(*devices):
            return '<system version="1"><cpu numaid="0" arch="x86_64">' + "".join(
                f'<pci busid="0000:{dev}0:00.0" class="0x030200" vendor="0x10de"><gpu dev="{dev}" sm="103" rank="{rank}"/></pci>'
                for rank, dev in enumerate(devices)) + "</cpu></system>"
        for devices, wanted in (((2, 3, 0, 1), [None] * 4), ((4, 0), [None, 4])):
            (self.folder / "nccl.xml").write_text(host(*devices))
            gpus = self.load("nccl.xml")["topology"]["hosts"][0]["gpu_devices"]
            self.assertEqual([each["pci"]["address"] for each in gpus], [f"0000:{dev}0:00.0" for dev in sorted(devices)])
            self.assertEqual([each.get("nccl_device") for each in gpus], wanted)
        shown = self.run_it("topo", "--load", "nccl.xml").stdout
        self.assertIn("GPU 0  (compute capability 10.3)  0000:00:00.0", shown)
        self.assertIn("GPU 1 (device 4 of NCCL)  (compute capability 10.3)  0000:40:00.0", shown)

    # The plugin makes one device of NCCL of the four EFA devices beside a GPU of p5.48xlarge.
    def test_devices_of_nccl_are_no_missing_nics(self):
        groups = "".join(
            f'<pci busid="0000:{i}0:00.0" class="0x060400" vendor="0x1d0f" link_speed="32.0 GT/s PCIe" link_width="16">'
            f'<pci busid="0000:{i}3:00.0" class="0x030200" vendor="0x10de" link_speed="32.0 GT/s PCIe" link_width="16">'
            f'<gpu dev="{i}" sm="90" rank="{i}" gdr="1"><nvlink target="0000:aa:00.0" count="18" tclass="0x068000"/></gpu></pci>'
            f'<pci busid="0000:{i}2:00.0" class="0x020000" vendor="0x1d0f" link_speed="16.0 GT/s PCIe" link_width="16">'
            f'<nic><net name="rdmap{i}s0" dev="{i}" speed="400000" port="1" guid="0x{i + 1}" gdr="1"/></nic></pci></pci>' for i in range(8))
        for name, gpus in (("p5", groups), ("half", groups[:len(groups) // 2])):
            (self.folder / f"{name}.xml").write_text(f'<system version="1"><cpu numaid="0" arch="x86_64">{gpus}</cpu></system>')
            done = self.run_it("topo", "--load", f"{name}.xml", "--platform", "p5.48xlarge", "--format", "json")
            told = json.loads(done.stdout)
            self.assertEqual([each["id"] for each in told["findings"] if each["severity"] == "error"], [], told["findings"])
            self.assertEqual(told["topology"]["hosts"][0]["seen_by"], "nccl")

    # NCCL writes all hosts that NVLink joins (MNNVL), in any order; places on PCI are the same on all.
    def test_hosts_that_nvlink_joins_are_hosts_of_their_own(self):
        def host(tag, ranks):
            return "".join(f'<cpu host_hash="0x{tag}" numaid="{numa}" arch="arm64"><pci busid="000{8 + numa}:01:00.0" class="0x030200" vendor="0x10de">'
                           f'<gpu dev="{numa}" sm="100" rank="{rank}" gdr="1"><nvlink target="ffff:ff:ff" count="18"/></gpu></pci></cpu>'
                           for numa, rank in enumerate(ranks))
        (self.folder / "nvl.xml").write_text(f'<system version="1">{host("a2", [2, 3])}{host("a1", [0, 1])}</system>')
        topology = self.load("nvl.xml")["topology"]
        self.assertEqual([(each["name"], each["gpus"], each["numa_nodes"]) for each in topology["hosts"]],
                         [("nvl-1", 2, 2), ("nvl-2", 2, 2)])
        self.assertEqual(topology["host_of_rank"], [0, 0, 1, 1])
        (self.folder / "part.xml").write_text(f'<system version="1">{host("a2", [6, 7])}{host("a1", [4, 5])}</system>')
        topology = self.load("part.xml")["topology"]
        self.assertEqual((len(topology["hosts"]), topology["host_of_rank"]), (2, []))

    def test_what_is_no_whole_topology_of_nccl_is_refused(self):
        text = (SOURCE / "tests/fixtures/topologies/nccl.xml").read_text()
        for broken, why in ((text[:400], "it ends within"), (text.replace("</pci>", "", 1), "ends what did not begin"),
                            ("<system>" + "<pci>" * 100, "nested more than"),
                            (text.replace('sm="90"', 'sm="-1"', 1), "'broken.xml' is no topology: line 5: sm=\"-1\" of a <gpu>"),
                            (text.replace('sm="90"', 'sm="x"', 1), "sm=\"x\" of a <gpu>"),
                            (text.replace('sm="90"', 'sm=90', 1), "line 5: <gpu> has 'sm' where NAME=\"VALUE\" is due"),
                            (text.replace('sm="90"', 'sm', 1), "<gpu> has 'sm' where"),
                            (text.replace('sm="90"', 'sm="90', 1), "line 5: <gpu> has '0' where"),
                            (text.replace('gdr="1">', 'gdr="1"', 1), "line 5: the tag of <gpu> has no end"),
                            (text.replace('sm="90"', 'sm="90" sm="80"', 1), "<gpu> has 'sm' twice"),
                            (text.replace('count="12"', 'count="many"', 1), "count=\"many\" of a <nvlink>"),
                            (text + text, "line 26: <system> begins where the topology has ended")):
            (self.folder / "broken.xml").write_text(broken)
            self.assertIn(why, self.load("broken.xml", code=2))

    def test_what_lstopo_cannot_see_of_gpus_is_no_fault(self):
        told = self.load(SOURCE / "tests/fixtures/topologies/lstopo-nvidia.xml")
        self.assertEqual([(each["uuid"][:12], each["name"]) for each in told["topology"]["hosts"][0]["gpu_devices"]],
                         [("GPU-00000007", "NVIDIA H200"), ("", "")])
        self.assertNotIn("gpu.unseen", [each["id"] for each in told["findings"]])
        shown = self.run_it("topo", "--load", SOURCE / "tests/fixtures/topologies/lstopo-nvidia.xml").stdout
        self.assertIn("1 thread, 8.0 GiB", shown)  # those that processes may use are unknown
        self.assertIn("GPU 1  (model unknown)", shown)

    def test_comments_in_xml_of_lstopo_and_names_by_cuda_are_read(self):
        text = (SOURCE / "tests/fixtures/topologies/lstopo-nvidia.xml").read_text()
        wanted = self.load(SOURCE / "tests/fixtures/topologies/lstopo-nvidia.xml")
        root = '<topology version="2.0">'
        for other in (text.replace(root, f"{root}\n<!-- <system> of <topology> -->"), f"\n <!-- by hand -->\n{text}<!-- end -->\n",
                      text.replace('name="nvml0" subtype="NVML"', 'name="cuda0" subtype="CUDA"')):
            (self.folder / "lstopo-nvidia.xml").write_text(other)
            self.assertEqual(self.load("lstopo-nvidia.xml"), wanted, other)

    def test_names_what_it_does_not_read_and_what_to_give_instead(self):
        (self.folder / "matrix.txt").write_text("\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-31\t0\n")
        told = self.load("matrix.txt", code=2)
        self.assertIn("nvidia-smi topo -m", told)
        self.assertIn("NCCL_TOPO_DUMP_FILE", told)
        (self.folder / "new.xml").write_text('<?xml version="1.0"?>\n<topology version="3.0">\n</topology>\n')
        self.assertIn("hwloc 3", self.load("new.xml", code=2))
        (self.folder / "empty.xml").write_text("\n")
        self.assertIn("'empty.xml' is no topology: it is empty; record one", self.load("empty.xml", code=2))

    def test_writes_a_rank_file(self):
        self.topo("--rankfile", "ranks", gpus=2)
        lines = [line for line in (self.folder / "ranks").read_text().splitlines() if not line.startswith("#")]
        self.assertTrue(all(line.startswith(f"rank {rank}=") for rank, line in enumerate(lines)), lines)

    def test_asks_the_instance_metadata(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        there = {"AWS_EC2_METADATA_DISABLED": "",
                 "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{server.server_port}/"}
        host = self.topo_json(**there)["topology"]["hosts"][0]
        self.assertEqual(host["placement"], {"availability zone": "us-east-1z", "placement group": "tight",
                                             "vpc": "vpc-0fake", "subnet": "subnet-0fake"})
        self.assertEqual((host["instance"], host["instance_type"]), ("i-0fake", "p5.48xlarge"))
        self.assertEqual(host["network_cards"], 2, "two of the three interfaces are of one card")
        with unittest.mock.patch.dict(Metadata.TEXTS):
            del Metadata.TEXTS["placement/group-name"]
            host = self.topo_json(**there)["topology"]["hosts"][0]
            self.assertEqual(host["placement"]["placement group"], "", "an instance in none")
        host = self.topo_json("--platform", "p4d.24xlarge", **there)["topology"]["hosts"][0]
        self.assertEqual(host["placement"], {})

    def test_the_made_up_machine_says_so(self):
        text = self.topo("--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2")
        self.assertIn("SYNTHETIC", text.splitlines()[0])
        self.assertIn("2 hosts, platform p5.48xlarge", text)

    def test_a_platform_that_the_machine_contradicts_is_refused(self):
        machines = SOURCE / "tests" / "fixtures" / "machines"
        for machine, platform, why in (("p5.48xlarge", "p5e.48xlarge", "n0 is a p5.48xlarge"),
                                       ("hgx-h100", "hgx-a100", "n0 has H100 (NVIDIA H100 80GB HBM3), and hgx-a100 has A100")):
            self.assertIn(why, self.topo("--load", str(machines / f"{machine}.json"), "--platform", platform, code=2))
        self.assertIn("platform hgx-h100", self.topo("--load", str(machines / "p5.48xlarge.json"), "--platform", "hgx-h100"))

    def test_bad_files_are_refused_by_name(self):
        (self.folder / "no.json").write_text("{}")
        (self.folder / "no.txt").write_text("hello")
        (self.folder / "empty").mkdir()
        for path in ("missing.json", "no.json", "no.txt", "empty"):
            self.assertIn("topology" if path == "no.json" else path, self.topo("--load", path, code=2))
        self.assertIn("nowhere/x.json", self.topo("--record", "nowhere/x.json", code=2))
        self.assertIn("--backend", self.topo("--backend", "mpi", code=2))


if __name__ == "__main__":
    main()
