"""muster stacks: where every rank of a foreground job is."""

import json
import signal
from xml.etree import ElementTree

import pytest
from cluster import testing
from conftest import BIN_DIR
from console import Watched

PYTHON = "/usr/bin/python3"
MUSTER = str(BIN_DIR / "muster")

# Three threads that wait, and a child of the rank that does.
HANGS = r"""
import subprocess, threading, time
for _ in range(2):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
child = subprocess.Popen(["sleep", "1000"])
print("up", flush=True)
child.wait()
"""


@pytest.fixture
def job(hvdrun, cluster):
    job = Watched(hvdrun, cluster, args=["-np", "4", "-H", "n1:2,n2:2", PYTHON, "-c", HANGS])
    job.out.wait_for("up", 4)
    # The ranks go on from there to the line in which they wait.
    there = "ranks 0-3 on n1-n2: 4 ranks\n    <module> (<string>:7) >"
    assert testing.eventually(lambda: there in stacks(cluster).stdout, 20.0), stacks(cluster).stdout
    yield job
    if job.command.poll() is None:
        job.signal(signal.SIGINT)
        assert job.end().rc == 130


def stacks(cluster, *args, user="alice"):
    return cluster.run("head", user, [MUSTER, "stacks", *args], timeout=60)


def processes(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_process_of_every_rank(cluster, job, no_leftovers):
    result = stacks(cluster, "--json")
    assert result.returncode == 0, result
    found = processes(result)
    assert sorted((process["rank"], process["host"], process["command"]) for process in found) == sorted(
        (rank, host, command) for rank, host in enumerate(["n1", "n1", "n2", "n2"]) for command in ("python3", "sleep"))
    for process in found:
        threads = process["threads"]
        assert sum(len(thread["tids"]) for thread in threads) == (3 if process["command"] == "python3" else 1), process
        functions = [frame["function"] for thread in threads for frame in thread["user"]]
        assert all(thread["state"] == "S" for thread in threads), process
        if process["command"] == "sleep":
            assert process["python"] == "" and any("sleep" in function for function in functions), process
            continue
        assert process["python"].startswith("3.") and functions == [], process
        main = next(thread for thread in threads if process["pid"] in thread["tids"])
        assert [frame["function"] for frame in main["python"]][-1] == "<module>", process
        assert (main["python"][-1]["file"], main["python"][-1]["line"]) == ("<string>", 7), process
        assert all(thread["python_problem"] == "" for thread in threads), process
    text = stacks(cluster, "-r", "3").stdout
    assert text.startswith("rank 3 on n2, pid ") and "<module> (<string>:7)" in text and "rank 2" not in text, text


def test_native_functions(cluster, job, no_leftovers):
    text = stacks(cluster, "-r", "3", "--native").stdout
    assert "<module> (<string>:7)" in text and "_PyEval_EvalFrameDefault" in text, text


# Rank 2 loads a batch while the others wait in a step.
DIFFERS = r"""
import os, threading
lock = threading.Lock()
lock.acquire()


def load_batch():
    lock.acquire()


def step():
    lock.acquire()


print("up", flush=True)
if os.environ["HOROVOD_RANK"] == "2":
    load_batch()
step()
"""


def test_the_rank_that_differs_comes_first(cluster, hvdrun, no_leftovers):
    job = Watched(hvdrun, cluster, args=["-np", "4", "-H", "n1:2,n2:2", PYTHON, "-c", DIFFERS])
    job.out.wait_for("up", 4)
    lines = []

    def all_wait():
        lines[:] = stacks(cluster).stdout.splitlines()
        return any("step (<string>:12)" in line for line in lines) and any("load_batch" in line for line in lines) \
            and "3 ranks" in "".join(lines)

    testing.eventually(all_wait, 20.0)
    assert lines[0].startswith("rank 2 on n2, pid "), lines
    assert "<module> (<string>:17) > load_batch (<string>:8)  <- here" in lines[1], lines
    assert lines[2] == "ranks 0-1,3 on n1-n2: 3 ranks", lines
    assert "<module> (<string>:18) > step (<string>:12)  <- here" in lines[3], lines
    tree = stacks(cluster, "--tree").stdout.splitlines()
    assert "rank 2: 1 rank" in tree[0] and "load_batch (<string>:8)  <- here" in tree[1], tree
    cluster.run("head", "alice", [MUSTER, "stacks", "--svg", "/home/alice/stacks.svg"], check=True)
    svg = cluster.run("head", "alice", ["cat", "/home/alice/stacks.svg"], check=True).stdout
    cluster.run("head", "alice", ["rm", "/home/alice/stacks.svg"], check=True)
    titles = [title.text for title in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert "load_batch (<string>:8): rank 2, 1 thread" in titles and len(titles) == 4, titles
    job.signal(signal.SIGINT)
    assert job.end().rc == 130


def test_ranks_go_on(cluster, hvdrun, no_leftovers):
    """Output of ranks that are looked at ten times is whole and in order; half of it comes after the last look."""
    count = 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo $i; [ $((i % 100)) -ne 0 ] || sleep 0.05; ' \
            '[ $i -ne 1000 ] || until [ -e ~/looked ]; do sleep 0.05; done; done; rm ~/looked'
    job = Watched(hvdrun, cluster, args=["-np", "2", "-H", "n1,n2", "sh", "-c", count])
    job.out.wait_for(r"<stdout>:100\n", 2)
    for _ in range(10):
        assert stacks(cluster).returncode in (0, 1)  # 1: a sleep had ended while it was read
    for host in ("n1", "n2"):
        cluster.run(host, "alice", ["touch", "/home/alice/looked"], check=True)
    result = job.end()
    assert result.rc == 0, result
    for rank in range(2):
        lines = [line for line in result.stdout.splitlines() if line.startswith(f"[{rank}]")]
        assert lines == [f"[{rank}]<stdout>:{number}" for number in range(1, 2001)]


def test_a_stopped_rank_is_shown_and_stays_stopped(cluster, job, no_leftovers):
    pid = next(process["pid"] for process in processes(stacks(cluster, "-r", "2", "--json"))
               if process["command"] == "python3")
    cluster.run("n2", "alice", ["kill", "-STOP", pid], check=True)
    for _ in range(2):
        shown = next(process for process in processes(stacks(cluster, "-r", "2", "--json")) if process["pid"] == pid)
        assert all(thread["state"] == "T" and thread["python"] for thread in shown["threads"]), shown
    state = cluster.run("n2", "alice", ["ps", "-o", "state=", "-p", pid], check=True).stdout.strip()
    assert state == "T"
    cluster.run("n2", "alice", ["kill", "-CONT", pid], check=True)


def test_several_looks_are_added_up(cluster, job, no_leftovers):
    picture = "/tmp/looks.svg"
    result = stacks(cluster, "--samples", "5", "--tree", "--svg", picture)
    assert result.returncode == 0, result
    assert ", 20 of " in result.stdout and " looks at threads" in result.stdout, result  # 4 main threads, 5 looks
    assert " looks at threads" in cluster.path("head", picture).read_text()
    cluster.run("head", "alice", ["rm", picture], check=True)
    assert stacks(cluster, "--samples", "0").returncode == 2
    lines = stacks(cluster, "--samples", "2", "--json").stdout.splitlines()
    assert len(lines) == 16, lines  # 8 processes


def test_which_job(cluster, hvdrun, job, no_leftovers):
    second = Watched(hvdrun, cluster, args=["-H", "n3", "sh", "-c", "echo up; exec sleep 1000"])
    second.out.wait_for("up", 1)
    result = stacks(cluster)
    assert result.returncode == 2 and "which job? There are " in result.stderr, result
    ids = result.stderr.rsplit("There are ", 1)[1].strip().split(", ")
    assert len(ids) == 2
    hosts = {processes(stacks(cluster, job_id, "--json"))[0]["host"] for job_id in ids}
    assert hosts == {"n1", "n3"}
    second.signal(signal.SIGINT)
    assert second.end().rc == 130
    result = stacks(cluster, "no-such-job")
    assert result.returncode == 2 and "no job begins with no-such-job or is named so: there are " in result.stderr, result
    assert stacks(cluster, "-r", "9").stderr.endswith(": unknown rank 9: the job has ranks 0 to 3\n")
    assert stacks(cluster, "-r", "x").returncode == 2


def test_another_user_sees_nothing(cluster, job, no_leftovers):
    result = stacks(cluster, user="bob")
    assert result.returncode == 2 and "no hvdrun of yours runs on this host" in result.stderr, result
    result = cluster.run("head", "bob", ["sh", "-c", "ls /tmp/muster-$(id -u alice)"])
    assert result.returncode != 0, result


def test_a_host_that_is_cut_off_costs_only_its_own(cluster, job, no_leftovers):
    cluster.cut("n2", "drop")
    result = stacks(cluster, "--json")
    cluster.heal("n2")
    assert result.returncode == 1, result
    found = processes(result)
    assert {process["rank"] for process in found if process["pid"] != "0"} == {0, 1}
    assert next(process["problem"] for process in found if process["pid"] == "0").startswith("n2 ")


def test_no_job(cluster, no_leftovers):
    result = stacks(cluster)
    assert result.returncode == 2 and "no hvdrun of yours runs" in result.stderr, result


def test_many_at_the_same_time(cluster, job, no_leftovers):
    one = f"{MUSTER} stacks --json > $i.json || cat $i.json"
    script = f"mkdir ~/many && cd ~/many && for i in $(seq 40); do {{ {one}; }} & done; wait; wc -l *.json"
    result = cluster.run("head", "alice", ["bash", "-c", script], timeout=100)
    cluster.run("head", "alice", ["rm", "-r", "/home/alice/many"], check=True)
    counts = result.stdout.split()[0::2]
    assert result.stderr == "" and counts == ["8"] * 40 + ["320"], result.stdout  # 4 ranks and their children


def test_a_job_that_is_suspended(cluster, job, no_leftovers):
    job.signal(signal.SIGTSTP)
    stat = f"/proc/{job.command.real_pid}/stat"
    testing.eventually(lambda: open(stat).read().split()[2] == "T", 20.0)
    result = stacks(cluster)
    assert result.returncode == 1 and "did not answer in time: is it suspended (Ctrl-Z)?" in result.stderr, result
    job.signal(signal.SIGCONT)
    assert stacks(cluster).returncode == 0
