"""Signals, job control and shells: how a foreground launcher behaves among other programs."""

import re
import signal
import time

import pytest
from cluster import testing
from console import PATIENCE, PYTHON, Shell, Watched, last_line

HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]
LEASE = 15.0
# Says which signals reach it. Ends in order after SIGTERM; the others it only reports.
REPORT = """
import os, signal, sys
signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
os.write(1, b"ready\\n")
while True:
    number = signal.Signals(signal.sigwait(signals))
    os.write(1, f"got {number.name}\\n".encode())
    if number == signal.SIGTERM and "stubborn" not in sys.argv:
        os._exit(0)
"""
WAITS = """
import os, sys, time
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
print("went on", flush=True)
"""
RANKS = [PYTHON, "-c", REPORT]
STUBBORN = [*RANKS, "stubborn"]


def got(result, name):
    """The ranks that have got this signal."""
    return sorted(int(rank) for rank in re.findall(rf"\[(\d+)\]<stdout>:got {name}\b", result.stdout))


def ready(hvdrun, cluster, args, count=4, **options):
    job = Watched(hvdrun, cluster, args, **options)
    job.out.wait_for(r"\[\d+\]<stdout>:ready", count)
    return job


def ranks_of(cluster, marker, hosts=("n1", "n2")):
    return [process for _, process in testing.strays(cluster, marker, list(hosts)) if process.argv[0] == PYTHON]


ENDINGS = [(signal.SIGINT, 130, "stopped by Ctrl-C (SIGINT)"), (signal.SIGTERM, 143, "stopped by SIGTERM"),
           (signal.SIGHUP, 129, "stopped by a hangup (SIGHUP)")]


@pytest.mark.parametrize("number,code,words", ENDINGS, ids=lambda value: getattr(value, "name", ""))
def test_stops_in_order(hvdrun, cluster, no_leftovers, number, code, words):
    job = ready(hvdrun, cluster, [*HOSTS, *RANKS])
    begin = time.monotonic()
    job.signal(number)
    result = job.end()
    assert result.rc == code, result
    assert time.monotonic() - begin < PATIENCE / 4
    assert got(result, "SIGTERM") == [0, 1, 2, 3], result
    assert not got(result, "SIGINT") and not got(result, "SIGHUP"), result
    assert last_line(result).endswith(words), result


@pytest.mark.parametrize("link", ["ssh", "dial"])
def test_grace_then_kill(hvdrun, cluster, no_leftovers, link):
    job = ready(hvdrun, cluster, [*HOSTS, "--agent-link", link, "--kill-grace", "2", *STUBBORN])
    begin = time.monotonic()
    job.signal(signal.SIGINT)
    result = job.end()
    assert result.rc == 130, result
    assert 2.0 <= time.monotonic() - begin < 2.0 + PATIENCE / 4
    assert got(result, "SIGTERM") == [0, 1, 2, 3], result


def test_twice_is_at_once(hvdrun, cluster, no_leftovers):
    job = ready(hvdrun, cluster, [*HOSTS, "--kill-grace", "60", *STUBBORN])
    job.signal(signal.SIGINT)
    job.out.wait_for("got SIGTERM", 4)
    begin = time.monotonic()
    job.signal(signal.SIGINT)
    result = job.end()
    assert result.rc == 130, result
    assert time.monotonic() - begin < PATIENCE / 4, result


def test_interrupt_while_hosts_come_up(hvdrun, cluster, no_leftovers):
    cluster.cut("n2", "drop")
    job = Watched(hvdrun, cluster, ["-np", "2", "-H", "n1,n2", "--verbose", "--start-timeout", "60", *RANKS])
    job.err.wait_for("n1: up")
    begin = time.monotonic()
    job.signal(signal.SIGINT)
    result = job.end()
    assert result.rc == 130, result
    assert time.monotonic() - begin < PATIENCE / 4, result


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2], ids=lambda number: number.name)
def test_user_signals_reach_every_rank(hvdrun, cluster, number):
    job = ready(hvdrun, cluster, [*HOSTS, *RANKS])
    job.signal(number)
    job.out.wait_for(f"got {number.name}", 4)
    assert not job.ended()
    job.signal(signal.SIGTERM)
    assert got(job.end(), number.name) == [0, 1, 2, 3]


def test_nohup(hvdrun, cluster, no_leftovers):
    """What was ignored at the start stays ignored; the ranks do not inherit that."""
    program = "import signal, sys; print('hup', signal.getsignal(signal.SIGHUP).name)\n" + REPORT
    job = ready(hvdrun, cluster, argv=["nohup", "hvdrun", *HOSTS, PYTHON, "-c", program], args=[])
    assert job.out.text.count("hup SIG_DFL") == 4
    job.signal(signal.SIGHUP)
    job.signal(signal.SIGUSR1)  # comes after it
    job.out.wait_for("got SIGUSR1", 4)
    assert not job.ended()
    job.signal(signal.SIGTERM)
    result = job.end()
    assert result.rc == 143 and not got(result, "SIGHUP"), result


@pytest.mark.parametrize("backend", ["ssh", "libssh"])
def test_interrupt_key(hvdrun, cluster, no_leftovers, backend):
    """Ctrl-C goes to the whole foreground process group; the ranks, remote and local, get the launcher's order only."""
    args = ["-np", "3", "-H", "localhost:1,n1:1,n2:1", "--ssh-backend", backend, "--agent-link", "ssh", *RANKS]
    job = ready(hvdrun, cluster, args, count=3, terminal=True)
    job.type("\x03")
    result = job.end()
    assert result.rc == 130, result
    assert got(result, "SIGTERM") == [0, 1, 2] and not got(result, "SIGINT"), result
    assert last_line(result).endswith("stopped by Ctrl-C (SIGINT)"), result


def test_window_is_closed(hvdrun, cluster, no_leftovers):
    job = ready(hvdrun, cluster, ["-np", "2", "-H", "localhost:1,n1:1", *RANKS], count=2, terminal=True)
    job.hang_up()
    assert job.command.wait(PATIENCE) == 129


def states(cluster, marker):
    return [process.state for process in ranks_of(cluster, marker)]


@pytest.mark.parametrize("link", ["dial", "ssh"])
def test_suspend_key_holds_the_job(hvdrun, cluster, no_leftovers, link):
    """Longer than the lease; then fg, and the job ends as if nothing had been."""
    marker, flag = f"suspended-{link}", f"/tmp/go-on-{link}"
    cluster.path("head", "/tmp/waits.py").write_text(WAITS)
    shell = Shell(hvdrun, cluster)
    shell.type(f"hvdrun {' '.join(HOSTS)} --agent-link {link} {PYTHON} -c \"$(cat /tmp/waits.py)\" {flag} {marker}\n")
    shell.out.wait_for(r"<stdout>:ready", 4)
    shell.type("\x1a")
    shell.out.wait_for("Stopped")
    assert testing.eventually(lambda: states(cluster, marker) == ["T"] * 4, PATIENCE)
    for host in ("n1", "n2"):
        cluster.run(host, "alice", ["touch", flag], check=True)
    changed = testing.eventually(lambda: states(cluster, marker) != ["T"] * 4, LEASE + 3 if link == "dial" else 3)
    assert not changed, states(cluster, marker)
    assert "<stdout>:went on" not in shell.out.text
    shell.type("fg\n")
    shell.out.wait_for(r"<stdout>:went on", 4)
    shell.out.wait_for("ended with exit code 0")  # until then keys are rank 0's
    shell.type("echo code: $?, jobs: $(jobs | wc -l)\n")
    shell.out.wait_for(r"code: 0, jobs: 0")
    result = shell.close()
    assert "does not answer" not in result.stdout and "lost" not in result.stdout, result


def test_link_that_is_cut_while_the_job_is_suspended(hvdrun, cluster, no_leftovers):
    """The host ends its ranks when it has not heard of the launcher's machine for the length of the lease."""
    job = ready(hvdrun, cluster, [*HOSTS, "--agent-link", "dial", "-x", "MARK=cut-suspended", *RANKS])
    job.signal(signal.SIGTSTP)
    assert testing.eventually(lambda: states(cluster, "cut-suspended") == ["T"] * 4, PATIENCE)
    cluster.cut("n2", "drop")
    assert testing.eventually(lambda: states(cluster, "cut-suspended") == ["T"] * 2, LEASE + PATIENCE), "n2's are left"
    cluster.heal("n2")
    job.signal(signal.SIGCONT)
    result = job.end()
    assert result.rc == 125 and "n2" in last_line(result) + result.stderr, result


def test_suspend_and_continue_by_signal(hvdrun, cluster, no_leftovers):
    job = ready(hvdrun, cluster, [*HOSTS, "-x", "MARK=by-signal", *RANKS])
    for _ in range(3):
        job.signal(signal.SIGTSTP)
        assert testing.eventually(lambda: states(cluster, "by-signal") == ["T"] * 4, PATIENCE)
        job.signal(signal.SIGCONT)
        assert testing.eventually(lambda: states(cluster, "by-signal") == ["S"] * 4, PATIENCE)
    job.signal(signal.SIGTERM)
    result = job.end()
    assert result.rc == 143 and got(result, "SIGTERM") == [0, 1, 2, 3], result


def test_stopped_job_is_ended_by_a_kill(hvdrun, cluster, no_leftovers):
    """kill -9 of a stopped hvdrun ends its stopped ranks."""
    job = ready(hvdrun, cluster, [*HOSTS, "-x", "MARK=stopped-killed", *RANKS])
    job.signal(signal.SIGTSTP)
    assert testing.eventually(lambda: states(cluster, "stopped-killed") == ["T"] * 4, PATIENCE)
    job.signal(signal.SIGKILL)
    assert testing.eventually(lambda: not states(cluster, "stopped-killed"), PATIENCE)


def test_reader_that_leaves(hvdrun, cluster, no_leftovers):
    script = f"hvdrun {' '.join(HOSTS)} yes | head -1; echo code ${{PIPESTATUS[0]}}"
    result = Watched(hvdrun, cluster, argv=["bash", "-c", script]).end()
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"\[\d\]<stdout>:y", lines[0]) and lines[1:] == ["code 141"], result
    assert last_line(result).endswith("stopped because nobody reads its output any more"), result


def test_while_read_loop(hvdrun, cluster):
    cluster.path("head", "/tmp/list").write_text("n1\nn2\nn3\n")
    script = "while read h; do hvdrun -np 1 -H $h hostname; done < /tmp/list"
    result = Watched(hvdrun, cluster, argv=["bash", "-c", script]).end()
    cluster.path("head", "/tmp/list").unlink()
    assert result.stdout.splitlines() == [f"[0]<stdout>:n{number}" for number in (1, 2, 3)], result


@pytest.mark.parametrize("hosts", ["n1", "localhost"])
@pytest.mark.parametrize("tostop", ["-tostop", "tostop"])
def test_background_job_is_never_stopped(hvdrun, cluster, no_leftovers, hosts, tostop):
    shell = Shell(hvdrun, cluster)
    shell.type(f"stty {tostop}; hvdrun -np 2 -H {hosts}:2 sh -c 'cat; echo read; sleep 0.2; echo done >&2' &\n")
    shell.out.wait_for(r"<stdout>:read", 2)
    shell.out.wait_for(r"<stderr>:done", 2)
    shell.type("wait; echo code $?; echo\n")
    shell.out.wait_for(r"code 0")
    result = shell.close()
    assert "Stopped" not in result.stdout, result


def test_a_word_typed_ahead_stays(hvdrun, cluster):
    """With --stdin none, what is typed while a job runs in the foreground belongs to the shell that comes back."""
    shell = Shell(hvdrun, cluster)
    shell.type("hvdrun -np 1 -H n1 --stdin none sh -c 'echo ready; sleep 0.5'\n")
    shell.out.wait_for(r"<stdout>:ready")
    shell.type("echo typed ahead $((40 + 2))\n")
    shell.out.wait_for(r"typed ahead 42")
    shell.close()
