"""Muster at the sites that tests/sites emulates: Theta (Cobalt, ALPS), ThetaGPU (Cobalt), Polaris and Aurora (PBS, PALS).

What a template renders goes through the emulated qsub, as `muster submit` hands it over, to ranks on hosts that are
named as the site's. The emulations keep to what the sites document; they are not the sites (tests/sites/README.md)."""

import json
import re
import shlex
import sys

import pytest
from cluster import testing
from conftest import BIN_DIR, REPOSITORY
from console import PYTHON

sys.path.insert(0, str(REPOSITORY / "tests/sites"))
from site_hosts import PATIENCE, Site  # noqa: E402

HVDRUN = str(BIN_DIR / "hvdrun")
MUSTER = str(BIN_DIR / "muster")
STRAYS = f"{PYTHON} -IS {REPOSITORY}/tests/programs/stray_tree.py"
SAY = "echo rank $MUSTER_RANK $MUSTER_HOSTNAME $MUSTER_LOCAL_RANK of $MUSTER_SIZE"
COBALT = ["#COBALT -n 2 -t 30 -q debug -A physics"]
PBS = ["#PBS -l select=2", "#PBS -l walltime=0:30:00", "#PBS -l filesystems=home", "#PBS -A physics"]
SSH = ["--bootstrap", "ssh"]
LAUNCHERS = {"theta": ("aprun", COBALT), "polaris": ("pals", PBS), "aurora": ("pals", PBS), "pbs": ("pbsdsh", PBS)}


@pytest.fixture
def at(clusters, _restored):
    """at("polaris") -> Site; after the test alice has no process and no session folder on any host of it."""
    made = []

    def call(name, **changes):
        made.append(Site(name, clusters, more_path=[BIN_DIR], **changes))
        return made[-1]

    yield call
    for site in made:
        nothing_left(site)


def nothing_left(site):
    """But for the socket of an hvdrun that was killed, which the next `muster jobs` takes away."""
    alice = site.cluster.uid("alice")

    def left():
        found = [f"{host}: {process.inner_pid} {process.comm} {' '.join(process.argv)}"
                 for host, processes in site.cluster.all_processes().items() for process in processes
                 if process.uid == alice]
        return found + [f"{host}: {path}" for host in site.cluster.hosts
                        for path in site.cluster.path(host, "/tmp").glob(f"muster-{alice}/*") if not path.is_socket()]

    testing.eventually(lambda: not left(), 10.0)
    assert not left(), "left behind:\n" + "\n".join(left())


class Job:
    """A job of the site; what it prints lies in two files of alice's."""

    def __init__(self, site, argv):
        self.site = site
        told = site.run(argv)
        assert told.returncode == 0, told
        self.id = told.stdout.strip()
        self.number = self.id.partition(".")[0]

    def _read(self, number):
        return self.site.read(json_files(self.site, self.number)[number])

    @property
    def out(self):
        return self._read("1")

    @property
    def err(self):
        return self._read("2")

    def wait_for(self, pattern, count=1, timeout=PATIENCE):
        found = lambda: len(re.findall(pattern, self.out + self.err, re.M)) >= count  # noqa: E731
        is_over = lambda: found() or self.site.state(self.number)["state"] == "finished"  # noqa: E731
        testing.eventually(is_over, timeout)
        assert found(), f"{pattern!r} not {count} times:\n{self.out}\n{self.err}\n{self.log()}"

    def log(self):
        return f"{self.site.state(self.number)}\n" + self.site.read(f"/home/alice/.site/jobs/{self.number}/server.log")

    def end(self, timeout=PATIENCE):
        return self.site.ended(self.number, timeout)


def json_files(site, number):
    return json.loads(site.read(f"/home/alice/.site/jobs/{number}/job.json"))["files"]


def ranks_in(text):
    """[(host, local rank)] by rank of what SAY printed, and the sizes."""
    said = sorted(re.findall(r"rank (\d+) (\S+) (\d+) of (\d+)", text), key=lambda found: int(found[0]))
    return [(host.partition(".")[0], int(local)) for _, host, local, _ in said], {int(size) for *_, size in said}


def expected(site, per_node, nodes=2):
    return [(host, local) for host in site.hosts[:nodes] for local in range(per_node)]


def launch(site, *args, program=SAY, name="job.sh"):
    """A job whose script calls hvdrun over the site's own launcher."""
    launcher, directives = LAUNCHERS[site.name]
    command = [HVDRUN, "--bootstrap", launcher, *map(str, args), "sh", "-c", program]
    return Job(site, ["qsub", site.script(name, directives, shlex.join(command))])


def started_by(site, host, program):
    """Whether an ancestor of alice's agent on this host has `program` among its arguments."""
    processes = {process.pid: process for process in site.cluster.processes(host)}
    process = next(process for process in processes.values() if process.comm == "muster-warden")
    while process:
        if any(program in word for word in process.argv):
            return True
        process = processes.get(process.ppid)
    return False


@pytest.mark.parametrize("name", LAUNCHERS)
def test_the_sites_own_launcher_starts_the_agents(at, name):
    site = at(name)
    job = launch(site, "-N", 2, program=f"{SAY}; while [ ! -e go ]; do sleep 0.05; done")
    job.wait_for("rank .* of 4", 4)
    for host in site.hosts[:2]:
        assert started_by(site, host, "tests/sites/node.py"), site.cluster.processes(host)
    site.run(["touch", "go"], check=True)
    assert job.end() == 0, job.out + job.err
    site.run(["rm", "go"], check=True)
    assert ranks_in(job.out) == (expected(site, 2), {4}), job.out + job.err


@pytest.mark.parametrize("name,directives", [("thetagpu", COBALT), ("polaris", PBS)])
def test_node_files_and_ssh(at, name, directives):
    """The allocation comes from COBALT_NODEFILE and PBS_NODEFILE; the script runs on the first of its nodes."""
    site = at(name)
    job = Job(site, ["qsub", site.script("job.sh", directives, shlex.join([HVDRUN, *SSH, "-N", "2", "sh", "-c", SAY]))])
    assert job.end() == 0, job.out + job.err
    assert ranks_in(job.out) == (expected(site, 2), {4}), job.out + job.err


def test_slots_are_pbs_lines(at):
    """mpiprocs repeats a node in the node file: so many slots it has."""
    site = at("pbs")
    script = site.script("job.sh", [line.replace("select=2", "select=2:mpiprocs=3") for line in PBS],
                         shlex.join([HVDRUN, *SSH, "sh", "-c", SAY]))
    job = Job(site, ["qsub", script])
    assert job.end() == 0, job.out + job.err
    assert ranks_in(job.out) == (expected(site, 3), {6}), job.out + job.err


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_rank_that_fails_is_named(at, name):
    site = at(name)
    job = launch(site, "-N", 2, program="[ $MUSTER_RANK = 3 ] && exit 7; exec sleep 100")
    assert job.end() == 7, job.out + job.err
    host = re.escape(site.hosts[1])
    assert re.search(rf"^hvdrun: rank 3 on {host}\S* \(pid \d+\): exit code 7$", job.err, re.M), job.err


@pytest.mark.parametrize("name", LAUNCHERS)
def test_qdel_leaves_nothing(at, name):
    """The script's shell ends at once with SIGTERM, and the scheduler then kills hvdrun, which can say nothing more."""
    site = at(name)
    job = launch(site, "-N", 1, "--kill-grace", "1", program=f"exec {STRAYS} token")
    job.wait_for("ready", 2)
    site.run(["qdel", job.id], check=True)
    assert job.end() != 0
    nothing_left(site)


@pytest.mark.parametrize("name", ["theta", "polaris"])
def test_the_ranks_may_use_all_processors(at, name):
    """aprun and mpiexec bind to one or few by default; that is not passed on to the agent and its ranks."""
    site = at(name)
    job = launch(site, "-N", 1, "--bind-to", "none", program="echo may use $(nproc)")
    assert job.end() == 0, job.out + job.err
    here = site.run(["nproc"], host=site.hosts[0], check=True).stdout.strip()
    assert job.out.count(f"may use {here}\n") == 2, job.out


def test_the_walltime_is_warned_of(at):
    """PBS tells the walltime by qstat, Cobalt by a variable."""
    program = "trap 'echo warned $MUSTER_RANK; exit 0' USR1; echo up; while :; do sleep 0.1; done"
    jobs = [launch(at(name), "-N", 1, "--signal", "USR1@1785", program=program) for name in ("polaris", "theta")]  # of 1800 s
    for job in jobs:
        job.wait_for("<stdout>:up", 2)
    for job in jobs:
        assert job.end(timeout=60) == 0, job.out + job.err
        assert job.out.count("warned") == 2, job.out


def test_at_the_walltime_all_is_gone(at):
    site = at("polaris")
    command = shlex.join([HVDRUN, "--bootstrap", "pals", "-N", "1", "--kill-grace", "1", *STRAYS.split(), "token"])
    script = site.script("job.sh", [], command)
    job = Job(site, ["qsub", "-A", "physics", "-l", "select=2", "-l", "walltime=0:00:20", "-l", "filesystems=home", script])
    job.wait_for("ready", 2)
    assert job.end() != 0
    assert site.state(job.number)["why"] == "walltime"
    nothing_left(site)


WITHOUT_A_QUEUE = {"flux": {"FLUX_URI": "local:///emulated"},
                   "lsf": {"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "batch1 1 n1 2 n2 2"}}


@pytest.mark.parametrize("name,launcher", [("flux", "flux"), ("lsf", "jsrun")])
def test_flux_and_jsrun(at, name, launcher):
    """Inside an allocation; of these sites there is no queue here."""
    site = at(name)
    command = [HVDRUN, "--bootstrap", launcher, "-N", "2", "sh", "-c", SAY + "; [ $MUSTER_RANK = 3 ] && exit 5; true"]
    result = site.run(command, host="n1", env=WITHOUT_A_QUEUE[name])
    assert result.returncode == 5, result
    assert re.search(r"^hvdrun: rank 3 on n2 \(pid \d+\): exit code 5$", result.stderr, re.M), result


# (ranks on a node, a variable of the ranks and its value), as the template has it.
TEMPLATES = {"theta": (4, "KMP_BLOCKTIME", "0"), "thetagpu": (8, "https_proxy", "http://proxy.tmi.alcf.anl.gov:3128"),
             "polaris": (4, "MPICH_GPU_SUPPORT_ENABLED", "1"), "aurora": (12, "ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE")}


def submit(site, *options, program):
    """`muster submit` with the site's template, on two nodes. What pins ranks to a real node's processors is turned off:
    a test host has too few."""
    return Job(site, [MUSTER, "submit", "-t", site.name, "--nodes", "2", "--project", "physics", "--bind-to", "none", *options,
                      "--", "sh", "-c", program])


@pytest.mark.parametrize("name", TEMPLATES)
def test_submit(at, name):
    """One command: the template's script through the site's qsub to all ranks, and the exit code back."""
    site = at(name)
    per_node, variable, value = TEMPLATES[name]
    program = f"{SAY}, {variable}=${variable}; touch said.$MUSTER_RANK; [ $MUSTER_RANK = 1 ] || exit 0; " \
              f"while [ $(ls said.* | wc -l) -lt {2 * per_node} ]; do sleep 0.05; done; exit 9"
    job = submit(site, program=program)
    code = job.end(timeout=60)
    site.run(["sh", "-c", "rm -f said.*"], check=True)
    assert code == 9, job.out + job.err + job.log()
    assert ranks_in(job.out) == (expected(site, per_node), {2 * per_node}), job.out + job.err
    assert job.out.count(f", {variable}={value}\n") == 2 * per_node, job.out
    assert re.search(rf"^hvdrun: rank 1 on {site.hosts[0]}\S* \(pid \d+\): exit code 9$", job.err, re.M), job.err


@pytest.mark.parametrize("name", TEMPLATES)
def test_submit_and_qdel(at, name):
    site = at(name)
    job = submit(site, "--ranks-per-node", "1", "--kill-grace", "1", program=f"exec {STRAYS} token")
    job.wait_for("ready", 2)
    site.run(["qdel", job.id], check=True)
    assert job.end() != 0
    nothing_left(site)


def test_submit_says_what_the_site_refuses(at):
    """ALCF's PBS wants an account; what it says is what the user sees."""
    site = at("polaris")
    site.write("own.yaml", "extends: polaris\nparameters: {project: ~}\ndirectives: ['-l select={nodes}:system=polaris']\n", 0o644)
    result = site.run([MUSTER, "submit", "-t", "./own.yaml", "--nodes", "2", "--", "true"])
    assert result.returncode != 0 and "Account_Name is required to be set" in result.stderr, result
