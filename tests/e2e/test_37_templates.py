"""Job templates from `muster submit -t` to ranks: Theta, ThetaGPU, Polaris and Aurora as tests/sites emulates them.

By a real Slurm as well. The emulations keep to what the sites document; they are not the sites
(tests/sites/README.md). The hosts are not such nodes either, so that a template of the user's own takes the pinning out;
the rest is the site's."""

import json
import re
import sys

import pytest
from cluster import testing
from conftest import BIN_DIR, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests/sites"))
from site_hosts import Site  # noqa: E402
from slurm_user import MUSTER, Batch, running_slurm, slurm  # noqa: E402, F401

OWN = """\
help: {site} without its cores and GPUs.
extends: {site}
submit: qsub
node: ~
launch:
  ranks_per_node: 2
  bind_to: none
  depth: ~
  hyperthreads: ~
  gpu_bind: none
  gpu_order: ~
environment: {{SET_HERE: "it's $(here)"}}
pre:
  job: [echo before the job]
  node: ["echo \\"ready $MUSTER_HOSTNAME $PARAM_PROJECT\\""]
post:
  job: ["echo \\"after $status\\""]
"""
SAY = 'echo "rank $MUSTER_RANK $MUSTER_HOSTNAME of $MUSTER_SIZE $SET_HERE"; exit $1'


@pytest.fixture
def at(clusters, _restored):
    """at("polaris") -> Site; after the test alice has no process on any host of it."""
    made = []

    def call(name):
        made.append(Site(name, clusters, more_path=[BIN_DIR]))
        return made[-1]

    yield call
    for site in made:
        alice = site.cluster.uid("alice")

        def left(site=site, alice=alice):
            return [process for processes in site.cluster.all_processes().values() for process in processes
                    if process.uid == alice]

        testing.eventually(lambda: not left(), 10.0)
        assert not left()


@pytest.mark.parametrize("name", ["theta", "thetagpu", "polaris", "aurora"])
def test_from_template_to_ranks(at, name):
    site = at(name)
    site.write("here.yaml", OWN.format(site=name), mode=0o644)
    told = site.run(["muster", "submit", "-t", "here", "--nodes", "2", "--time", "30m", "--project", "physics",
                     "--on-exit", "wait", "--", "sh", "-c", SAY, "sh", "3"], cwd="/home/alice")
    assert told.returncode == 0, told
    job = told.stdout.strip()
    assert re.fullmatch(r"[0-9]+(\.\S+)?", job), told
    code = site.ended(job)
    files = json.loads(site.read(f"/home/alice/.site/jobs/{job.partition('.')[0]}/job.json"))["files"]
    out, err = site.read(files["1"]), site.read(files["2"])
    assert code == 3, out + err
    ranks = sorted(re.findall(r"rank (\d) (\S+) of (\d) (.*)", out))
    short = [(rank, host.partition(".")[0], size, text) for rank, host, size, text in ranks]
    expected = [site.hosts[0]] * 2 + [site.hosts[1]] * 2
    assert short == [(str(i), host, "4", "it's $(here)") for i, host in enumerate(expected)], out + err
    assert "before the job\n" in out and "after 3\n" in out, out + err
    ready = {host.partition(".")[0] for host in re.findall(r"ready (\S+) physics", out)}
    assert ready == set(site.hosts[:2]), out + err


def test_by_a_real_slurm(slurm):
    """slurm-cpu as it is: sbatch, agents by srun, shares of the cores."""
    job = Batch(slurm, argv=[MUSTER, "submit", "-t", "slurm-cpu", "--nodes", "3", "--time", "5m", "-N", "2",
                             "--bind-to", "none", "--on-exit", "wait", "--", "sh", "-c", SAY, "sh", "4"])
    assert job.end() == ("FAILED", 4, 0), job.output
    said = sorted(re.findall(r"rank (\d) (n\d) of (\d)", job.output))
    assert said == [(str(i), f"n{i // 2 + 1}", "6") for i in range(6)], job.output
