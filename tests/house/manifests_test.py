"""The manifests for Kubernetes are consistent with each other and with the program."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import PROGRAM, SOURCE, main  # noqa: E402

FOLDER = SOURCE / "scripts/k8s"


def documents(name):
    return {document["kind"]: document for document in yaml.safe_load_all((FOLDER / name).read_text())}


def options_of(command):
    """What `--help` of a command offers."""
    said = subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    return set(re.findall(r"(?<![-\w])--[a-z-]+", said))


class Manifests(unittest.TestCase):
    def assert_fits(self, pod):
        """Volumes that are mounted are there, and the other way round; what cannot be shared out is asked for in full."""
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        mounted = {mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", [])}
        self.assertEqual(volumes, mounted)
        for container in pod["containers"]:
            resources = container["resources"]
            for name, amount in resources["limits"].items():
                if "/" in name or name.startswith("hugepages"):
                    self.assertEqual(resources["requests"].get(name), amount, name)

    file = "mpijob.yaml"

    def setUp(self):
        self.job = documents(self.file)
        self.replicas = self.job["MPIJob"]["spec"]["mpiReplicaSpecs"]
        self.launcher, self.worker = (self.replicas[kind]["template"]["spec"] for kind in ("Launcher", "Worker"))

    def test_the_job_has_a_rank_for_each_gpu(self):
        spec = self.job["MPIJob"]["spec"]
        self.assertEqual(self.job["MPIJob"]["apiVersion"], "kubeflow.org/v2beta1")
        command = self.launcher["containers"][0]["command"]
        gpus = self.worker["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
        self.assertEqual(spec["slotsPerWorker"], gpus)
        self.assertEqual(int(command[command.index("-np") + 1]), gpus * self.replicas["Worker"]["replicas"])
        platform = subprocess.run([PROGRAM, "list", "platforms"], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn(self.worker["nodeSelector"]["node.kubernetes.io/instance-type"], platform)

    def test_a_verdict_is_not_tried_again(self):
        self.assertEqual(self.job["MPIJob"]["spec"]["runPolicy"]["backoffLimit"], 0)
        self.assertEqual(self.launcher["restartPolicy"], "Never")

    def test_the_report_is_written_where_rank_0_has_a_volume(self):
        command = self.launcher["containers"][0]["command"]
        out = command[command.index("--out") + 1]
        mounts = {mount["mountPath"]: mount["name"] for mount in self.worker["containers"][0]["volumeMounts"]}
        claim = next(volume for volume in self.worker["volumes"] if volume["name"] == mounts[out])["persistentVolumeClaim"]
        self.assertEqual(claim["claimName"], self.job["PersistentVolumeClaim"]["metadata"]["name"])
        self.assertIn("/dev/shm", mounts)

    def test_ranks_get_the_settings_of_a_tuning(self):
        container = self.launcher["containers"][0]
        self.assertEqual([each["configMapRef"]["name"] for each in container["envFrom"]], ["nccl-settings"])
        settings = {"NCCL_TUNER_PLUGIN": "/a b.so", "NCCL_TUNER_CONFIG_FILE": "/reports/x", "P5BENCH_TUNER_HASH": "1",
                    "P5BENCH_TUNER_CHAIN": "/c", "FI_PROVIDER": "efa", "OFI_NCCL_A1": "1"}
        with tempfile.TemporaryDirectory() as folder:
            stub = pathlib.Path(folder) / "mpirun"
            stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
            stub.chmod(0o755)
            def words(**variables):
                return subprocess.run(container["command"], capture_output=True, text=True, timeout=60, check=True,
                                      env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": "/", **variables}).stdout.splitlines()
            plain = words()
            self.assertEqual(plain[0], "--allow-run-as-root")
            passed = words(**settings)
        self.assertEqual(passed[2 * len(settings):], plain)
        self.assertEqual(set(passed[0:2 * len(settings):2]), {"-x"})
        self.assertEqual(set(passed[1:2 * len(settings):2]), set(settings))

    def test_what_is_called_exists(self):
        command = self.launcher["containers"][0]["command"]
        called = command[command.index("p5bench") + 1:]
        self.assertLessEqual({word for word in called if word.startswith("--")}, options_of(["run"]))
        script = documents("node-check.yaml")["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["args"][0]
        calls = re.findall(r"p5bench (check|report) ([^;\n>]*)", script)
        self.assertEqual([name for name, _ in calls], ["check", "report"])
        for name, words in calls:
            self.assertLessEqual(set(re.findall(r"--[a-z-]+", words)), options_of([name]), name)
        self.assertEqual(subprocess.run(["bash", "-n", "-c", script], timeout=60).returncode, 0)

    def test_a_node_stays_unfit_until_all_its_gpus_were_measured(self):
        script = documents("node-check.yaml")["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["args"][0]
        with tempfile.TemporaryDirectory(prefix="p5bench-node-check-") as name:
            folder = pathlib.Path(name)
            stand_in = folder / "p5bench"
            stand_in.write_text('#!/bin/sh\n[ "$1" = check ] || { cat "$2/code"; exit; }\nmkdir -p "$3/latest"\n'
                                'printf "%s" "$SAYS" > "$3/latest/report.json"\necho $CODE > "$3/latest/code"\nexit $CODE\n')
            stand_in.chmod(0o755)
            (folder / "textfile").mkdir()
            script = script.replace("/tmp/", f"{folder}/").replace("/textfile/", f"{folder}/textfile/").replace("sleep 600", "break")
            skipped, idle = '["skipped: GPU 3 (in use by pid 7)"]', '["nothing measured: no GPU is free"]'
            for code, says, shown in ((0, skipped, 0), (10, "", 10), (0, skipped, 10), (0, idle, 10), (13, "", 10),
                                      (0, '{"id":"gpu.busy"}', 10), (0, '["single NICs were not measured"]', 0), (13, "", 13),
                                      (12, "", 12), (11, skipped, 11), (14, "", 11), (0, "[]", 0)):
                subprocess.run(["bash", "-c", script], timeout=60, check=True,
                               env={"PATH": f"{folder}:/usr/bin:/bin", "CODE": str(code), "SAYS": says})
                self.assertEqual((folder / "fit").exists(), shown not in (10, 11, 12), (code, says))
                self.assertEqual((folder / "textfile/p5bench.prom").read_text(), f"{shown}\n", (code, says))

    def test_a_node_is_unfit_for_what_the_prolog_drains_it_for(self):
        unfit = r"^\s*(10(?: \| \d+)*)\)"
        script = documents("node-check.yaml")["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["args"][0]
        prolog = (SOURCE / "scripts/slurm/prolog").read_text()
        self.assertEqual(re.search(unfit, script, re.M).group(1), re.search(unfit, prolog, re.M).group(1))

    def test_parts_fit_together(self):
        check = documents("node-check.yaml")["DaemonSet"]["spec"]
        self.assertEqual(check["selector"]["matchLabels"], check["template"]["metadata"]["labels"])
        for pod in (self.launcher, self.worker, check["template"]["spec"]):
            self.assert_fits(pod)
        images = {container["image"] for pod in (self.launcher, self.worker, check["template"]["spec"]) for container in pod["containers"]}
        self.assertEqual(len(images), 1)


class UltraServer(Manifests):
    file = "ultraserver.yaml"

    def test_each_node_of_the_domain_has_a_worker_with_a_channel(self):
        domain = self.job["ComputeDomain"]["spec"]
        self.assertEqual(domain["numNodes"], self.replicas["Worker"]["replicas"])
        claims = {each["name"]: each["resourceClaimTemplateName"] for each in self.worker["resourceClaims"]}
        used = [each["name"] for each in self.worker["containers"][0]["resources"]["claims"]]
        self.assertEqual([claims[name] for name in used], [domain["channel"]["resourceClaimTemplate"]["name"]])
        labels = self.replicas["Worker"]["template"]["metadata"]["labels"]
        terms = self.worker["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        self.assertEqual([term["labelSelector"]["matchLabels"] for term in terms], [labels])


if __name__ == "__main__":
    main()
