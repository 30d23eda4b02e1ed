"""How a job ends: exit codes, who is named as the cause, and the lines that say so."""

import re
import time

import pytest
from console import PATIENCE, PYTHON, Watched, last_line

HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]
GRACE = 5.0  # of --kill-grace when it is not given
# Ranks that know each other: rank 0 listens, every other one holds a connection to it.
PEERS = """
import os, signal, socket, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], 29871)
if rank == 0:
    server = socket.create_server(address, backlog=64)
    peers = [server.accept()[0] for _ in range(size - 1)]
else:
    while True:
        try:
            peers = [socket.create_connection(address)]
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
for peer in peers:  # all are there
    peer.sendall(b"!")
    peer.recv(1)
def peer_ends():
    assert peers[0].recv(1) == b""
"""


def python(script, *words):
    return [PYTHON, "-c", script, *words]


def shell(script):
    return ["sh", "-c", script]


def only_rank(rank, what, otherwise="exec sleep 1000"):
    return shell(f'if [ "$RANK" = {rank} ]; then {what}; else {otherwise}; fi')


def root_line(result):
    """(rank, host, pid, what) of the line that names the root cause; there is one."""
    found = re.findall(r"^hvdrun: rank (\d+) on (\S+) \(pid (\d+)\): (.*)$", result.stderr, re.M)
    assert len(found) == 1, result
    rank, host, pid, what = found[0]
    return int(rank), host, int(pid), what


def test_success_says_nothing_more(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, "echo", "hello"])
    assert result.rc == 0, result
    assert result.stderr == "", result
    assert sorted(result.stdout.splitlines()) == [f"[{rank}]<stdout>:hello" for rank in range(4)]


def test_exit_code_of_a_rank(hvdrun, no_leftovers):
    script = PEERS + """
if rank != 2:
  os.execlp("sleep", "sleep", "1000")
for number in range(1, 31):
  print("word", number, file=sys.stderr)
print("pid", os.getpid(), flush=True)
os._exit(3)
"""
    result = hvdrun([*HOSTS, *python(script)])
    assert result.rc == 3, result
    pid = int(re.search(r"^\[2\]<stdout>:pid (\d+)$", result.stdout, re.M)[1])
    assert root_line(result) == (2, "n2", pid, "exit code 3")
    tail = re.findall(r"^hvdrun:   \| (.*)$", result.stderr, re.M)
    assert tail == [f"word {number}" for number in range(11, 31)], result
    assert re.findall(r"^hvdrun: then (.*)$", result.stderr, re.M) == [
        "ranks 0-1,3 ended with signal 15 (Terminated) after the stop"], result
    assert re.fullmatch(r"4 ranks on 2 hosts, \d+\.\d+ s: failed; exit code 3 is that of rank 2 on n2",
                        last_line(result)), result
    assert result.elapsed < GRACE + PATIENCE / 2


@pytest.mark.parametrize("name,number", [("SEGV", 11), ("KILL", 9), ("TERM", 15), ("ABRT", 6)])
def test_signal_of_a_rank(hvdrun, no_leftovers, name, number):
    result = hvdrun([*HOSTS, *only_rank(1, f"echo last >&2; echo pid $$; kill -{name} $$")])
    assert result.rc == 128 + number, result
    pid = int(re.search(r"^\[1\]<stdout>:pid (\d+)$", result.stdout, re.M)[1])
    rank, host, reported, what = root_line(result)
    assert (rank, host, reported) == (1, "n1", pid)
    assert re.match(rf"signal {number} \(\w+", what), what
    assert "hvdrun:   | last\n" in result.stderr, result
    assert last_line(result).endswith(f"failed; exit code {128 + number} is that of rank 1 on n1"), result


def test_rank_killed_from_outside(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, [*HOSTS, *shell("echo pid $$; exec sleep 1000")])
    job.out.wait_for(r"pid \d+", 4)
    pid = int(re.search(r"\[3\]<stdout>:pid (\d+)", job.out.text)[1])
    cluster.run("n2", "alice", ["kill", "-9", str(pid)], check=True)
    killed = time.monotonic()
    job.err.wait_for(r"rank 3 on n2 \(pid \d+\): signal 9 \(Killed\)")
    assert time.monotonic() - killed < GRACE + PATIENCE / 4
    assert job.end().rc == 137


FAILS = [
    # (rank that fails first and how, what rank that sees its end does, root cause, exit code)
    pytest.param("os._exit(7)", "time.sleep(0.05); sys.exit(8)", "first", 7, id="both-exit"),
    pytest.param("os._exit(7)", "os.kill(os.getpid(), signal.SIGSEGV)", "second", 139, id="signal-before-code"),
    pytest.param("os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(1)", "first", 137, id="peer-of-a-killed-rank"),
    pytest.param("os.kill(os.getpid(), signal.SIGSEGV)", "time.sleep(0.05); os.kill(os.getpid(), signal.SIGABRT)", "first", 139,
                 id="both-signals"),
    pytest.param("os._exit(7)", "time.sleep(0.3); os.kill(os.getpid(), signal.SIGSEGV)", "first", 7,
                 id="signal-too-late"),
]


@pytest.mark.parametrize("first,second,root,code", FAILS)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["01", "10"])
def test_root_cause_among_two(hvdrun, no_leftovers, first, second, root, code, order):
    """Rank order[0] fails, and the other fails because it sees that."""
    # The stop that the first end brings must not be the end of the second.
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    script = PEERS + deaf + f"if rank == {order[0]}:\n  {first}\nelse:\n  peer_ends()\n  {second}\n"
    # 50 ms decide, which a busy machine may miss: between the two ends, or between an end, when peers see its sockets
    # close, and its reaping.
    for _ in range(5):
        result = hvdrun(["-np", "2", "-H", "n1,n2", *python(script)])
        if result.rc == code:
            break
    named = order[0] if root == "first" else order[1]
    assert result.rc == code, result
    assert root_line(result)[:2] == (named, f"n{named + 1}"), result
    assert len(re.findall(r"^hvdrun: then ", result.stderr, re.M)) == 1, result
    assert f"then rank {1 - named} ended with " in result.stderr, result


def test_consequences_of_a_crash_in_a_line(hvdrun, no_leftovers):
    """All peers of a crashed rank end with 1, at once: one root cause, one line for the rest."""
    script = PEERS + """
if rank == 0:
    os.kill(os.getpid(), signal.SIGKILL)
peer_ends()
sys.exit("connection to rank 0 lost")
"""
    # The peers see rank 0's sockets close before it is reaped, which a busy machine may do more than 50 ms later.
    for _ in range(5):
        result = hvdrun(["-np", "8", "-H", "n1:2,n2:2,n3:2,n4:2", *python(script)])
        if result.rc == 137:
            break
    assert result.rc == 137, result
    assert root_line(result)[:2] == (0, "n1")
    assert len(re.findall(r"^hvdrun: then ", result.stderr, re.M)) == 1, result


@pytest.mark.parametrize("code", [124, 125])
def test_codes_of_ours_from_a_rank(hvdrun, code):
    result = hvdrun([*HOSTS, *only_rank(3, f"exit {code}")])
    assert result.rc == code, result
    assert last_line(result).endswith(f"failed; exit code {code} is that of rank 3 on n2"), result


def test_timeout(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, "--timeout", "1", "sleep", "1000"])
    assert result.rc == 124, result
    assert 1.0 <= result.elapsed < 1.0 + GRACE + PATIENCE / 2
    assert re.fullmatch(r"4 ranks on 2 hosts, .*: stopped at its --timeout", last_line(result)), result


def test_timeout_of_ranks_that_ignore_it(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, "--timeout", "0.5", "--kill-grace", "0.5", *shell("trap '' TERM; while :; do sleep 1; done")])
    assert result.rc == 124, result
    assert result.elapsed < 1.0 + PATIENCE / 2


def test_on_exit_nonzero_kill_lets_others_finish(hvdrun):
    result = hvdrun([*HOSTS, "--on-exit", "nonzero-kill", *only_rank(0, "exit 0", "sleep 1; echo done")])
    assert result.rc == 0, result
    assert result.stdout.count(":done\n") == 3, result


def test_on_exit_any_kill(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, "--on-exit", "any-kill", *only_rank(0, "exit 0")])
    assert result.rc == 0, result
    assert result.elapsed < GRACE + PATIENCE / 2
    failing = hvdrun([*HOSTS, "--on-exit", "any-kill", *only_rank(0, "exit 6")])
    assert failing.rc == 6, failing


def test_on_exit_wait(hvdrun):
    result = hvdrun([*HOSTS, "--on-exit", "wait", *only_rank(0, "exit 6", "sleep 1; echo done")])
    assert result.rc == 6, result
    assert result.stdout.count(":done\n") == 3, result
    assert root_line(result)[:2] == (0, "n1")


def test_grace_is_given(hvdrun, no_leftovers):
    """A rank that cleans up within the grace time is not killed."""
    script = only_rank(0, "exit 3", "trap 'sleep 1; echo cleaned; exit 0' TERM; echo up; while :; do sleep 0.1; done")
    result = hvdrun([*HOSTS, *script])
    assert result.rc == 3, result
    # A rank that the stop reached before its trap was set ends by it; those that were up have all cleaned up.
    up = set(re.findall(r"\[(\d)\]<stdout>:up", result.stdout))
    assert set(re.findall(r"\[(\d)\]<stdout>:cleaned", result.stdout)) == up, result


def test_kill_after_grace(hvdrun, cluster, no_leftovers):
    script = "trap '' TERM; echo ready; while :; do sleep 1; done"
    cluster.run("n1", "alice", ["mkfifo", "/tmp/go"], check=True)
    job = Watched(hvdrun, cluster, ["-np", "4", "-H", "n1:2,n2:2", "--kill-grace", "1",
                                    *only_rank(0, "read x < /tmp/go; exit 3", script)])
    job.out.wait_for("ready", 3)
    begin = time.monotonic()
    cluster.run("n1", "alice", ["sh", "-c", "echo > /tmp/go; rm /tmp/go"], check=True)
    result = job.end()
    took = time.monotonic() - begin
    assert result.rc == 3, result
    assert 1.0 <= took < 1.0 + PATIENCE / 4, result
    assert "then ranks 1-3 ended with signal 9 (Killed) after the stop" in result.stderr, result


def test_stopped_rank_does_not_hold_up_the_end(hvdrun, no_leftovers):
    script = '[ $MUSTER_RANK = 0 ] && kill -STOP $$; [ $MUSTER_RANK = 1 ] && sleep 1 && exit 3; sleep 1000'
    result = hvdrun(["-np", "3", "-H", "n1:2,n2:1", "--kill-grace", "1s", "sh", "-c", script])
    assert result.rc == 3 and result.elapsed < 20, result


def test_leftovers_are_counted(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, *shell("setsid sleep 1000 > /dev/null 2>&1 < /dev/null & exit 0")])
    assert result.rc == 0, result
    assert last_line(result).endswith("ended with exit code 0, 4 leftover processes killed"), result
    assert len(re.findall(r"^hvdrun:   n[12]: pid \d+ \(sleep\): ", result.stderr, re.M)) == 4, result
    one = hvdrun([*HOSTS, *only_rank(1, "sleep 1000 & exit 4")])
    assert one.rc == 4, one
    assert last_line(one).endswith("rank 1 on n1, 1 leftover process killed"), one


def test_last_line_on_a_terminal(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, [*HOSTS, "echo", "hello"], terminal=True)
    result = job.end()
    assert result.rc == 0, result
    assert re.fullmatch(r"4 ranks on 2 hosts, \d+\.\d+ s: ended with exit code 0", last_line(result)), result
    for rank in range(4):
        assert f"[{rank}]<stdout>:hello\r\n" in result.stdout, result


def test_status_while_hosts_come_up(hvdrun, cluster, no_leftovers):
    """One line, written over and taken away; never on something that is not a terminal."""
    cluster.cut("n2", "drop")
    job = Watched(hvdrun, cluster, ["-np", "3", "-H", "n1,n2,n3", "echo", "hello"], terminal=True)
    quiet = Watched(hvdrun, cluster, ["-np", "3", "-H", "n1,n2,n3", "echo", "hello"])
    job.out.wait_for(r"2 of 3 hosts are up; waiting for n2")
    cluster.heal("n2")
    result, quiet_result = job.end(), quiet.end()
    assert result.rc == 0, result
    status = [text for text in re.split(r"\r\x1b\[K", result.stdout) if "hosts are up" in text]
    assert status and all(re.fullmatch(r"hvdrun: [012] of 3 hosts are up; waiting for [-n123,\[\]]+", text) for text in status), result
    assert quiet_result.rc == 0 and quiet_result.stderr == "", quiet_result
