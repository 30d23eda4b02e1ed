"""Jobs of hosts whose clocks differ by a minute.

The test hosts share the kernel of one machine, so this is an emulation: skewed_clock.cc answers the programs of one host
that ask for the time of day. The static muster-agent does not notice, so the clocks of launcher and agents differ only
where the skewed host is "head", the launcher's."""

import re

import pytest
from conftest import BIN_DIR
from console import PYTHON
from test_54_elastic_horovod import COOLDOWN, REAL, returned

LIBRARY = BIN_DIR.parent / "tests/programs/libskewed_clock.so"
TRAINING = 240.0  # importing torch takes long on a busy machine
OPTIONS = ["--redirects=2", "--tee=1", "--log_dir=/tmp", "--nproc_per_node=2"]
OLD = [PYTHON, "-m", "torch.distributed.run", *OPTIONS]
YOUNG = BIN_DIR.parent / "peers/torch-2.11.0/bin/torchrun"


def skewed(host, seconds):
    """The environment of an hvdrun whose host `host`, which may be its own, has a wrong clock. Ranks inherit it."""
    assert LIBRARY.exists(), f"{LIBRARY} is not built"
    return {"LD_PRELOAD": str(LIBRARY), "SKEWED_CLOCK": f"{host}:{seconds:+}"}


# ---- Muster's agent as torch's elastic agent, and Horovod's elastic jobs: nothing changes

# Rank 0 dies in the first generation and rank 3, on the other host, in the second. The last one outlives hvdrun's lease
# of 15 s.
LOSES_TWO = r"""
import os, signal, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
total = torch.ones(1) * (rank + 1)
dist.all_reduce(total)
print(f"sum {int(total)} rank {rank} attempt {attempt} on {os.environ['MUSTER_HOSTNAME']} at {time.time():.0f}", flush=True)
if (rank, attempt) in ((0, "0"), (3, "1")):
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(18 if attempt == "2" else 1000)
dist.all_reduce(total)
os._exit(0)
"""


def torchrun(hvdrun, skew, *words):
    return hvdrun([], argv=["muster", "torchrun", "-H", "n1,n2", "--nproc-per-node=2", *words],
                  env=skew | {"PYTHON_EXEC": PYTHON}, timeout=TRAINING)


@pytest.mark.parametrize("host,seconds", [("head", -60), ("head", 60), ("n2", -60), ("n2", 60)])
def test_the_emulation(hvdrun, host, seconds):
    """The other tests here show something only if the clock is really wrong."""
    show = [PYTHON, "-c", "import time; print('at %.0f' % time.time())"]
    argv = {"argv": show} if host == "head" else {}

    def now(env):
        result = hvdrun([] if argv else ["-H", f"{host}:1", *show], env=env, **argv)
        return int(re.search(r"at (\d+)", result.stdout)[1])

    assert abs(now(skewed(host, seconds)) - now({}) - seconds) < 20


@pytest.mark.parametrize("host,seconds", [("n2", 60), ("head", -60)])
def test_torchruns_elastic_jobs_do_not_notice(hvdrun, script, no_leftovers, host, seconds):
    result = torchrun(hvdrun, skewed(host, seconds), "--nnodes=1:2", "--max-restarts=2", script(LOSES_TWO))
    assert result.rc == 0, result
    sums = re.findall(r"sum 10 rank (\d) attempt (\d) on (\S+) at (\d+)$", result.stdout, re.M)
    assert sorted((attempt, rank, where) for rank, attempt, where, _ in sums) == [
        (str(attempt), str(rank), "n1" if rank < 2 else "n2") for attempt in range(3) for rank in range(4)], result
    times = {where: int(at) for _, attempt, where, at in sums if attempt == "2"}
    assert abs(times["n2"] - times["n1"] - (seconds if host == "n2" else 0)) < 20, result  # the emulation works
    assert re.findall(r"^hvdrun: rank (\d) on (n\d) .*: signal 9", result.stderr, re.M) == [("0", "n1"), ("3", "n2")], result
    assert re.findall(r"^hvdrun: (restart . of .)", result.stderr, re.M) == ["restart 1 of 2", "restart 2 of 2"], result
    assert not re.search(r"lost|lease|silent|does not answer", result.stderr), result


# The rank on the host FAILS raises; the others raise because of that, a moment later.
RAISES = r"""
import os, time
import torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    if os.environ["MUSTER_HOSTNAME"] == "FAILS" and os.environ["LOCAL_RANK"] == "0":
        raise KeyError("no such sample")
    dist.all_reduce(total)

main()
"""


@pytest.mark.parametrize("fails,rank,seconds", [("n1", 0, -60), ("n2", 2, 60)])
def test_the_first_failure_is_the_cause_whatever_the_clocks_say(hvdrun, script, no_leftovers, fails, rank, seconds):
    """By the clocks of the hosts, all ranks of the other host failed a minute before."""
    result = torchrun(hvdrun, skewed("n2", seconds), "--nnodes=1:2", script(RAISES.replace("FAILS", fails)))
    assert result.rc == 1, result
    assert re.findall(r"^hvdrun: rank (\d) on (n\d) .*: exit code 1$", result.stderr, re.M) == [(str(rank), fails)], result
    assert f"hvdrun: {fails}: rank {rank} raised KeyError: 'no such sample'\n" in result.stderr, result


@pytest.mark.parametrize("host,seconds,hosts", [("n2", 60, "n1:2,n2:2"), ("n2", -60, "n2:2,n1:2"), ("head", 60, "n2:2,n1:2"),
                                                ("head", -60, "n1:2,n2:2")])
def test_horovods_elastic_jobs_do_not_notice(hvdrun, no_leftovers, host, seconds, hosts):
    """A rank of the last host is lost, and the host comes back: the survivors learn that from a message with the launcher's time."""
    result = hvdrun(["-H", hosts, "--min-np", "4", *COOLDOWN, PYTHON, "-c", REAL, "3:10"],
                    env=skewed(host, seconds), timeout=TRAINING)
    assert not re.search(r"lease|silent|does not answer", result.stderr), result
    returned(result)


# ---- torchrun itself: its back end c10d compares the clocks of the nodes

MEETS = r"""
import os
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print("sum", int(total), "of", dist.get_world_size(), "on", os.environ["MUSTER_HOSTNAME"], flush=True)
os._exit(0)
"""


def torchruns(hvdrun, words, seconds, *options):
    """Two torchruns; the clock of the second one's host is wrong."""
    result = hvdrun(["-np", "2", "-H", "n1:1,n2:1", *options, *words], env=skewed("n2", seconds), timeout=TRAINING)
    return result, result.stdout.count("sum 10 of 4 on")


@pytest.mark.parametrize("seconds", [60, -60])
@pytest.mark.parametrize("version", ["1.13", "2.11"])
def test_torchruns_rendezvous_c10d_does_not_work(hvdrun, script, own_names, no_leftovers, version, seconds):
    """The node whose clock is ahead takes the other one for dead, and begins without it. The other one fails or waits.
    docs/guide/torchrun.md says so. A torch for which this fails has become better."""
    if version == "2.11" and not YOUNG.exists():
        pytest.skip("torch 2.11.0 is not installed: tools/peers torch")
    words = OLD if version == "1.13" else [YOUNG, "--nproc_per_node=2"]
    result, sums = torchruns(hvdrun, [*words, script(MEETS)], seconds, "--timeout", "40")
    assert result.rc != 0 and sums == 0, result


@pytest.mark.parametrize("seconds", [60, -60])
@pytest.mark.parametrize("version", ["1.13", "2.11"])
def test_torchruns_meet_by_musters_rendezvous(hvdrun, script, own_names, no_leftovers, version, seconds):
    if version == "2.11" and not YOUNG.exists():
        pytest.skip("torch 2.11.0 is not installed: tools/peers torch")
    words = [PYTHON, "-m", "muster.torchrun", *OPTIONS] if version == "1.13" else [YOUNG, "--nproc_per_node=2"]
    result, sums = torchruns(hvdrun, [*words, "--rdzv_backend=muster", script(MEETS)], seconds)
    assert result.rc == 0 and sums == 4, result
