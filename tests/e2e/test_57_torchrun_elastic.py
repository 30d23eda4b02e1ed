"""torchrun's log folders and watchdog under `muster torchrun`, and torchrun itself as the program of hvdrun's ranks."""

import json
import re
import shutil

import pytest
from conftest import BIN_DIR
from console import PATIENCE, Watched

PYTHON = "/usr/bin/python3"
LEASE = 15.0  # hvdrun's
TRAINING = 240.0  # importing torch takes long on a busy machine


@pytest.fixture
def logs(cluster):
    """The log folder in alice's home on the launcher's host; removed after the test."""
    folder = cluster.path("head", "/home/alice/logs")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def muster(hvdrun, *args, python=PYTHON, **options):
    return hvdrun([], argv=["muster", *args], env={"PYTHON_EXEC": str(python)}, timeout=TRAINING, cwd="/home/alice", **options)


# ---- --log-layout torchrun

# Rank 2, the first one of the second host, raises in the first attempt, when all have printed.
RAISES_ONCE = r"""
import os, sys, time
from torch.distributed import TCPStore
from torch.distributed.elastic.multiprocessing.errors import record
attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
print("out", rank, attempt, flush=True)
print("err", rank, attempt, file=sys.stderr, flush=True)
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
if store.add(f"printed {attempt}", 1) == int(os.environ["WORLD_SIZE"]):
    store.set(f"all printed {attempt}", "")

@record
def main():
    if attempt == "0" and rank == "2":
        store.wait([f"all printed {attempt}"])
        raise KeyError("no such sample")
    if attempt == "0":
        time.sleep(1000)

main()
"""


def tree(folder):
    """{path below the run's folder: text} of each host's run folder."""
    runs = {}
    for run in sorted(folder.iterdir()):
        assert re.fullmatch(r"run7_[a-z0-9_]{8}", run.name), run
        runs[run.name] = {file.relative_to(run).as_posix(): file.read_text() for file in run.rglob("*") if file.is_file()}
    return runs


def test_logs_lie_where_torchruns_agents_put_them(hvdrun, script, logs, no_leftovers):
    result = muster(hvdrun, "torchrun", "--verbose", "-H", "n1,n2", "--nproc-per-node=2", "--max-restarts=1", "--rdzv-id", "run7",
                    "--log-dir", "logs", "--log-layout", "torchrun", "-r", "0:3,1:1", "-t", "0:1",
                    "--duplicate-stdout-filters", "out", script(RAISES_ONCE))
    assert result.rc == 0, result
    named = dict(re.findall(r"^hvdrun: logs of (\S+): (/home/alice/logs/\S+)$", result.stderr, re.M))
    runs = tree(logs)
    assert {path.rpartition("/")[2] for path in named.values()} == set(runs) and sorted(named) == ["n1", "n2"], result
    for host, first in (("n1", 0), ("n2", 2)):
        files = runs[named[host].rpartition("/")[2]]
        error = files.pop("attempt_0/0/error.json", None)
        assert (error is not None) == (host == "n2"), runs
        if error:
            assert json.loads(error)["message"]["message"] == "KeyError: 'no such sample'"
        # The exception's traceback is on stderr, too.
        files["attempt_0/0/stderr.log"] = files["attempt_0/0/stderr.log"].splitlines(True)[0]
        expected = {}
        for attempt in (0, 1):
            folder = f"attempt_{attempt}"
            expected |= {f"{folder}/0/stdout.log": f"out {first} {attempt}\n", f"{folder}/0/stderr.log": f"err {first} {attempt}\n",
                         f"{folder}/1/stdout.log": f"out {first + 1} {attempt}\n",
                         f"{folder}/filtered_stdout.log": f"[{first}]<stdout>:out {first} {attempt}\n"}
        # Local rank 1's stdout is redirected, so the console and the filter do not have it.
        assert files == expected, result
    assert sorted(re.findall(r"^\[\d\]<stdout>:.*$", result.stdout, re.M)) == [
        f"[{rank}]<stdout>:out {rank} {attempt}" for rank in (0, 2) for attempt in (0, 1)], result


def test_the_log_layout_of_a_host_that_takes_over(hvdrun, cluster, logs, no_leftovers):
    """The spare gets a folder of its own; the host that stays keeps its folder."""
    program = ("echo up $MUSTER_HOSTNAME $MUSTER_GENERATION; [ $MUSTER_HOSTNAME != n2 ] || exit 7; "
               "[ $MUSTER_GENERATION = 2 ] || exec sleep 1000")
    result = muster(hvdrun, "torchrun", "-H", "n1,n2", "--spares", "n3", "--on-failure", "replace", "--rdzv-id", "run7",
                    "--no-python", "--log-dir", "logs", "--log-layout", "torchrun", "-t", "3", "sh", "-c", program)
    assert result.rc == 0, result
    attempts = {}  # of each host that has printed
    for files in tree(logs).values():
        outputs = {path: text for path, text in files.items() if path.endswith("/0/stdout.log")}
        host = re.search(r"up (\S+)", "".join(outputs.values()))[1]
        attempts[host] = sorted(outputs)
        for path, text in outputs.items():  # n1 may be stopped before it prints
            assert text in (f"up {host} {path[len('attempt_')]}\n", "") and (text or host == "n1"), (path, text, result)
    assert attempts == {host: [f"attempt_{number}/0/stdout.log" for number in numbers]
                        for host, numbers in (("n1", (0, 1, 2)), ("n2", (0, 1)), ("n3", (2,)))}, result


def test_a_log_folder_that_cannot_be_made_is_named(hvdrun, no_leftovers):
    result = muster(hvdrun, "torchrun", "--log-dir", "/proc/logs", "--log-layout", "torchrun", "--no-python", "true")
    assert result.rc == 2 and "/proc/logs" in result.stderr, result


# ---- hosts whose ranks have all ended well while another host fails

# The ranks of n1 end at once. Rank 2, on n2, then DOES something in the first attempt.
ENDS_EARLY = ("echo up $TORCHELASTIC_RESTART_COUNT $RANK of $WORLD_SIZE on $MUSTER_HOSTNAME; "
              "[ $MUSTER_GENERATION = 0 ] && [ $MUSTER_HOSTNAME = n2 ] || exit 0; sleep 3; [ $RANK != 2 ] || DOES; exec sleep 1000")


def attempts(result):
    found = re.findall(r"up (\d) (\d) of (\d) on (\S+)$", result.stdout, re.M)
    return sorted((int(attempt), int(rank), int(size), host) for attempt, rank, size, host in found)


def attempt(number, hosts=("n1", "n1", "n2", "n2")):
    return [(number, rank, len(hosts), host) for rank, host in enumerate(hosts)]


@pytest.mark.parametrize("does,end", [("exit 7", "exit code 7"), ("kill -KILL $$", "signal 9")])
def test_a_failure_starts_ranks_again_that_had_ended_well(hvdrun, no_leftovers, does, end):
    result = muster(hvdrun, "torchrun", "-H", "n1,n2", "--nnodes=1:2", "--nproc-per-node=2", "--max-restarts=1", "--no-python",
                    "sh", "-c", ENDS_EARLY.replace("DOES", does))
    assert result.rc == 0 and attempts(result) == attempt(0) + attempt(1), result
    assert re.findall(r"^hvdrun: rank (\d on n\d) .*: ([^:\n]*\d)", result.stderr, re.M) == [("2 on n2", end)], result
    assert "hvdrun: restart 1 of 1" in result.stderr and result.elapsed < 30, result


def test_a_failure_ends_a_job_whose_other_host_had_ended_well(hvdrun, no_leftovers):
    result = muster(hvdrun, "torchrun", "-H", "n1,n2", "--nnodes=1:2", "--nproc-per-node=2", "--no-python",
                    "sh", "-c", ENDS_EARLY.replace("DOES", "exit 7"))
    assert result.rc == 7 and attempts(result) == attempt(0), result
    assert re.findall(r"^hvdrun: rank (\d on n\d) .*: (exit code \d)", result.stderr, re.M) == [("2 on n2", "exit code 7")], result
    assert "exit code 7 is that of rank 2 on n2" in result.stderr and result.elapsed < 30, result


def test_a_host_is_lost_after_the_other_one_has_ended_well(hvdrun, cluster, no_leftovers):
    """The loss of a host is free of charge: the job starts again without it."""
    job = Watched(hvdrun, cluster, argv=["muster", "torchrun", "-H", "n1,n2", "--nnodes=1:2", "--nproc-per-node=2", "--no-python",
                                         "sh", "-c", ENDS_EARLY.replace("DOES", "true")])
    job.out.wait_for("up 0", 4)
    cluster.kill_host("n2")
    result = job.end(LEASE + PATIENCE)
    assert result.rc == 0 and attempts(result) == sorted(attempt(0) + attempt(0, ("n1", "n1"))), result
    assert re.search(r"^hvdrun: generation 1: 4 → 2 ranks, n2 lost", result.stderr, re.M), result


# ---- torchrun itself as the program of hvdrun's ranks

# torch 1.13 on Python 3.11 can read no other values of -r and -t than one stream each.
OLD = [PYTHON, "-m", "torch.distributed.run", "--redirects=2", "--tee=1", "--log_dir=/tmp"]
YOUNG = BIN_DIR.parent / "peers/torch-2.11.0/bin/torchrun"
# Torch 1.13's torchrun whose workers have failed waits up to 300 s for the other nodes. So the failure must take the others
# along there, and either node may end first.
WAITS = {"1.13": "dist.all_reduce(total)", "2.11": "time.sleep(1000)"}


@pytest.fixture(params=WAITS)
def torchrun(request, hvdrun, cluster, script, own_names, no_leftovers):
    """torchrun(text, *options, hvdruns=options) -> Result: two nodes with two workers each. own_names: torch 1.13 makes
    the workers' MASTER_ADDR from the name of the host."""
    if request.param == "2.11" and not YOUNG.exists():
        pytest.skip("torch 2.11.0 is not installed: tools/peers torch")
    words = OLD if request.param == "1.13" else [YOUNG]

    def run(text, *options, hvdruns=("-np", "2", "-H", "n1:1,n2:1")):
        text = text.replace("WAITS", WAITS[request.param])
        return hvdrun([*hvdruns, *words, *options, "--nproc_per_node=2", script(text)], timeout=TRAINING)
    run.version = request.param
    return run


# Rank 2 fails where FAILS says so. All learn that from the sum.
MEETS = r"""
import os, time
import torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

def is_to_fail():
    once = os.path.join(os.environ["MUSTER_SESSION_DIR"], "has-failed")
    if "FAILS" == "in generation 0":
        return os.environ["MUSTER_GENERATION"] == "0"
    if "FAILS" == "once" and not os.path.exists(once):
        open(once, "w").close()
        return True
    return False

@record
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    total = torch.ones(1) * (rank + 1)
    if rank == 2 and is_to_fail():
        total += 100
    dist.all_reduce(total)
    if total > 100:
        print("rank 2 fails", flush=True)
        if rank == 2:
            raise KeyError("no such sample")
        WAITS  # for the end
    print("sum", int(total), "of", dist.get_world_size(), "rank", rank, "on", os.environ["MUSTER_HOSTNAME"],
          "generation", os.environ["MUSTER_GENERATION"], flush=True)
    os._exit(0)

main()
"""


def sums(result):
    """{(generation, worker's rank): host}"""
    found = re.findall(r"sum 10 of 4 rank (\d) on (\S+) generation (\d)$", result.stdout, re.M)
    return {(int(generation), int(rank)): host for rank, host, generation in found}


def all_of(generation):
    return {(generation, rank): "n1" if rank < 2 else "n2" for rank in range(4)}


def test_torchruns_meet_without_options(torchrun):
    result = torchrun(MEETS, "--nnodes=2")
    assert result.rc == 0 and sums(result) == all_of(0), result


def test_a_failed_worker_is_named_by_its_torchrun(torchrun):
    result = torchrun(MEETS.replace("FAILS", "once"))
    assert result.rc == 1 and not sums(result), result
    if torchrun.version == "1.13":
        assert re.search(r"^hvdrun: rank [01] on n[12] .*: exit code 1$", result.stderr, re.M), result
        return
    assert "hvdrun: n2: rank 1 raised KeyError: 'no such sample'\n" in result.stderr, result
    assert re.search(r"^hvdrun: rank 1 on n2 .*: exit code 1$", result.stderr, re.M), result


# The workers of n1 end at once, so their torchrun waits for the other one at its exit barrier, for up to 300 s.
ENDS_APART = r"""
import os, time
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    if os.environ["MUSTER_HOSTNAME"] == "n2":
        time.sleep(5)
        if os.environ["LOCAL_RANK"] == "0":
            raise KeyError("no such sample")
        time.sleep(1000)

main()
"""


def test_a_failure_while_the_other_torchrun_is_at_its_exit_barrier(torchrun):
    result = torchrun(ENDS_APART)
    assert result.rc == 1 and result.elapsed < 100, result
    assert "hvdrun: n2: rank 1 raised KeyError: 'no such sample'\n" in result.stderr, result
    assert re.findall(r"^hvdrun: rank (\d on n\d) .*: (exit code \d)$", result.stderr, re.M) == [("1 on n2", "exit code 1")], result


def test_hvdrun_starts_torchruns_again(torchrun):
    result = torchrun(MEETS.replace("FAILS", "in generation 0"),
                      hvdruns=["-np", "2", "-H", "n1:1,n2:1", "--max-restarts", "1"])
    assert result.rc == 0 and sums(result) == all_of(1), result
    assert "hvdrun: restart 1 of 1" in result.stderr, result


def test_torchruns_start_their_workers_again_by_themselves(torchrun):
    result = torchrun(MEETS.replace("FAILS", "once"), "--max_restarts=1")
    assert result.rc == 0 and sums(result) == all_of(0), result
    assert "hvdrun: restart" not in result.stderr and "rank 2 fails" in result.stdout, result


@pytest.mark.parametrize("version", WAITS)
def test_ranks_follow_hvdruns_hosts_with_its_rendezvous(hvdrun, script, own_names, no_leftovers, version):
    """Sorted by address, n1 would come first. The workers start again once, by torchrun itself."""
    if version == "2.11" and not YOUNG.exists():
        pytest.skip("torch 2.11.0 is not installed: tools/peers torch")
    words = [YOUNG] if version == "2.11" else [PYTHON, "-m", "muster.torchrun", *OLD[3:]]
    result = hvdrun(["-np", "2", "-H", "n2:1,n1:1", *words, "--rdzv_backend=muster", "--nproc_per_node=2", "--max_restarts=1",
                     script(MEETS.replace("FAILS", "once").replace("WAITS", WAITS[version]))], timeout=TRAINING)
    assert result.rc == 0 and "rank 2 fails" in result.stdout, result
    assert sums(result) == {(0, rank): "n2" if rank < 2 else "n1" for rank in range(4)}, result


def test_other_programs_get_no_options_of_torchrun(hvdrun, no_leftovers):
    shown = hvdrun(["-np", "2", "-H", "n1:1,n2:1", "sh", "-c", "env | grep -c -e ^PET_ -e ^TORCH; true"])
    assert sorted(shown.stdout.splitlines()) == ["[0]<stdout>:0", "[1]<stdout>:0"], shown


# ---- torch's watchdog

# Rank 1 hangs in a scope in generation 0; rank 0 leaves its scopes in time.
HANGS = r"""
import os, sys, threading, time
from torch.distributed.elastic.timer import FileTimerClient, configure, expires

configure(FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
rank, generation = os.environ["RANK"], os.environ["MUSTER_GENERATION"]
with expires(after=60):
    print("up", rank, generation, flush=True)
with expires(after=1 if rank == "1" else 60, scope="step of rank " + rank):
    if rank == "1" and generation == "0":
        threading.Event().wait()
if generation == "0":
    time.sleep(1000)
print("through", rank, generation, flush=True)
"""


@pytest.mark.parametrize("version", WAITS)
def test_a_rank_that_hangs_is_ended_by_its_timer(hvdrun, script, no_leftovers, version):
    if version == "2.11" and not YOUNG.exists():
        pytest.skip("torch 2.11.0 is not installed: tools/peers torch")
    python = PYTHON if version == "1.13" else YOUNG.parent / "python"
    result = hvdrun([], argv=["muster", "torchrun", "-H", "n1,n2", "--max-restarts=1", script(HANGS)], timeout=TRAINING,
                    env={"PYTHON_EXEC": str(python), "TORCHELASTIC_ENABLE_FILE_TIMER": "1"})
    assert result.rc == 0, result
    assert sorted(re.findall(r"through \d \d", result.stdout)) == ["through 0 1", "through 1 1"], result
    assert re.search(r"^hvdrun: n2: rank 1 hangs: its watchdog timer of scope 'step of rank 1' has expired; it gets (.*)$",
                     result.stderr, re.M)[1] == "SIGKILL", result
    assert re.search(r"^hvdrun: n2: rank 1, pid \d+ \(.*python.*\), (one thread|some threads): ", result.stderr, re.M), result
    assert re.search(r"^hvdrun: rank 1 on n2 .*: signal 9", result.stderr, re.M), result
    assert "hvdrun: restart 1 of 1" in result.stderr, result


# Writes requests that torch's client never sends: garbage, lines without an end, and timers of other processes.
HOSTILE = r"""
import json, os, sys, time
fifo = os.open(os.environ["TORCHELASTIC_TIMER_FILE"], os.O_WRONLY | os.O_NONBLOCK)
for line in (b"\n\0\xff{", b"x" * 20000, b"[" * 3000, b'{"pid": 1}'):
    os.write(fifo, line + b"\n")
for pid in (1, os.getppid(), 4000000):
    request = {"version": 1, "pid": pid, "scope_id": "not mine\n", "expiration_time": 1, "signal": 9}
    os.write(fifo, json.dumps(request).encode() + b"\n")
time.sleep(2)
print("still here", flush=True)
"""


def test_the_watchdog_ends_nothing_but_ranks(hvdrun, script, no_leftovers):
    result = muster(hvdrun, "torchrun", "-x", "TORCHELASTIC_ENABLE_FILE_TIMER=1", "-H", "n1,n2", script(HOSTILE))
    assert result.rc == 0 and result.stdout.count("still here") == 2, result
    for host in ("n1", "n2"):
        assert result.stderr.count(f"hvdrun: {host}: a line in the watchdog's FIFO is no request") == 1, result
        assert result.stderr.count(f"hvdrun: {host}: a watchdog timer of process ") == 1, result


def test_without_the_variable_there_is_no_watchdog(hvdrun, no_leftovers):
    result = muster(hvdrun, "torchrun", "-H", "n1", "--no-python", "sh", "-c",
                    "echo \"<$TORCHELASTIC_TIMER_FILE>\"; ls $MUSTER_SESSION_DIR")
    assert result.rc == 0 and "<>" in result.stdout and "torch-timers" not in result.stdout, result
