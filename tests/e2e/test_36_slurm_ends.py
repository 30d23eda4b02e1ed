"""How jobs under a real Slurm end that were not asked to: a node's daemons die, a node is lost, the time is over."""

import os
import signal

from slurm_user import HVDRUN, LEASE, PATIENCE, STRAYS, Batch, agent_of, hvdrun_by, nothing_left, running_slurm, slurm  # noqa: F401


def test_agent_and_slurmd_of_a_node_die(slurm, hvdrun_by):
    job = Batch(slurm, f"#SBATCH -N 3 --ntasks-per-node=1 --no-kill\n{hvdrun_by} --kill-grace 1 {STRAYS} token\n")
    job.wait_for("ready", 3)
    slurm.stop_daemon("n2", "slurmd")
    os.kill(agent_of(slurm, "n2").pid, signal.SIGKILL)
    job.wait_for(r"^hvdrun: n2: the agent there ended .*: was it killed\?$")
    nothing_left(slurm)
    slurm.start_node("n2")
    assert job.end() == ("FAILED", 125, 0), job.output


def test_a_node_loses_its_power(slurm, hvdrun_by):
    """Slurm is told to keep the job, so that what hvdrun says is seen to its end.  srun may hear of it from Slurm before
    the lease is over, and ends its task there."""
    job = Batch(slurm, f"#SBATCH -N 3 --ntasks-per-node=1 --no-kill\n{hvdrun_by} --kill-grace 1 {STRAYS} token\n")
    job.wait_for("ready", 3)
    slurm.cluster.kill_host("n3")
    job.wait_for(r"^hvdrun: n3: (not heard of for 15 s \(its lease\)|the agent there ended)", timeout=LEASE + PATIENCE)
    job.wait_for("stopped because a host was lost")
    nothing_left(slurm)
    assert "hvdrun: n2:" not in job.output, job.output


def end_in(slurm, job, seconds):
    """Sets the end of a job's time."""
    time = slurm.run("root", ["date", "-d", f"{seconds} seconds", "+%FT%T"], check=True).stdout.strip()
    slurm.run("root", ["scontrol", "update", f"JobId={job.id}", f"EndTime={time}"], check=True)


def test_time_limit(slurm):
    """hvdrun's own warning comes, as it knows when the allocation ends; Slurm's reaches hvdrun, which passes it on; at
    the limit Slurm ends the job, and all is gone."""
    program = 'trap "echo ours $MUSTER_RANK" USR2; trap "echo slurms $MUSTER_RANK" USR1; echo up; while :; do sleep 0.1; done'
    job = Batch(slurm, "#SBATCH -N 2 --ntasks-per-node=1 -t 10 --signal=B:USR1@60\n"
                f"exec {HVDRUN} --kill-grace 1 --signal USR2@585 sh -c '{program}'\n")
    job.wait_for("<stdout>:up", 2)
    end_in(slurm, job, 50)  # Slurm looks every 30 s
    job.wait_for(r"<stdout>:ours \d", 2, timeout=60)
    job.wait_for(r"<stdout>:slurms \d", 2, timeout=90)
    end_in(slurm, job, 3)  # Slurm refuses a time that has passed when it hears of it
    assert job.end(timeout=90)[0] == "TIMEOUT", job.output
    nothing_left(slurm)
