"""Equal lines of several ranks are one line on a terminal, each rank's order stays, and nothing is lost. Equal failures
of many hosts are one line."""

import re
import signal

import pytest
from conftest import BIN_DIR
from console import PYTHON, Watched
from launcherd_user import Launcherd

EIGHT = ["-np", "8", "-H", "n1:2,n2:2,n3:2,n4:2"]
TRACEBACK = """
print("begin", flush=True)
def load():
    raise KeyError("weights")
try:
    load()
except KeyError as missing:
    raise ValueError("no model") from missing
"""


@pytest.fixture
def launcherd(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster)
    yield daemon
    daemon.close()


def on_terminal(hvdrun, cluster, args, **options):
    return Watched(hvdrun, cluster, args, terminal=True, folds=True, **options)


def rank_lines(result):
    """The lines of ranks on a terminal."""
    lines = re.split(r"\r\x1b\[K|\r\n", result.stdout)
    return [line for line in lines if re.match(r"\[[\d,-]+\]<std", line)]


def shell(*args):
    return [*EIGHT, *args, "sh", "-c"]


def ranks_of(label):
    """The ranks of "[0-2,7]<stdout>:"."""
    found = []
    for part in re.match(r"\[([\d,-]+)\]", label)[1].split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def by_rank(lines, stream="stdout"):
    """What each rank wrote, in its order."""
    texts = {rank: [] for rank in range(8)}
    for line in lines:
        label, found, text = line.partition(f"<{stream}>:")
        for rank in ranks_of(label) if found else []:
            texts[rank].append(text)
    return texts


def test_equal_lines_are_one_line(hvdrun, cluster, no_leftovers):
    result = on_terminal(hvdrun, cluster, [*shell(), "echo one; echo two; sleep 2; echo three"]).end()
    assert result.rc == 0, result
    assert all(texts == ["one", "two", "three"] for texts in by_rank(rank_lines(result)).values()), result
    assert "[0-7]<stdout>:three" in rank_lines(result), result  # all ranks were up by then


def test_a_different_rank_is_shown_on_its_own(hvdrun, cluster, no_leftovers):
    script = ("sleep 2; echo begin; "
              "if [ $MUSTER_RANK = 3 ]; then echo different; else echo same; fi; echo rank $MUSTER_RANK; echo end")
    result = on_terminal(hvdrun, cluster, [*shell(), script]).end()
    assert result.rc == 0, result
    lines = rank_lines(result)
    assert "[3]<stdout>:different" in lines, result
    for rank, texts in by_rank(lines).items():
        assert texts == ["begin", "different" if rank == 3 else "same", f"rank {rank}", "end"], (rank, result)
    assert len(lines) < 20, result  # 32 without folding


def test_all_fail_alike_and_the_traceback_is_shown_once(hvdrun, cluster, no_leftovers):
    job = on_terminal(hvdrun, cluster, [*EIGHT, "--kill-grace", "20", "--on-exit", "wait", PYTHON, "-c", TRACEBACK])
    result = job.end()
    assert result.rc == 1, result
    lines = [line for line in rank_lines(result) if "<stderr>" in line]
    blocks = "\n".join(lines).split("]<stderr>:ValueError: no model")
    assert len(blocks) - 1 <= 3, result  # ranks of hosts that came up late may be apart
    for block in blocks[:-1]:
        labels = set(re.findall(r"^\[[\d,-]+\]", block, re.M))
        assert len(labels) == 1, block
        assert block.count("Traceback (most recent call last):") == 2, block
    assert all(texts[-1] == "ValueError: no model" for texts in by_rank(lines, "stderr").values()), result


def test_the_order_of_a_rank_stays(hvdrun, cluster, no_leftovers):
    program = ("import os, random\nrandom.seed(int(os.environ['MUSTER_RANK']))\n"
               "for i in range(2000):\n    print(random.choice('abc') * 3, i if random.random() < 0.3 else '')\n")
    result = on_terminal(hvdrun, cluster, [*EIGHT, PYTHON, "-c", program]).end()
    plain = hvdrun([*EIGHT, PYTHON, "-c", program])
    assert result.rc == plain.rc == 0, result
    assert by_rank(rank_lines(result)) == by_rank(plain.stdout.splitlines())


def test_bars_move_and_prompts_appear(hvdrun, cluster, no_leftovers):
    script = ("printf 'held\\n'; for i in 1 2 3; do printf \"$i%%\\r\"; done; printf 'Name: '; "
              "if [ $MUSTER_RANK = 0 ]; then read x; echo hello $x; fi")
    job = on_terminal(hvdrun, cluster, [*EIGHT, "sh", "-c", script])
    job.out.wait_for(r"\[0\]<stdout>:1%\r")
    job.out.wait_for(r"\[7\]<stdout>:3%\r")
    job.out.wait_for(r"\[0\]<stdout>:Name: ")
    job.type("bob\n")
    result = job.end()
    assert result.rc == 0, result
    assert "hello bob" in result.stdout, result
    assert by_rank(re.findall(r"\[[\d,-]+\]<stdout>:held", result.stdout)) == {rank: ["held"] for rank in range(8)}


def test_off_numbers_and_time_stamps(hvdrun, cluster, no_leftovers):
    script = "sleep 2; echo rank $MUSTER_RANK of 8"
    off = on_terminal(hvdrun, cluster, [*shell("--fold", "off"), "echo same"]).end()
    assert sorted(rank_lines(off)) == [f"[{rank}]<stdout>:same" for rank in range(8)], off
    numbers = hvdrun([*shell("--fold", "numbers"), script])
    assert numbers.rc == 0 and len(numbers.stdout.splitlines()) == 1, numbers
    assert re.fullmatch(r"\[0-7\]<stdout>:rank \d of 8\n", numbers.stdout), numbers
    timed = hvdrun([*shell("--fold", "on", "-prefix-timestamp"), "sleep 2; echo same"])
    assert re.fullmatch(r"\w+ \w+ +\d+ [\d:]+ \d+\[0-7\]<stdout>:same\n", timed.stdout), timed


def test_a_pipe_and_files_are_unchanged(hvdrun, cluster, no_leftovers):
    piped = hvdrun([*shell(), "echo same"])
    assert sorted(piped.stdout.splitlines()) == [f"[{rank}]<stdout>:same" for rank in range(8)], piped
    folder = "/tmp/fold-files"
    result = on_terminal(hvdrun, cluster, [*shell("--output-filename", folder), "sleep 2; echo same"]).end()
    assert "[0-7]<stdout>:same" in rank_lines(result), result
    for rank in range(8):
        assert cluster.path("head", f"{folder}/rank.{rank}/stdout").read_text() == "same\n"
    cluster.run("head", "alice", ["rm", "-r", folder], check=True)


def test_nothing_is_lost_at_ctrl_c_and_at_a_kill(hvdrun, cluster, no_leftovers):
    script = "trap 'echo last words; exit 0' TERM; echo up $MUSTER_RANK; while :; do sleep 0.05; done"
    job = on_terminal(hvdrun, cluster, [*shell(), script])
    job.out.wait_for(r"\]<stdout>:up \d", 8)
    job.type("\x03")
    result = job.end()
    assert result.rc == 130, result
    assert all(texts[-1] == "last words" for texts in by_rank(rank_lines(result)).values()), result
    killed = on_terminal(hvdrun, cluster, [*shell(), "echo same; [ $MUSTER_RANK = 5 ] && kill -9 $$; sleep 3"]).end()
    assert killed.rc == 128 + signal.SIGKILL, killed
    assert by_rank(rank_lines(killed))[5] == ["same"], killed


def test_logs_and_attach_fold_too(launcherd):
    job = launcherd.submit("-np", "4", "sh", "-c", "sleep 2; echo same")
    attached = launcherd.watch("attach", job, terminal=True, folds=True)
    result = attached.end()
    assert result.rc == 0 and "[0-3]<stdout>:same" in rank_lines(result), result
    for args, lines in ((["--fold", "on"], ["[0-3]<stdout>:same"]),
                        (["--fold", "on", "--rank", "1,3"], ["[1,3]<stdout>:same"]),
                        ([], [f"[{rank}]<stdout>:same" for rank in range(4)])):
        assert sorted(launcherd.asked("logs", *args, job).splitlines()) == lines
    remote = launcherd.run("-np", "4", "sh", "-c", "sleep 2; echo same", terminal=True, folds=True).end()
    assert remote.rc == 0 and "[0-3]<stdout>:same" in rank_lines(remote), remote


@pytest.mark.parametrize("backend", ["ssh", "libssh"])
def test_hosts_that_fail_alike_are_one_line(hvdrun, cluster, no_leftovers, backend):
    for host in ("n1", "n2", "n3"):
        cluster.stop_sshd(host)
    try:
        result = hvdrun(["-np", "4", "-H", "n1,n2,n3,n4", "--ssh-backend", backend, "true"])
        few = hvdrun(["-np", "2", "-H", "n1,n2", "--ssh-backend", backend, "true"])
        doctor = cluster.run("head", "alice", [str(BIN_DIR / "muster"), "doctor", "-H", "n1,n2,n3,n4"])
    finally:
        for host in ("n1", "n2", "n3"):
            cluster.start_sshd(host)
    assert result.rc == few.rc == 125, result
    assert len(re.findall(r"^hvdrun: 3 hosts n\[1-3\]: nothing accepts connections on port 22 \(connection refused\); "
                          r"start sshd there", result.stderr, re.M)) == 1, result
    assert result.stderr.count("connection refused") == 1, result
    for host in ("n1", "n2"):
        assert f"hvdrun: host {host}: nothing accepts connections at " in few.stderr, few
    assert doctor.returncode == 1, doctor
    assert re.search(r"^3 hosts n\[1-3\]\n  name +ok +.*\n  ssh +FAIL  connection refused: .* on port 22", doctor.stdout,
                     re.M), doctor
    assert "\nn4\n" in doctor.stdout and "3 with failures (n[1-3])" in doctor.stdout, doctor
