"""hvdrun under a real Slurm: inside salloc and sbatch, with hosts and slots from the allocation; scancel leaves nothing.

Slurm runs on the test hosts only (tests/sites/slurm.py): slurmctld on head, slurmd on n1..n4, all with one home."""

import os
import re
import shlex
import signal

import pytest
from conftest import REPOSITORY
from slurm_user import HVDRUN, MUSTER, STRAYS, Batch, hvdrun_by, nothing_left, running_slurm, slurm, under  # noqa: F401

SAY = ["sh", "-c", "echo rank $MUSTER_RANK $MUSTER_HOSTNAME $MUSTER_LOCAL_RANK of $MUSTER_SIZE"]


def ranks_in(text):
    """[(host, local rank)] by rank of what SAY printed, and the size."""
    said = sorted(re.findall(r"rank (\d+) (\S+) (\d+) of (\d+)", text), key=lambda found: int(found[0]))
    return [(host, int(local)) for _, host, local, _ in said], {int(size) for *_, size in said}


def test_salloc(slurm):
    """No -np and no -H: one rank for each task of the allocation, which is uneven."""
    result = slurm.run("alice", ["salloc", "-Q", "-N", "3", "-n", "6", HVDRUN, *SAY])
    assert result.returncode == 0, result
    tasks = slurm.run("alice", ["salloc", "-Q", "-N", "3", "-n", "6", "sh", "-c", "echo $SLURM_TASKS_PER_NODE"])
    assert tasks.stdout.strip() in ("4,1(x2)", "3,2,1"), tasks  # uneven, whatever the version of Slurm prefers
    counts = [4, 1, 1] if tasks.stdout.startswith("4") else [3, 2, 1]
    wanted = [(f"n{node}", local) for node, count in enumerate(counts, 1) for local in range(count)]
    assert ranks_in(result.stdout) == (wanted, {6}), result


def test_salloc_without_tasks(slurm):
    """The hosts are asked for their GPUs, by srun as well; they have none: one rank on each."""
    all_cpus = str(len(os.sched_getaffinity(0)))  # so that Slurm counts one task a node
    result = slurm.run("alice", ["salloc", "-Q", "-N", "2", "-c", all_cpus, HVDRUN, *SAY])
    assert result.returncode == 0, result
    assert ranks_in(result.stdout) == ([("n1", 0), ("n2", 0)], {2}), result


def test_sbatch_and_an_exit_code(slurm, hvdrun_by):
    program = f"{SAY[2]}; touch said.$MUSTER_RANK; [ $MUSTER_RANK = 5 ] || exec sleep 100; " \
              "while [ $(ls said.* | wc -l) -lt 8 ]; do sleep 0.05; done; exit 7"
    job = Batch(slurm, f"#SBATCH -N 4 --ntasks-per-node=2\nrm -f said.*\n{hvdrun_by} sh -c {shlex.quote(program)}\n")
    assert job.end() == ("FAILED", 7, 0), job.output
    wanted = [(f"n{node}", local) for node in range(1, 5) for local in range(2)]
    assert ranks_in(job.output) == (wanted, {8}), job.output
    assert re.search(r"^hvdrun: rank 5 on n3 \(pid \d+\): exit code 7$", job.output, re.M), job.output
    assert job.output.splitlines()[-1].endswith("failed; exit code 7 is that of rank 5 on n3"), job.output


def test_the_batch_script_of_the_tutorial(slurm):
    script = re.search(r"^```bash\n(.*?)^```", (REPOSITORY / "docs/tutorial.md").read_text(), re.DOTALL | re.MULTILINE)[1]
    head, command = script.split("\n", 1)
    assert head.startswith("#SBATCH ") and command.startswith("hvdrun "), script
    job = Batch(slurm, f"{head}\n{HVDRUN}{command.removeprefix('hvdrun')}")
    assert job.end() == ("COMPLETED", 0, 0), job.output
    assert sorted(re.findall(r"<stdout>:rank (\d) of (\d)", job.output)) == [(str(rank), "8") for rank in range(8)], job.output


@pytest.mark.parametrize("bootstrap,parent", [("auto", "slurmstepd"), ("srun", "slurmstepd"), ("ssh", "sshd")])
def test_who_starts_the_agents(slurm, bootstrap, parent):
    """srun needs no log-in: sshd takes no connection on the nodes meanwhile. All processors are the ranks'."""
    if parent == "slurmstepd":
        for host in slurm.cluster.nodes:
            slurm.cluster.stop_sshd(host)
    try:
        program = "echo up $(nproc); while [ ! -e go ]; do sleep 0.05; done"
        job = Batch(slurm, "#SBATCH -N 4 --ntasks-per-node=1\nrm -f go\n"
                    f"{HVDRUN} --bootstrap {bootstrap} --bind-to none sh -c '{program}'\n")
        job.wait_for(rf"<stdout>:up {len(os.sched_getaffinity(0))}$", 4)
        for host in slurm.cluster.nodes:
            assert under(slurm, host, parent), host
        slurm.run("alice", ["touch", "go"], check=True)
        assert job.end() == ("COMPLETED", 0, 0), job.output
    finally:
        if parent == "slurmstepd":
            for host in slurm.cluster.nodes:
                slurm.cluster.start_sshd(host)


def test_an_own_number_of_ranks(slurm):
    """Slots are what Slurm gave; more ranks are refused with the flag that allows them."""
    result = slurm.run("alice", ["salloc", "-Q", "-N", "2", "-n", "4", HVDRUN, "-np", "2", *SAY])
    assert result.returncode == 0 and len(ranks_in(result.stdout)[0]) == 2, result
    result = slurm.run("alice", ["salloc", "-Q", "-N", "2", "-n", "4", HVDRUN, "-np", "5", *SAY])
    assert result.returncode == 2 and "--oversubscribe" in result.stderr, result


def test_scancel(slurm, hvdrun_by):
    job = Batch(slurm, f"#SBATCH -N 4 --ntasks-per-node=1\n{hvdrun_by} --kill-grace 1 {STRAYS} token\n")
    job.wait_for("ready", 4)
    slurm.run("alice", ["scancel", job.id], check=True)
    assert job.end()[0] == "CANCELLED", job.output
    nothing_left(slurm)


def test_hvdrun_is_killed(slurm, hvdrun_by):
    """As by a node without memory: it has no time to say anything to the hosts."""
    job = Batch(slurm, f"#SBATCH -N 4 --ntasks-per-node=1\n{hvdrun_by} {STRAYS} token\n")
    job.wait_for("ready", 4)
    [launcher] = [process for process in slurm.cluster.processes("n1") if process.comm == "hvdrun"]
    os.kill(launcher.pid, signal.SIGKILL)
    assert job.end() == ("FAILED", 137, 0), job.output
    nothing_left(slurm)


def test_two_jobs_side_by_side(slurm):
    """Each on its part of the allocation, at the same time: one waits for what the other writes."""
    program = "while [ ! -e met.$OTHER ]; do touch met.$MINE; sleep 0.05; done; touch met.$MINE; "
    say = shlex.quote(program + SAY[2].replace("rank ", "$MINE rank "))
    job = Batch(slurm, "#SBATCH -N 4 --ntasks-per-node=2\nrm -f met.*\n"
                f"MINE=a OTHER=b {HVDRUN} --nodes 0-1 sh -c {say} & first=$!\n"
                f"MINE=b OTHER=a {HVDRUN} --nodes 2-3 sh -c {say} & wait $! && wait $first\n")
    assert job.end() == ("COMPLETED", 0, 0), job.output
    for name, nodes in (("a", (1, 2)), ("b", (3, 4))):
        said = "\n".join(re.findall(rf"{name} (rank .*)", job.output))
        assert ranks_in(said) == ([(f"n{node}", local) for node in nodes for local in range(2)], {4}), job.output


def test_an_ensemble_fills_the_allocation(slurm):
    """Its hosts and slots are those of the allocation: four jobs of two ranks, each on a node of its own, all at once."""
    sweep = """jobs:
  - name: j-{i}
    np: 2
    sweep: {i: 0-3}
    command: [sh, -c, "touch here.{i}; while [ $(ls here.* | wc -l) -lt 4 ]; do sleep 0.05; done; echo {i} $MUSTER_HOSTNAME"]
"""
    job = Batch(slurm, f"#SBATCH -N 4 --ntasks-per-node=2\nrm -rf here.* out\ncat > e.yaml <<'END'\n{sweep}END\n"
                f"{MUSTER} ensemble --output out e.yaml && cat out/*/rank.*/stdout\n")
    assert job.end() == ("COMPLETED", 0, 0), job.output
    said = re.findall(r"^(\d) (n\d)$", job.output, re.M)
    assert len(said) == 8 and sorted(host for _, host in set(said)) == ["n1", "n2", "n3", "n4"], job.output


def test_scancel_ends_an_ensemble(slurm):
    job = Batch(slurm, "#SBATCH -N 2 --ntasks-per-node=1\ncat > e.yaml <<'END'\n"
                "jobs: [{name: 'j-{i}', sweep: {i: 0-9}, command: [sh, -c, touch up.$MUSTER_HOSTNAME; exec sleep 1000]}]\nEND\n"
                f"rm -rf out up.*; exec {MUSTER} ensemble --output out e.yaml\n")
    slurm.run("alice", ["sh", "-c", "until [ -e up.n1 ] && [ -e up.n2 ]; do sleep 0.05; done"], check=True)
    for host in ("n1", "n2"):
        assert under(slurm, host, "slurmstepd"), host
    slurm.run("alice", ["scancel", "--full", job.id], check=True)
    job.end()
    # Slurm kills it before it has given the agents up, which went with their steps: the next ensemble there tidies up.
    next_one = Batch(slurm, "#SBATCH -N 1\necho 'jobs: [{name: a, command: [\"true\"]}]' > e.yaml\n"
                     f"rm -rf out; exec {MUSTER} ensemble --output out e.yaml\n")
    assert next_one.end() == ("COMPLETED", 0, 0), next_one.output
    nothing_left(slurm)


def test_submit(slurm):
    """One command: the template's script through sbatch to all ranks, and the exit code back."""
    program = f"{SAY[2]}; [ $MUSTER_RANK = 5 ] && exit 9; true"
    argv = [MUSTER, "submit", "-t", "slurm-cpu", "--nodes", 3, "--ranks-per-node", 2, "--keep-going", "--", "sh", "-c", program]
    job = Batch(slurm, argv=argv)
    assert job.end() == ("FAILED", 9, 0), job.output
    assert ranks_in(job.output) == ([(f"n{node}", local) for node in range(1, 4) for local in range(2)], {6}), job.output
    assert re.search(r"^hvdrun: rank 5 on n3 \(pid \d+\): exit code 9$", job.output, re.M), job.output
