"""p5bench as it is installed and as it is packaged. Installed: what `cmake --install` puts into a folder. Packages
(weekly): what `cmake --workflow --preset package` makes, on systems that have nothing."""

import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from planted import SLOWED  # noqa: E402
from program import BUILD, FEW_SAMPLES, SANITIZED, SOURCE, Folder, environment, main, mpirun  # noqa: E402

PACKAGE = SOURCE / "scripts" / "package"
FAKES = BUILD / "tests" / "fakes"
HAVE_NCCL = (BUILD / "p5bench-worker-nccl").exists()
HAVE_OFI = (BUILD / "p5bench-worker-ofi").exists()
SIMULATED = ["--backend", "sim", "--platform", "p5.48xlarge", "--collectives", "all_reduce", "--sizes", "256MiB"]
ON_RANKS = ["--backend", "mpi", "--collectives", "all_reduce", "--sizes", "64KiB"]
PARTS = {"p5bench-probe-nvml", "p5bench-probe-libfabric", "libnccl-tuner-p5bench.so"}
# Files installed beside programs and libraries: some made, the rest the folders of the source.
DATA = {"share/man/man1/p5bench.1", "share/bash-completion/completions/p5bench", "share/doc/p5bench/README.md",
        "share/doc/p5bench/CHANGELOG.md"}
DATA |= {f"share/p5bench/{folder.name}/{file.name}" for folder, kinds in (
    (SOURCE / "reports/schema", "*.json"), (SOURCE / "reports/grafana", "*.json"),
    (SOURCE / "scripts/slurm", "*"), (SOURCE / "scripts/k8s", "*")) for file in folder.glob(kinds)}


def elf_files(folder):
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            yield path


def said_by(*command, code=0, **how):
    done = subprocess.run([str(word) for word in command], text=True, errors="replace", stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=how.pop("timeout", 300), **how)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{command} ended with {done.returncode}, not {code}:\n{done.stdout[-6000:]}")
    return done.stdout


class Installed(Folder):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-installed-")
        cls.addClassCleanup(folder.cleanup)
        # A name with a blank, which is not where the build thought that it would be.
        cls.prefix = pathlib.Path(folder.name).resolve() / "the prefix"
        said_by("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.program = cls.prefix / "bin" / "p5bench"

    def test_files_are_where_they_belong(self):
        found = {str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*") if not path.is_dir()}
        wanted = {"bin/p5bench"} | DATA | {f"lib/p5bench/{name}" for name in PARTS}
        for have, worker in ((HAVE_NCCL, "nccl"), (HAVE_OFI, "ofi")):
            if have:
                wanted.add(f"lib/p5bench/p5bench-worker-{worker}")
        libraries = {name for name in found - wanted if re.fullmatch(r"lib/p5bench/lib(cudart|benchmark)\.so\.[\w.]+", name)}
        self.assertEqual(found - libraries, wanted)
        for name in ("prolog", "p5bench.sbatch"):
            self.assertTrue(os.access(self.prefix / "share/p5bench/slurm" / name, os.X_OK), name)

    def test_a_package_is_called_after_the_cuda_that_it_brings(self):
        settings = (BUILD / "CPackConfig.cmake").read_text()
        cuda = [path.name.removeprefix("libcudart.so.") for path in (self.prefix / "lib/p5bench").glob("libcudart.so.*")]
        self.assertEqual(len(cuda), HAVE_NCCL)
        for variable, wanted in (("CPACK_PACKAGE_FILE_NAME", rf"p5bench-[\d.]+{'-cuda' + cuda[0] if cuda else ''}-linux-\w+"),
                                 ("CPACK_DEBIAN_FILE_NAME", rf"p5bench_[\d.]+{'_cuda' + cuda[0] if cuda else ''}_[a-z0-9]+\.deb")):
            with self.subTest(variable=variable):
                self.assertRegex(settings, rf'set\({variable} "{wanted}"\)')

    def test_it_runs_by_its_path_through_a_link_and_through_PATH(self):
        (self.folder / "link").symlink_to(self.program)
        for program in (self.program, self.folder / "link", "p5bench"):
            with self.subTest(program=program):
                ended = self.run_it(*SIMULATED, program=(program,),
                                    variables={"PATH": f"{self.program.parent}:{os.environ['PATH']}"})
                self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                self.assertIn("all_reduce", ended.stdout)

    def test_it_measures_under_mpirun(self):
        ended = self.run_it(*ON_RANKS, ranks=2, program=(self.program,), variables=FEW_SAMPLES)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(self.report()["run"]["ranks"], 2)

    def test_it_finds_its_probes(self):
        nvml = FAKES / "nvml"
        if not nvml.exists():
            self.skipTest("needs CUDA's and NCCL's headers to be built")
        link = self.folder / "link"
        link.symlink_to(self.program)
        ended = self.run_it("topo", "--format", "json", program=(link,),
                            variables={"LD_LIBRARY_PATH": str(nvml), "P5BENCH_FAKE_GPUS": "8"})
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        host = json.loads(ended.stdout)["topology"]["hosts"][0]
        self.assertEqual(len(host["gpu_devices"]), 8, host["gpu_problem"])
        self.assertNotIn("started", host["libfabric"]["problem"])

    def test_its_workers_run_on_gpus(self):
        if not HAVE_NCCL or not FAKES.exists():
            self.skipTest("needs CUDA's and NCCL's headers to be built")
        ended = self.run_it("--backend", "nccl", "--collectives", "all_reduce", "--sizes", "64KiB", "--tuning", "off", ranks=2,
                            program=(self.program,), variables={"LD_LIBRARY_PATH": str(FAKES), **FEW_SAMPLES})
        self.assertEqual(ended.returncode, 14, ended.stdout + ended.stderr)  # nobody knows what a fake GPU reaches
        self.assertEqual([m["outcome"] for m in self.report()["measurements"]], ["measured"])

    def test_settings_name_the_installed_plugin(self):
        if not HAVE_NCCL or not FAKES.exists():
            self.skipTest("needs CUDA's and NCCL's headers to be built")
        ended = self.run_it("tune", "--tuning=quick", "--backend", "nccl", "--collectives", "all_reduce", "--sizes", "64KiB,1MiB",
                            ranks=2, program=(self.program,),
                            variables={"LD_LIBRARY_PATH": str(FAKES), **SLOWED, "P5BENCH_QUICK_LIMIT": "60s"})
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(self.report()["tuning"]["outcome"], "settings", ended.stdout)
        loaded = said_by("bash", "-euc", '. "$1"; echo "$NCCL_TUNER_PLUGIN"', "bash", self.files("nccl.env.sh")[0])
        self.assertEqual(loaded.strip(), f"{self.prefix}/lib/p5bench/libnccl-tuner-p5bench.so")

    def test_its_workers_send_over_libfabric(self):
        if not HAVE_OFI:
            self.skipTest("needs libfabric's headers to be built")
        ended = self.run_it("--backend", "ofi", "--collectives", "send_recv", "--sizes", "64KiB", ranks=2,
                            program=(self.program,), variables={"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo", **FEW_SAMPLES})
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_the_page_and_the_completion_are_those_of_the_program(self):
        for what, file in (("man", "share/man/man1/p5bench.1"), ("bash", "share/bash-completion/completions/p5bench")):
            self.assertEqual((self.prefix / file).read_text(), said_by(self.program, "describe", what))

    def test_what_would_be_no_use_is_not_packed(self):
        def pack(*settings):
            return said_by("cmake", *(f"-DCPACK_{each}" for each in settings),
                           f"-DCPACK_TEMPORARY_INSTALL_DIRECTORY={self.folder}", "-P", PACKAGE / "check_contents.cmake", code=None)
        parts = self.folder / "lib" / "p5bench"
        parts.mkdir(parents=True)
        self.assertRegex(pack("P5BENCH_PORTABLE=ON"), r"p5bench-worker-nccl is not there[^~]*P5BENCH_PACKAGE_WITHOUT_NCCL=ON")
        self.assertEqual(pack("P5BENCH_PORTABLE=ON", "P5BENCH_WITHOUT_NCCL=ON"), "")
        shutil.copy("/bin/true", parts / "p5bench-worker-nccl")
        self.assertRegex(pack(), r"for this system only[^~]*--preset")
        self.assertEqual(pack("P5BENCH_PORTABLE=ON"), "")
        shutil.copy(self.program, parts)  # with a libstdc++ of its own choice
        if not SANITIZED:
            self.assertRegex(pack("P5BENCH_PORTABLE=ON"), r"p5bench would not run[^~]*GLIBCXX_")


class Architectures(unittest.TestCase):
    """Each that the names of packages know (amd64, arm64), though this machine has one of them."""

    def names(self):
        return re.findall(r"string\(REPLACE (\w+) (?:amd64|arm64) debian_processor", (PACKAGE / "install.cmake").read_text())

    def test_hypot_is_that_of_the_first_glibc_of_each(self):
        # glibc's libm.abilist of each architecture. Without the headers, which this machine has for one of them.
        first = {"x86_64": "2.2.5", "aarch64": "2.17"}
        self.assertEqual(set(self.names()), set(first))
        text = re.sub(r"(?m)^#include .*$", "", (PACKAGE / "portable.cpp").read_text())
        for name, version in first.items():
            undefined = [f"-U__{other}__" for other in first if other != name]
            said = subprocess.run([os.environ.get("CXX", "c++"), "-E", *undefined, f"-D__{name}__=1", "-x", "c++", "-"], input=text,
                                  capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertEqual(re.findall(r"\.symver \w+, hypot@GLIBC_([\d.]+)", said), [version], name)

    def test_the_image_takes_the_archive_of_its_own(self):
        docker = (SOURCE / "scripts/k8s/Dockerfile").read_text()
        copied, unpacked = re.search(r"COPY (\S+)", docker)[1], re.search(r"--file /tmp/p5bench/(.*) --directory", docker)[1]
        for name in self.names():
            for cuda in ("-cuda12", "-cuda13", ""):
                archive = f"p5bench-0.2.0{cuda}-linux-{name}.tar.gz"
                self.assertTrue(fnmatch.fnmatch(archive, copied), archive)
                for machine in self.names():
                    taken = unpacked.replace('"$(uname -m)"', machine)
                    self.assertEqual(fnmatch.fnmatch(archive, taken), machine == name, (archive, machine))


class Completion(Folder):
    """In real bash, which gets the words as it splits a line, and says what it would offer for the last one."""

    def offered(self, *lines):
        """For each line, whose last word is being typed, the sorted answers."""
        (self.folder / "completion").write_text(said_by(BUILD / "p5bench", "describe", "bash"))
        script = ['. "$1"', 'offer() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _p5bench; echo "${COMPREPLY[*]}"; }']
        script += ["offer p5bench " + " ".join(shlex.quote(word) for word in line) for line in lines]
        answers = subprocess.run(["bash", "--norc", "-c", "\n".join(script), "bash", self.folder / "completion"], text=True,
                                 stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
        self.assertEqual(answers.stderr, "")
        return [sorted(line.split()) for line in answers.stdout.split("\n")[:-1]]

    def commands(self):
        return self.offered([""])[0]

    def test_every_command_is_offered_what_its_help_lists(self):
        commands = self.commands()
        listed = re.findall(r"^  (\w+) ", said_by(BUILD / "p5bench", "--help").partition("Commands:")[2].partition("\n\n")[0],
                            re.MULTILINE)
        self.assertEqual(commands, sorted(listed))
        self.assertGreater(len(commands), 10)
        offers = dict(zip(["", *commands], self.offered(["--"], *([command, "--"] for command in commands))))
        for command, offered in offers.items():
            help_text = said_by(BUILD / "p5bench", command or "run", "--help")
            options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", help_text, re.MULTILINE))
            self.assertEqual(options | {"--version"}, set(offered) | {"--version"}, command)
            self.assertIn("--help", options)

    def test_values_of_every_kind(self):
        lists = {what: sorted(line.split()[0] for line in said_by(BUILD / "p5bench", "list", what).splitlines())
                 for what in ("backends", "collectives", "platforms", "formats")}
        answers = self.offered(["run", "--backend", ""], ["--backend", "=", ""], ["--backend", "="], ["--backend=s"], ["--collectives", ""],
                               ["--collectives", "p2p,all_g"], ["--platform", "p5.48"], ["topo", "--platform", ""], ["report", "f", "--format", ""],
                               ["--quiet", "ch"], ["--out", "check", "--tuning", "q"], ["list", "k"], ["import", ""], ["report", ""],
                               ["--out", ""], ["check", "--lim"], ["import", "nccl-tests", ""])
        self.assertEqual(answers, [
            sorted(["auto", *lists["backends"]]), sorted(["auto", *lists["backends"]]), sorted(["auto", *lists["backends"]]), ["--backend=sim"],
            sorted([*lists["collectives"], "communicator"]), ["p2p,all_gather"], ["p5.48xlarge"], lists["platforms"], lists["formats"],
            ["check"], ["quick"], ["knobs"], ["job", "nccl-tests"], [], [], ["--limit"], []])

    def test_where_nothing_is_offered_bash_names_files(self):
        (self.folder / "completion").write_text(said_by(BUILD / "p5bench", "describe", "bash"))
        registered = said_by("bash", "--norc", "-c", '. "$1"; complete -p p5bench', "bash", self.folder / "completion")
        self.assertEqual(registered.strip(), "complete -o default -F _p5bench p5bench")


GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
         "libgcc_s.so.1"}
USERS = {"p5bench": {"libmpi.so.40"}, "p5bench-worker-ofi": {"libfabric.so.1"}, "p5bench-worker-nccl": {"libnccl.so.2"}}


class Packages(unittest.TestCase):
    """P5BENCH_BENCHMARK_SOURCE: Google Benchmark's sources, for the checks of single GPUs. P5BENCH_ROOTS and the rest: see
    tests/house/empty_root --help."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-packages-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        made = SOURCE / "build" / "package" / "packages"
        for file in [*made.glob("p5bench_*.deb"), *made.glob("p5bench-*.tar.gz")]:
            file.unlink()
        built = subprocess.run(["cmake", "--workflow", "--preset", "package"], cwd=SOURCE, stdin=subprocess.DEVNULL, text=True,
                               errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=5400)
        if not HAVE_NCCL:
            if built.returncode == 0 or "p5bench-worker-nccl is not there" not in built.stdout:
                raise AssertionError(f"a package without p5bench-worker-nccl is not refused: {built.stdout[-4000:]}")
            said_by("cmake", "--preset", "package", "-DP5BENCH_PACKAGE_WITHOUT_NCCL=ON", cwd=SOURCE)
            said_by("cpack", "--preset", "package", cwd=SOURCE)
        elif built.returncode != 0:
            raise AssertionError(f"no packages: {built.stdout[-6000:]}")
        (cls.deb,), (cls.archive,) = made.glob("p5bench_*.deb"), made.glob("p5bench-*.tar.gz")
        with tarfile.open(cls.archive) as archive:
            archive.extractall(cls.folder)
        cls.unpacked = cls.folder / cls.archive.name.removesuffix(".tar.gz")

    def root(self, release):
        """A bare system. Its commands are run by inside()."""
        roots = pathlib.Path(os.environ.get("P5BENCH_ROOTS") or self.folder / "roots")
        script = '. "$1/tests/house/roots.sh"; make_root "$2" "$3" 1>&2; echo "$root"'
        made = subprocess.run(["bash", "-euc", script, "bash", SOURCE, release, roots], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1800)
        said = made.stdout.strip().splitlines()
        if made.returncode == 77:
            self.skipTest(said[-1].removeprefix("left out: "))
        self.assertEqual(made.returncode, 0, made.stdout[-4000:])
        self.system = pathlib.Path(said[-1])
        self.addCleanup(shutil.rmtree, self.system, ignore_errors=True)

    def inside(self, command, code=0):
        script = '. "$1/tests/house/roots.sh"; shift; enter "$@"'
        variables = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 DEBIAN_FRONTEND=noninteractive; cd /tmp; "
        return said_by("bash", "-euc", script, "bash", SOURCE, self.system, "bash", "-c", variables + command, code=code, timeout=1200)

    def install(self, *packages):
        self.inside("apt-get update && apt-get install -y --no-install-recommends " + " ".join(packages))

    def check_it_measures(self, program):
        self.assertIn("all_reduce", self.inside(f"{program} {' '.join(SIMULATED)}"))
        launched = self.inside(f"mpirun -np 2 --oversubscribe --bind-to none {program} {' '.join(ON_RANKS)}")
        self.assertIn("2 ranks on 1 node", launched)

    def check_archive_on(self, release):
        self.root(release)
        shutil.copytree(self.unpacked, self.system / "opt" / "p5bench", symlinks=True)
        program = "/opt/p5bench/bin/p5bench"
        self.assertIn("libmpi.so.40", self.inside(f"{program} --version", code=127))
        self.install("openmpi-bin")
        self.check_it_measures(program)
        self.inside(f"ln -s {program} /usr/bin/")
        self.check_it_measures("p5bench")
        self.assertIn('"gpus"', self.inside("/opt/p5bench/lib/p5bench/p5bench-probe-nvml 5"))
        if HAVE_NCCL:  # NCCL is the user's
            self.assertIn("libnccl.so.2", self.inside("/opt/p5bench/lib/p5bench/p5bench-worker-nccl", code=127))

    def test_every_file_runs_where_glibc_is_2_34_and_nothing_else_is_asked_for(self):
        names = set()
        for file in elf_files(self.unpacked):
            names.add(file.name)
            with self.subTest(file=file.name):
                symbols = said_by("objdump", "-T", file)
                newest = max(tuple(map(int, each)) for each in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols))
                self.assertLessEqual(newest, (2, 34))
                self.assertNotIn("GLIBCXX_", symbols)
                dynamic = said_by("readelf", "-d", file)
                needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
                beside = {path.name for path in self.unpacked.glob("lib/p5bench/*.so*")}
                self.assertLessEqual(needed, GLIBC | USERS.get(file.name, set()) | beside)
                for folder in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic):
                    self.assertRegex(folder, r"^(\$ORIGIN[^:]*:?)+$")
        self.assertLessEqual({"p5bench", *PARTS}, names)
        if HAVE_NCCL:
            self.assertLessEqual({"p5bench-worker-nccl"}, names)

    def test_the_debian_package_says_what_it_needs(self):
        fields = dict(re.findall(r"^(\w[\w-]*): (.*)$", said_by("dpkg-deb", "--field", self.deb), re.MULTILINE))
        self.assertRegex(fields["Depends"], r"libopenmpi3")
        self.assertRegex(fields["Depends"], r"libc6 \(>= 2\.(3[0-4]|[0-2])")
        for not_there in ("nccl", "cuda", "libstdc++", "libfmt", "libbenchmark"):
            self.assertNotIn(not_there, fields["Depends"])
        self.assertIn("openmpi-bin", fields["Recommends"])
        version = re.search(r"\d[\d.]+", said_by(BUILD / "p5bench", "--version")).group()
        self.assertEqual(fields["Version"], version)

    def test_the_debian_package_on_bare_debian(self):
        self.root("bookworm")
        shutil.copy(self.deb, self.system / "tmp" / "p5bench.deb")
        self.install("/tmp/p5bench.deb")
        self.assertIn("all_reduce", self.inside(f"p5bench {' '.join(SIMULATED)}"))
        self.install("openmpi-bin")
        self.check_it_measures("p5bench")
        files = set(self.inside("dpkg -L p5bench").split())
        self.assertLessEqual({f"/usr/{name}" for name in DATA if "/doc/" not in name}, files)
        self.inside("apt-get purge -y p5bench && ! ls /usr/lib/p5bench /usr/share/p5bench /usr/bin/p5bench 2>/dev/null")

    def test_the_archive_on_bare_debian_12(self):
        self.check_archive_on("bookworm")

    def test_the_archive_on_bare_ubuntu_22_04(self):
        self.check_archive_on("jammy")


if __name__ == "__main__":
    main()
