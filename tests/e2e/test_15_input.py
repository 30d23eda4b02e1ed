"""hvdrun's stdin goes to ranks: pipes, files and terminals; and rank 0 on a terminal of its own (--pty)."""

import fcntl
import hashlib
import os
import random
import re
import signal
import struct
import subprocess
import termios
import threading

import pytest
from cluster import testing
from console import PATIENCE, PYTHON, Shell, Watched, last_line

FOUR = ["-np", "4", "-H", "n1:2,n2:2"]
ONE = ["-np", "1", "-H", "n1"]
# Reads so many bytes, says so, then the rest.
IN_TWO = """
import hashlib, sys
data = sys.stdin.buffer.read(int(sys.argv[1]))
print("first part", flush=True)
data += sys.stdin.buffer.read()
print(hashlib.sha256(data).hexdigest(), flush=True)
"""
# Reads nothing until it may end.
WAITS = "import os, sys, time\nprint('ready', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)"


def some_bytes(count):
    return random.Random(15).randbytes(count)


def digest(data):
    return hashlib.sha256(data).hexdigest()


def bash(hvdrun, cluster, script, **options):
    return Watched(hvdrun, cluster, argv=["bash", "-c", script], **options).end()


def test_a_pipe_goes_to_rank_0(hvdrun, no_leftovers):
    result = hvdrun([*FOUR, "sh", "-c", "cat; echo $MUSTER_RANK has read"], input=b"one\ntwo\n")
    assert result.rc == 0, result
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("[0]")] == [f"[0]<stdout>:{text}" for text in ("one", "two", "0 has read")]
    assert sorted(line for line in lines if not line.startswith("[0]")) == [f"[{r}]<stdout>:{r} has read" for r in (1, 2, 3)]


@pytest.mark.parametrize("link", ["dial", "ssh"])
def test_much_input_comes_whole(hvdrun, no_leftovers, link):
    data = some_bytes(20_000_000)
    result = hvdrun([*ONE, "--agent-link", link, "sh", "-c", "cat | sha256sum"], input=data)
    print(f"20 MB over {link} in {result.elapsed:.2f} s")
    assert result.rc == 0 and digest(data) in result.stdout, result


def test_a_rank_that_is_named(hvdrun, no_leftovers):
    result = hvdrun([*FOUR, "--stdin", "2", "sh", "-c", "cat; echo over"], input=b"for two\n")
    assert result.rc == 0 and re.findall(r"\[(\d)\]<stdout>:for two", result.stdout) == ["2"], result
    assert result.stdout.count("over") == 4


def test_all_ranks_get_a_copy(hvdrun, no_leftovers):
    data = some_bytes(1_000_000)
    result = hvdrun([*FOUR, "--stdin", "all", "sha256sum"], input=data)
    assert result.rc == 0, result
    assert sorted(re.findall(rf"\[(\d)\]<stdout>:{digest(data)}", result.stdout)) == ["0", "1", "2", "3"], result


def test_all_ranks_but_one_that_does_not_read(hvdrun, no_leftovers):
    """It is waited for until it ends; then the others get the rest."""
    data = some_bytes(1_000_000)
    script = 'if [ $MUSTER_RANK = 3 ]; then sleep 0.5; else exec sha256sum; fi'
    result = hvdrun([*FOUR, "--stdin", "all", "sh", "-c", script], input=data)
    assert result.rc == 0 and sorted(re.findall(rf"\[(\d)\]<stdout>:{digest(data)}", result.stdout)) == ["0", "1", "2"], result


@pytest.mark.parametrize("choice", ["none", "auto"])
def test_a_file_is_left_to_the_shell(hvdrun, cluster, choice):
    cluster.path("head", "/tmp/list").write_text("n1\nn2\nn3\n")
    script = f"while read h; do hvdrun -np 1 -H $h --stdin {choice} sh -c 'cat; hostname'; done < /tmp/list"
    result = bash(hvdrun, cluster, script)
    assert result.stdout.splitlines() == [f"[0]<stdout>:n{number}" for number in (1, 2, 3)], result


def test_a_loop_over_a_pipe_needs_stdin_none(hvdrun, cluster):
    loop = "printf 'n1\\nn2\\nn3\\n' | while read h; do hvdrun -np 1 -H $h {} sh -c 'cat; hostname'; done"
    result = bash(hvdrun, cluster, loop.format("--stdin none"))
    assert result.stdout.splitlines() == [f"[0]<stdout>:n{number}" for number in (1, 2, 3)], result
    result = bash(hvdrun, cluster, loop.format(""))
    assert result.stdout.splitlines() == [f"[0]<stdout>:{text}" for text in ("n2", "n3", "n1")], result


def test_a_file_that_is_wanted(hvdrun, cluster):
    cluster.path("head", "/tmp/wanted").write_text("in the file\n")
    result = bash(hvdrun, cluster, f"hvdrun {' '.join(ONE)} --stdin 0 cat < /tmp/wanted")
    assert result.stdout == "[0]<stdout>:in the file\n", result


@pytest.mark.parametrize("choice", ["auto", "0", "all"])
def test_stdin_that_is_closed(hvdrun, cluster, no_leftovers, choice):
    result = bash(hvdrun, cluster, f"hvdrun {' '.join(FOUR)} --stdin {choice} sh -c 'cat; echo read' <&-; echo code $?")
    assert result.stdout.count("<stdout>:read") == 4 and result.stdout.endswith("code 0\n"), result


def test_producer_that_never_ends(hvdrun, cluster, no_leftovers):
    result = bash(hvdrun, cluster, f"yes | hvdrun {' '.join(ONE)} head -1; echo codes ${{PIPESTATUS[*]}}")
    assert result.stdout == "[0]<stdout>:y\ncodes 141 0\n", result
    assert result.elapsed < PATIENCE / 4


def test_rank_that_never_reads(hvdrun, cluster, no_leftovers):
    """Only so much is taken from the producer, and the job ends as it would without input."""
    flag = "/tmp/never-reads"
    job = Watched(hvdrun, cluster, [*ONE, PYTHON, "-c", WAITS, flag], stdin=subprocess.PIPE)
    job.out.wait_for("ready")
    pipe = job.command.stdin
    os.set_blocking(pipe.fileno(), False)

    def more():
        try:
            return os.write(pipe.fileno(), bytes(4096))
        except BlockingIOError:
            return 0

    taken = 0
    while wrote := testing.eventually(more, 1.0):
        taken += wrote
    print(f"{taken} bytes were taken")
    assert 65536 <= taken <= 5 * 65536
    cluster.run("n1", "alice", ["touch", flag], check=True)
    assert job.end().rc == 0


def test_rank_that_closes_its_stdin(hvdrun, cluster, no_leftovers):
    script = f"yes | hvdrun {' '.join(ONE)} sh -c 'exec <&-; sleep 0.3; echo over'; echo codes ${{PIPESTATUS[*]}}"
    result = bash(hvdrun, cluster, script)
    assert result.stdout == "[0]<stdout>:over\ncodes 141 0\n", result


def test_what_no_rank_has_read_stays(hvdrun, cluster):
    """The job reads no further than its rank's window, and not before its rank runs."""
    result = bash(hvdrun, cluster, "printf 'for the next\\n' | { hvdrun -np 1 -H n1 /nosuch/program; cat; }")
    assert result.stdout == "for the next\n", result


@pytest.mark.parametrize("how,link", [("reset", "dial"), ("drop", "ssh")])
def test_link_is_cut_meanwhile(hvdrun, cluster, no_leftovers, how, link):
    data = some_bytes(4_000_000)
    job = Watched(hvdrun, cluster, [*ONE, "--agent-link", link, PYTHON, "-c", IN_TWO, "1000000"], stdin=subprocess.PIPE)

    def feed(part):
        job.command.stdin.write(part)
        job.command.stdin.flush()

    feed(data[:1_000_000])
    job.out.wait_for("first part")
    cluster.cut("n1", how)
    rest = threading.Thread(target=feed, args=(data[1_000_000:],))
    rest.start()
    job.err.wait_for("does not answer")
    cluster.heal("n1")
    rest.join(PATIENCE)
    assert not rest.is_alive()
    job.command.stdin.close()
    result = job.end()
    assert result.rc == 0 and digest(data) in result.stdout, result


def test_a_rank_that_does_not_exist(hvdrun):
    result = hvdrun([*FOUR, "--stdin", "4", "true"])
    assert result.rc == 2 and "--stdin 4: unknown rank; the job has 4 (0 to 3)" in result.stderr, result
    result = hvdrun([*FOUR, "--stdin", "all", "--pty", "true"])
    assert result.rc == 2 and "--pty" in result.stderr, result


def test_lines_typed_in_the_foreground(hvdrun, cluster, no_leftovers):
    """With Ctrl-Z, bg and fg in between; Ctrl-D ends the rank's input."""
    shell = Shell(hvdrun, cluster)
    shell.type(f"hvdrun {' '.join(ONE)} sh -c 'echo ready; cat; echo end'\n")
    shell.out.wait_for(r"<stdout>:ready")
    shell.type("one\n")
    shell.out.wait_for(r"<stdout>:one")
    shell.type("\x1a")
    shell.out.wait_for("Stopped")
    shell.type("bg\n")
    shell.out.wait_for(r"hvdrun .* &")
    shell.type("echo the shell has $((40 + 2))\n")
    shell.out.wait_for("the shell has 42")
    shell.type("fg\n")
    shell.type("two\n")
    shell.out.wait_for(r"<stdout>:two")
    shell.type("\x04")
    shell.out.wait_for(r"<stdout>:end")
    shell.type("echo code: $?\n")
    shell.out.wait_for("code: 0")
    result = shell.close()
    assert "<stdout>:echo" not in result.stdout, result


def modes(job):
    return termios.tcgetattr(job._terminal)


def is_raw(job):
    return not modes(job)[3] & (termios.ICANON | termios.ISIG)


def test_pty_python_prompt(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, ["--pty", *ONE, PYTHON, "-q"], terminal=True, env={"TERM": "vt100"})
    before = modes(job)
    job.out.wait_for(">>> ")
    job.type("import os; print(6 * 7, os.environ['TERM'])\r")
    job.out.wait_for(r"\n42 vt100\r\n")
    job.type("x = input('name: ')\r")
    job.out.wait_for(r"\nname: ")
    job.type("bob\x7f\r")
    job.type("x\r")
    job.out.wait_for(r"\n'bo'\r\n")
    job.type("while True: pass\r\r")
    job.out.wait_for(r"\.\.\. ")
    job.type("\x03")
    job.out.wait_for("KeyboardInterrupt")
    job.type("print(6 * 8)\r")  # the exit code of python would be 130 right after an interrupt
    job.out.wait_for(r"\n48\r\n")
    assert is_raw(job)
    job.type("\x04")
    assert testing.eventually(lambda: modes(job) == before, PATIENCE)
    result = job.end()
    assert result.rc == 0 and "<stdout>" not in result.stdout, result


def test_pty_debugger(hvdrun, cluster, no_leftovers):
    program = "value = 41\nbreakpoint()\nprint('value is', value)\n"
    for host in ("head", "n1"):
        cluster.path(host, "/tmp/debugged.py").write_text(program)
    job = Watched(hvdrun, cluster, ["--pty", *ONE, PYTHON, "/tmp/debugged.py"], terminal=True)
    job.out.wait_for(r"\(Pdb\) ")
    job.type("value += 1\r")
    job.out.wait_for(r"\(Pdb\) ", 2)
    job.type("continue\r")
    result = job.end()
    # The news of a rank's end may overtake its last output: the terminal is not raw any more then, and adds a \r.
    assert result.rc == 0 and re.search(r"value is 42\r+\n", result.stdout), result


def test_pty_size_follows(hvdrun, cluster, no_leftovers):
    script = "trap 'stty size' WINCH; stty size; while [ ! -e /tmp/size-end ]; do sleep 0.05; done"
    job = Watched(hvdrun, cluster, ["--pty", *ONE, "sh", "-c", script], terminal=True)
    job.out.wait_for("40 200\r\n")
    fcntl.ioctl(job._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 99, 0, 0))
    job.out.wait_for("31 99\r\n")
    cluster.run("n1", "alice", ["touch", "/tmp/size-end"], check=True)
    assert job.end().rc == 0


def test_pty_keys_are_bytes(hvdrun, cluster, no_leftovers):
    script = "stty raw -echo; echo ready; head -c 7 | od -An -tx1"
    job = Watched(hvdrun, cluster, ["--pty", *ONE, "sh", "-c", script], terminal=True)
    job.out.wait_for("ready")
    os.write(job._terminal, b"\x03\x1a\x1c\x00\x04\xff\r")
    job.out.wait_for("03 1a 1c 00 04 ff 0d")
    result = job.end()
    assert result.rc == 0, result
    assert "ready\n" in result.stdout and "ready\r\n" not in result.stdout, "the rank's bytes are not altered"


def test_pty_other_ranks_are_labelled(hvdrun, cluster, no_leftovers):
    script = "if [ $MUSTER_RANK = 0 ]; then printf 'prompt> '; read x; else tty -s || echo no terminal; fi"
    job = Watched(hvdrun, cluster, ["--pty", "-np", "3", "-H", "n1:1,n2:2", "sh", "-c", script], terminal=True)
    job.out.wait_for("prompt> ")
    job.out.wait_for(r"\[1\]<stdout>:no terminal\r\n")
    job.out.wait_for(r"\[2\]<stdout>:no terminal\r\n")
    job.type("\r")
    result = job.end()
    assert result.rc == 0 and "]<stdout>:prompt" not in result.stdout, result


@pytest.mark.parametrize("command,code", [("kill -9 $$", 137), ("exit 3", 3)])
def test_pty_terminal_is_restored_after_the_rank(hvdrun, cluster, no_leftovers, command, code):
    job = Watched(hvdrun, cluster, ["--pty", *ONE, "sh", "-c", f"echo ready; read x; {command}"], terminal=True)
    before = modes(job)
    job.out.wait_for("ready")
    assert testing.eventually(lambda: is_raw(job), PATIENCE)
    job.type("\r")
    assert testing.eventually(lambda: modes(job) == before, PATIENCE)
    assert job.end().rc == code


@pytest.mark.parametrize("number,code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["term", "int"])
def test_pty_terminal_is_restored_after_a_signal(hvdrun, cluster, no_leftovers, number, code):
    job = Watched(hvdrun, cluster, ["--pty", *ONE, "sh", "-c", "echo ready; exec sleep 1000"], terminal=True)
    before = modes(job)
    job.out.wait_for("ready")
    assert testing.eventually(lambda: is_raw(job), PATIENCE)
    job.signal(number)
    assert job.command.wait(PATIENCE) == code
    assert modes(job) == before
    assert "stopped by" in last_line(job.end())


def test_pty_suspended_from_outside(hvdrun, cluster, no_leftovers):
    """kill -TSTP gives the terminal back, fg makes it raw again."""
    shell = Shell(hvdrun, cluster)
    shell.type(f"hvdrun --pty {' '.join(ONE)} {PYTHON} -q\n")
    shell.out.wait_for(">>> ")
    assert testing.eventually(lambda: is_raw(shell.job), PATIENCE)
    (launcher,) = [p for p in cluster.processes("head") if p.argv and p.argv[0].endswith("hvdrun")]
    os.kill(launcher.pid, signal.SIGTSTP)
    shell.out.wait_for("Stopped")
    shell.type("echo back $((40 + 2))\n")
    shell.out.wait_for("back 42")
    shell.type("fg\n")
    assert testing.eventually(lambda: is_raw(shell.job), PATIENCE)
    shell.type("print(6 * 9)\r")
    shell.out.wait_for(r"\n54\r\n")
    shell.type("exit()\r")
    shell.out.wait_for("ended with exit code 0")
    shell.type("echo code: $?\n")
    shell.out.wait_for("code: 0")
    shell.close()


def test_pty_without_a_terminal(hvdrun, no_leftovers):
    result = hvdrun(["--pty", *ONE, "sh", "-c", "tty -s && stty size && cat && echo end"], input=b"typed\n")
    assert result.rc == 0, result
    assert "24 80\r\n" in result.stdout and "typed\r\n" in result.stdout and result.stdout.endswith("end\r\n"), result
    assert "<stdout>" not in result.stdout


def test_pty_with_no_input(hvdrun, no_leftovers):
    """/dev/null has ended: so has the terminal's input."""
    result = hvdrun(["--pty", *ONE, "sh", "-c", "tty -s && cat && echo end"])
    assert result.rc == 0 and result.stdout.endswith("end\r\n"), result


def test_pty_of_a_program_that_reads_keys(hvdrun, no_leftovers):
    """What a pipe says is typed; python's line editor sees the end of it too."""
    result = hvdrun(["--pty", *ONE, PYTHON, "-q"], input=b"print(6 * 7)\n")
    assert result.rc == 0 and "\n42\r\n" in result.stdout, result


def test_input_goes_on_after_a_restart(hvdrun, cluster, no_leftovers):
    script = "read x; echo got $x; [ $MUSTER_ATTEMPT = 1 ]"
    job = Watched(hvdrun, cluster, argv=["muster", "torchrun", "--max-restarts", "2", "-H", "n1", "--nproc_per_node", "1",
                                         "--no-python", "sh", "-c", script], stdin=subprocess.PIPE)
    job.command.stdin.write(b"first\n")
    job.command.stdin.flush()
    job.out.wait_for(r"\[0\]<stdout>:got first")
    job.err.wait_for("restart 1 of 2")
    job.command.stdin.write(b"second\n")
    job.command.stdin.flush()
    result = job.end()
    assert result.rc == 0 and "[0]<stdout>:got second" in result.stdout, result


def test_pty_file_has_the_bytes(hvdrun, cluster, no_leftovers):
    result = hvdrun(["--pty", *ONE, "--output-filename", "/tmp/pty-out", "printf", "a\\tb\\n"])
    assert result.rc == 0 and result.stdout_bytes == b"a\tb\r\n", result
    assert cluster.path("head", "/tmp/pty-out/rank.0/stdout").read_bytes() == b"a\tb\r\n"
