"""What goes wrong with programs, folders and arguments: one sentence that names the host, the right code, nothing left."""

import os
import re
import subprocess
import time
import uuid

import pytest
from cluster import testing
from cluster.testing import eventually
from conftest import BIN_DIR, EATS, REPOSITORY
from console import PYTHON, Watched

HOLD_STDOUT = str(BIN_DIR.parent / "tests/programs/hold_stdout")
SHAPE = ["--start-timeout", "120", "-np", "4", "-H", "n1:2,n2:2"]
DRAIN = 0.2  # what a rank has written is read for at most this long after its end


def sentences(result):
    """hvdrun's own lines; a rank's last words, indented in the report, are not."""
    return [line.removeprefix("hvdrun: ") for line in result.stderr.splitlines() if line.startswith("hvdrun: ")]


def one_sentence(result, *words):
    """The single line of hvdrun that has all these words."""
    found = [line for line in sentences(result) if all(word in line for word in words)]
    assert len(found) == 1, result
    return found[0]


def test_detached_child_that_holds_stdout(hvdrun, cluster, no_leftovers, strays):
    token = uuid.uuid4().hex
    job = Watched(hvdrun, cluster, [*SHAPE, HOLD_STDOUT, token])
    job.out.wait_for("ready", count=4, timeout=150)
    began = time.monotonic()
    result = job.end(timeout=60)
    seconds = time.monotonic() - began
    print(f"ended {seconds:.2f} s after the ranks")
    assert result.rc == 0, result
    assert result.stdout.count("ready") == 4, result
    assert seconds < 5.0 + DRAIN + 2.0 and not strays(token), result  # SIGTERM, grace, SIGKILL of the children


# (program, exit code, words of the sentence)
PROGRAMS = [
    ("/nosuch/program", 127, "No such file"),
    ("nosuch-program", 127, "not found"),
    ("./nosuch-program", 127, "No such file"),
    ("/etc/passwd", 126, "not executable"),
    ("/tmp", 126, "is a directory"),
]


@pytest.mark.parametrize("program,code,words", PROGRAMS, ids=lambda value: None)
def test_program_that_cannot_be_run(hvdrun, no_leftovers, program, code, words):
    result = hvdrun([*SHAPE, program], timeout=150)
    assert result.rc == code, result
    assert result.stdout == ""
    said = [line for line in sentences(result) if program in line]
    assert said and any(re.search(r"\bn[12]\b", line) for line in said), result
    assert words.lower() in result.stderr.lower(), result


def test_program_missing_on_one_host(hvdrun, cluster, no_leftovers):
    for host in ("head", "n1"):
        cluster.run(host, "alice", ["sh", "-c", "printf '#!/bin/sh\nexit 0\n' > /tmp/here; chmod 755 /tmp/here"],
                    check=True)
    result = hvdrun([*SHAPE, "/tmp/here"])
    assert result.rc == 127, result
    assert any("n2" in line and "/tmp/here" in line for line in sentences(result)), result


def names_folder(result, host, folder, why):
    """The first line names rank, host and folder; which of two hosts was first is not known beforehand."""
    assert result.rc == 125 and result.stdout == "", result
    assert re.fullmatch(rf"rank \d on {host}: did not start: .*{folder}.*", sentences(result)[0]), result
    assert why in sentences(result)[0] and len(sentences(result)) == 3, result  # the cause, the others, the last line


def test_missing_directory(hvdrun, no_leftovers):
    names_folder(hvdrun([*SHAPE, "--wdir", "/nosuch/folder", "true"]), "n[12]", "/nosuch/folder", "does not exist")


def test_directory_missing_on_one_host(hvdrun, cluster, no_leftovers):
    for host in ("head", "n1"):
        cluster.run(host, "alice", ["mkdir", "-p", "/tmp/only-here"], check=True)
    names_folder(hvdrun([*SHAPE, "sleep", "60"], cwd="/tmp/only-here"), "n2", "/tmp/only-here", "does not exist")


def test_directory_without_permission(hvdrun, cluster, no_leftovers):
    for host in ("n1", "n2"):
        cluster.run(host, "root", ["install", "-d", "-m", "700", "/tmp/closed"], check=True)
    names_folder(hvdrun([*SHAPE, "--wdir", "/tmp/closed", "true"]), "n[12]", "/tmp/closed", "this user may not enter")


@pytest.fixture
def dead(cluster):
    """/tmp/dead on n1, on which no name is ever found, nor said not to be there; a plain folder with "x" on head and n2."""
    for host in ("head", "n2"):
        cluster.run(host, "alice", ["mkdir", "-p", "/tmp/dead/x"], check=True)
    cluster.run("n1", "alice", ["mkdir", "-p", "/tmp/dead"], check=True)
    program = [PYTHON, "-IS", str(REPOSITORY / "tests/programs/dead_fs.py"), "/tmp/dead"]
    served = cluster.start("n1", "root", program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = served.stdout.readline()
    assert said == b"ready\n", said + served.stdout.read()
    yield "/tmp/dead"
    served.stdin.close()
    served.wait(20)
    served.stdout.close()


def test_file_system_that_does_not_answer(hvdrun, no_leftovers, dead):
    """The host and the rank are named, and the limit of the start holds for the launch, too."""
    job = ["--start-timeout", "12", "-np", "2", "-H", "n2:1,n1:1", "--wdir", f"{dead}/x", "sleep", "1000"]
    result = hvdrun(job, timeout=90)
    assert result.rc == 125, result
    assert "rank 1 has not started for 5 s ('sleep' in /tmp/dead/x)" in one_sentence(result, "n1: rank 1"), result
    assert "0 of 1 ranks started" in one_sentence(result, "n1: 0 of 1"), result


def test_timeout_of_ranks_that_do_not_start(hvdrun, no_leftovers, dead):
    job = ["--timeout", "3", "-np", "2", "-H", "n2:1,n1:1", "--wdir", f"{dead}/x", "sleep", "1000"]
    result = hvdrun(job, timeout=90)
    assert result.rc == 124, result


@pytest.mark.parametrize("number", range(3))
def test_dial_on_a_lossy_network(hvdrun, cluster, no_leftovers, number):
    """One packet in five is lost, each way: SYNs, too."""
    before = testing.Leftovers(cluster)
    cluster.drop("n1", 0.2)
    result = hvdrun(["--agent-link", "dial", "--start-timeout", "60", "-np", "1", "-H", "n1:1", "echo", "hello"], timeout=120)
    assert result.rc == 0 and "hello" in result.stdout, result
    cluster.heal("n1")
    # sshd learns of the end of its connection when the kernel sends a lost packet again: that can take many seconds.
    assert eventually(lambda: not before.processes(), 60)


def test_out_of_memory_under_a_limit_that_the_host_does_not_see(hvdrun, cluster, no_leftovers, small_memory):
    """Pid namespace and cgroups are the host's own, so neither the kernel's log nor a cgroup names the rank."""
    token, flag = uuid.uuid4().hex, f"/tmp/eat-{uuid.uuid4().hex}"
    job = Watched(hvdrun, cluster, ["-np", "1", "-H", "n1:1", PYTHON, "-c", EATS, flag, token])
    job.out.wait_for("pid", timeout=60)
    rank = next(process for process in cluster.processes("n1") if token in process.argv)
    small_memory.joinpath("cgroup.procs").write_text(str(rank.pid))
    cluster.run("n1", "alice", ["touch", flag], check=True)
    result = job.end(60)
    assert result.rc == 137, result
    assert "Memory ran out on this machine, and the kernel killed processes" in one_sentence(result, "n1: rank 0"), result


@pytest.fixture
def tiny(cluster):
    """A file system of 64 KiB on head."""
    cluster.run("head", "root", ["sh", "-c", "mkdir /tmp/tiny && mount -t tmpfs -o size=64k,mode=1777 tiny /tmp/tiny"],
                check=True)
    yield "/tmp/tiny"
    cluster.run("head", "root", ["sh", "-c", "umount /tmp/tiny && rmdir /tmp/tiny"], check=True)


def test_full_disk(hvdrun, no_leftovers, tiny):
    result = hvdrun([*SHAPE, "--output-filename", f"{tiny}/logs", PYTHON, "-c",
                     "import sys\nwhile True: sys.stdout.write('x' * 99 + '\\n')"], stdout=subprocess.DEVNULL)
    assert result.rc == 125, result
    said = one_sentence(result, "--output-filename", f"{tiny}/logs/rank.")
    assert " on head: No space left on device" in said, result


@pytest.mark.parametrize("folder", ["/etc/logs", "/root/logs", "/etc/passwd/logs"])
def test_output_folder_that_cannot_be_made(hvdrun, no_leftovers, folder):
    result = hvdrun([*SHAPE, "--output-filename", folder, "touch", "/tmp/has-run"])
    assert result.rc == 2, result
    assert " on head: " in result.stderr
    assert len(sentences(result)) == 1 and folder.rsplit("/", 1)[0] in one_sentence(result, "--output-filename"), result


def test_nothing_ran_without_output_folder(hvdrun, cluster, no_leftovers):
    hvdrun([*SHAPE, "--output-filename", "/etc/logs", "touch", "/tmp/has-run-too"])
    assert not any(cluster.path(host, "/tmp/has-run-too").exists() for host in cluster.nodes)


# (arguments, words of the one sentence)
MISTAKES = [
    (["-np", "5", "-H", "n1:2,n2:2"], ["slots", "--oversubscribe"]),
    (["-np", "2", "-H", "n1:x"], ["-H", "slots", "'x'"]),
    (["-np", "2", "-H", "n1:0"], ["-H", "slots", "'0'"]),
    (["-np", "2", "-H", "-oProxyCommand=id:2"], ["-oProxyCommand"]),
    (["-np", "2", "-H", "n1;id"], ["n1;id"]),
    (["-np", "2", "-H", "n1,,n2"], ["-H", "a host name is missing"]),
    (["-np", "0"], ["-np"]),
    (["-np", "two"], ["two"]),
    (["-np", "2", "--hostfile", "/nosuch/hosts"], ["/nosuch/hosts", "No such file"]),
    (["-np", "2", "--hostfil", "x"], ["--hostfil", "--hostfile"]),
    (["-np", "2", "--verbos"], ["--verbos", "--verbose"]),
    (["-np", "2", "--kill-grace", "soon"], ["soon"]),
]


@pytest.mark.parametrize("args,words", MISTAKES, ids=lambda value: None)
def test_mistakes_in_arguments(hvdrun, no_leftovers, args, words):
    result = hvdrun([*args, "true"])
    assert result.rc == 2, result
    assert result.stdout == "" and all(word in result.stderr for word in words), result


def test_program_is_not_given(hvdrun):
    result = hvdrun(["-np", "2"])
    assert result.rc == 2 and result.stderr.startswith("hvdrun: "), result


@pytest.mark.parametrize("line,column", [("n2 slots=many", 4), ("n2 slot=2", 4), ("n;2", 1), ("n2 slots=2 junk", 12)])
def test_bad_line_of_a_hostfile(hvdrun, cluster, line, column):
    path = cluster.path("head", "/tmp/bad-hosts")
    path.write_text(f"# the lab\nn1 slots=2\n{line}\n")
    result = hvdrun(["-np", "2", "--hostfile", "/tmp/bad-hosts", "true"])
    path.unlink()
    assert result.rc == 2, result
    match = re.search(r"/tmp/bad-hosts:3:(\d+): ", result.stderr)
    assert match and int(match[1]) >= column and len(sentences(result)) == 1, result


@pytest.mark.parametrize("limit", [1, 4, 9, 16])
def test_no_more_threads_for_the_user(cluster, no_leftovers, limit):
    """alice may have `limit` more processes and threads than she has: fewer than a launcher needs."""
    own = sum(len(os.listdir(f"/proc/{process.pid}/task")) for each in cluster.all_processes().values()
              for process in each if process.uid == cluster.uid("alice"))
    result = cluster.run("head", "alice", ["prlimit", f"--nproc={own + limit}", str(BIN_DIR / "hvdrun"), *SHAPE, "true"],
                         timeout=150)
    assert result.returncode == 125, result
    assert "raise the limit of processes (ulimit -u, pids.max) or end some" in result.stderr, result
