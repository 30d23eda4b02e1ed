"""What the report of a failed job says beside the end of the rank: memory, cores, missing modules, and what to do."""

import json
import os
import pathlib
import re
import uuid

import pytest
from conftest import EATS
from console import PYTHON, Watched, notices
from launcherd_user import Launcherd

ONE = ["-np", "1", "-H", "n1:1"]
FOUR = ["-np", "4", "-H", "n1:2,n2:2"]
def after_root(result):
    """hvdrun's lines after the one that names the root cause."""
    lines = notices(result)
    roots = [i for i, line in enumerate(lines) if re.match(r"rank \d+ on \S+( \(pid .*\))?: ", line)]
    assert roots, result
    return lines[roots[0] + 1:]


def test_killed_from_outside(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, [*ONE, PYTHON, "-c",
                                    "import os, time; x = b'1' * (200 << 20); print('pid', os.getpid(), flush=True); time.sleep(1000)"])
    job.out.wait_for(r"pid \d+")
    pid = re.search(r"pid (\d+)", job.out.text)[1]
    cluster.run("n1", "alice", ["kill", "-9", pid], check=True)
    result = job.end()
    assert result.rc == 137, result
    said = re.fullmatch(r"Muster did not send this signal; it had used up to (\d+) MiB of memory; "
                        r"n1 had \d.* free just after", after_root(result)[0])
    assert said and 200 <= int(said[1]) < 300, result
    assert after_root(result)[1] == "often the kernel was out of memory: run dmesg on n1", result


def test_out_of_memory_as_the_kernels_log_has_it(hvdrun, cluster, no_leftovers, small_memory):
    """root's agent reads the log. Its pids are not those of the host, so name, time and memory must fit."""
    token, flag = uuid.uuid4().hex, f"/tmp/eat-{uuid.uuid4().hex}"
    job = Watched(hvdrun, cluster, [*ONE, PYTHON, "-c", EATS, flag, token], user="root")
    job.out.wait_for("pid", timeout=60)
    rank = next(process for process in cluster.processes("n1") if token in process.argv)
    small_memory.joinpath("cgroup.procs").write_text(str(rank.pid))
    cluster.run("n1", "root", ["touch", flag], check=True)
    result = job.end(60)
    assert result.rc == 137, result
    assert "out of memory: killed by the kernel, signal 9 (Killed)" in result.stderr, result
    lines = after_root(result)
    assert re.match(r"it had used up to \d+ MiB of memory; n1 had ", lines[0]), result
    assert re.match(rf"the kernel of n1: Memory cgroup out of memory: Killed process {rank.pid} \(", lines[1]), result
    assert "fewer ranks on n1" in lines[2], result


@pytest.fixture
def crashing_program(cluster):
    """/home/alice/crash/crash of n1: a C program that reads address 0. The folder gets its core."""
    cluster.path("n1", "/tmp/crash.c").write_text("int main(void) { return *(volatile int*)0; }\n")
    cluster.run("n1", "alice", ["sh", "-c", "mkdir ~/crash && gcc -g -o ~/crash/crash /tmp/crash.c"], check=True)
    yield "/home/alice/crash"
    cluster.run("n1", "alice", ["rm", "-r", "/home/alice/crash"], check=True)


def core_name():
    """What the kernel of this machine calls cores. None if it gives them to a program."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    return None if pattern.startswith(("|", "@", "/")) or not pattern else pattern


def test_crash_of_a_c_program(hvdrun, cluster, no_leftovers, crashing_program):
    if core_name() is None:
        pytest.skip("the kernel of this machine does not write cores to the working directory")
    program = f"{crashing_program}/crash"
    result = hvdrun([*ONE, "--wdir", crashing_program, "--ulimit", "core=unlimited", program])
    assert result.rc == 139, result
    said = re.fullmatch(rf"its core is ({crashing_program}/\S+) on n1: gdb {program} \1", after_root(result)[0])
    assert said and cluster.path("n1", said[1]).exists(), result
    result = hvdrun([*ONE, "--wdir", crashing_program, "--ulimit", "core=0", program])
    assert after_root(result)[0] == ("no core was written, because the limit of its size is 0: "
                                     "hvdrun --ulimit core=unlimited"), result


def test_crash_of_python(hvdrun, cluster, no_leftovers, crashing_program):
    crash = [PYTHON, "-c", "import ctypes; ctypes.string_at(0)"]
    result = hvdrun([*ONE, "--ulimit", "core=0", *crash])
    assert result.rc == 139, result
    hint = "-x PYTHONFAULTHANDLER=1 makes Python print the line at which it crashes"
    assert hint in after_root(result), result
    result = hvdrun([*ONE, "--ulimit", "core=0", "-x", "PYTHONFAULTHANDLER=1", *crash])
    assert hint not in result.stderr and "Fatal Python error: Segmentation fault" in result.stderr, result


def test_missing_module_on_one_host(hvdrun, cluster, no_leftovers):
    name = f"only_on_n1_{uuid.uuid4().hex}"
    cluster.path("n1", f"/tmp/{name}.py").write_text("")
    result = hvdrun(["-np", "2", "-H", "n1,n2", "-x", "PYTHONPATH=/tmp", PYTHON, "-c",
                     f"import {name}, time; time.sleep(1000)"])
    cluster.path("n1", f"/tmp/{name}.py").unlink()
    assert result.rc == 1, result
    lines = after_root(result)
    assert lines[0] == f"ModuleNotFoundError: No module named '{name}' (its traceback is above)", result
    assert lines[1] == f"on n2, {os.path.basename(PYTHON)} is {PYTHON}, which has no module '{name}'", result
    assert f"install it there ({PYTHON} -m pip install {name})" in lines[2], result


def test_missing_module_everywhere(hvdrun, no_leftovers):
    """All ranks fail alike. The traceback is there once for each rank, and not again in the report."""
    result = hvdrun([*FOUR, "--kill-grace", "10s", "sh", "-c",
                     "trap '' TERM; exec python3 -c 'import no_such_module_1'"])
    assert result.rc == 1, result
    assert result.stderr.count("Traceback (most recent call last)") == 4, result
    lines = after_root(result)
    assert "on n1 and n2, " in lines[1] and "has no module 'no_such_module_1'" in lines[1], result
    assert "ranks 0-3 failed alike" in lines, result
    assert not any(line.startswith("then ") for line in lines), result


RAISES = "import os\ndef f():\n  raise ValueError('rank ' + os.environ['RANK'])\nf()"


@pytest.mark.parametrize("terminal", [True, False])
def test_traceback_is_there_once(hvdrun, cluster, no_leftovers, terminal):
    job = Watched(hvdrun, cluster, [*ONE, PYTHON, "-c", RAISES], terminal=terminal)
    result = job.end()
    assert result.rc == 1, result
    assert result.stderr.count("Traceback (most recent call last)") == 1, result
    assert "hvdrun: ValueError: rank 0 (its traceback is above)" in result.stderr, result


def test_traceback_that_was_not_shown_is_in_the_report(hvdrun, cluster, no_leftovers):
    """Also in the events."""
    result = hvdrun([*ONE, "--quiet", "--json-events", "/tmp/events", PYTHON, "-c", RAISES])
    assert result.rc == 1 and result.stderr.count("Traceback (most recent call last)") == 2, result
    file = cluster.path("head", "/tmp/events")
    ended = json.loads(file.read_text().splitlines()[-1])["job_ended"]
    file.unlink()
    assert ended["stderr_tail"][-1] == "ValueError: rank 0" and len(ended["stderr_tail"]) > 3, ended
    facts = ended["ends"][0]["facts"]
    assert facts["program"] == PYTHON and int(facts["peak_memory_mib"]) > 0 and int(facts["free_memory_mib"]) > 0, facts


def test_script_without_python3(hvdrun, cluster, no_leftovers, script):
    script("print('hello')\n")
    result = hvdrun(["-np", "2", "-H", "n1,n2", "--wdir", "/home/alice", "train.py"])
    assert result.rc == 127, result
    lines = notices(result)
    assert re.fullmatch(r"rank \d on n\d: did not start: cannot run 'train.py': not found in PATH, "
                        r"but it is in /home/alice: use python3 train.py", lines[0]), result
    # The stop may come before the other rank's start.
    assert re.fullmatch(r"then rank \d did not start(?: for the same reason|: the job is being stopped)", lines[1]), result
    result = hvdrun([*ONE, "--wdir", "/home/alice", "./train.py"])
    assert result.rc == 126 and "it is not executable (mode 0644): use python3 ./train.py" in result.stderr, result
    assert hvdrun([*ONE, "--wdir", "/home/alice", "python3", "train.py"]).stdout == "[0]<stdout>:hello\n"


def test_python_is_python3(hvdrun, cluster, no_leftovers):
    """A folder with python3 alone is the whole PATH of the ranks."""
    cluster.run("n1", "alice", ["sh", "-c", "mkdir ~/only && ln -s /usr/bin/python3 ~/only/python3"], check=True)
    result = hvdrun([*ONE, "-x", "PATH=/home/alice/only", "python", "train.py"])
    cluster.run("n1", "alice", ["rm", "-r", "/home/alice/only"], check=True)
    assert result.rc == 127, result
    assert "cannot run 'python': not found in PATH, but python3 is: use python3" in result.stderr, result


@pytest.fixture
def launcherd(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster)
    yield daemon
    daemon.close()


def test_launcherd_keeps_what_its_hosts_know(launcherd):
    job = launcherd.submit("-np", "1", "-H", "n1", PYTHON, "-c", "import no_such_module_1")
    assert launcherd.muster("wait", job).returncode == 1
    hint = f"on n1, {os.path.basename(PYTHON)} is {PYTHON}, which has no module 'no_such_module_1'"
    status = launcherd.asked("status", job)
    assert "ModuleNotFoundError: No module named 'no_such_module_1'" in status and hint in status, status
    facts = json.loads(launcherd.asked("status", "--json", job))["ranks"][0]["end"]["facts"]
    assert facts["program"] == PYTHON and int(facts["peak_memory_mib"]) > 0, facts
    assert hint in launcherd.muster("attach", job).stderr  # it shows only the last lines, so the report has them all
    followed = launcherd.run("-np", "1", "-H", "n1", PYTHON, "-c", "import no_such_module_1").end()
    assert followed.stderr.count("Traceback (most recent call last)") == 1 and hint in followed.stderr, followed
