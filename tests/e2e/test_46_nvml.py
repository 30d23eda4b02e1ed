"""What NVIDIA's management library tells: the real agent and its helper, with an emulation of the library that answers as a script
says (tests/unit/agent/gpus/scripted_nvml.cc), found by the login's LD_LIBRARY_PATH.  No GPU and no driver is used: what is shown
here is that the pieces fit together, not that a GPU does what the script says."""

import contextlib
import json
import os
import re
import signal

import pytest
from conftest import BIN_DIR
from console import PYTHON, Console, Watched
from launcherd_user import MUSTER, Launcherd
from test_09_hosts import bashrc

LIBRARY = BIN_DIR.parent / "tests/scripted_nvml_new/libnvidia-ml.so.1"
FOLDER = "/tmp/emulated-nvml"
GIB = 1 << 30
SHOW = ["sh", "-c", 'echo "$MUSTER_LOCAL_RANK ${CUDA_VISIBLE_DEVICES-unset}"']


def gpu(number, host, extra=""):
    return f"gpu 0000:{number + 1:02x}:00.0 GPU-{host}-{number} {80 * GIB} {2 * GIB} 40 NVIDIA H100 80GB HBM3\n{extra}"


def say(cluster, host, text):
    """The script of a host; whole at every moment."""
    cluster.run(host, "root", ["sh", "-c", f'umask 0; printf "%s" "$0" > {FOLDER}/new && mv {FOLDER}/new {FOLDER}/script',
                               "driver 550.54.15\n" + text], check=True)


@pytest.fixture
def nvml(cluster):
    """n1 and n2 have the driver's folder, the emulation, and two GPUs each."""
    if not LIBRARY.exists():
        pytest.fail(f"{LIBRARY} is not built", pytrace=False)
    with contextlib.ExitStack() as logins:
        for host in ("n1", "n2"):
            cluster.run(host, "root", ["mount", "-t", "tmpfs", "none", "/proc/driver"], check=True)
            cluster.run(host, "root", ["sh", "-c", f"mkdir -m 777 {FOLDER} /proc/driver/nvidia; cp {LIBRARY} {FOLDER}/"], check=True)
            say(cluster, host, gpu(0, host) + gpu(1, host))
            logins.enter_context(bashrc(cluster, host, f"export LD_LIBRARY_PATH={FOLDER}\n"))
        yield
    for host in ("n1", "n2"):
        cluster.run(host, "root", ["umount", "/proc/driver"], check=True)
        cluster.run(host, "root", ["rm", "-rf", FOLDER], check=True)


class Calls:
    """What agents of a host ask of the library, as it comes."""

    def __init__(self, cluster, host):
        self.path = cluster.path(host, f"{FOLDER}/calls")
        os.mkfifo(self.path)
        self.path.chmod(0o666)
        self.seen = Console(os.open(self.path, os.O_RDWR))

    def end(self):
        self.path.write_text("that was all\n")
        self.seen.wait_for("that was all")
        self.seen.close()
        return self.seen.text.split("\n")[:-2]


def seen(result):
    """{rank: what it has printed}"""
    assert result.rc == 0, result
    return {int(line[1]): line.split(":", 1)[1] for line in result.stdout.splitlines()}


def test_slots_are_gpus(hvdrun, nvml, no_leftovers):
    assert seen(hvdrun(["-H", "n1,n2", "--gpu-bind", "one", *SHOW])) == {
        0: "0 GPU-n1-0", 1: "1 GPU-n1-1", 2: "0 GPU-n2-0", 3: "1 GPU-n2-1"}
    assert len(seen(hvdrun(["-np", "3", "-H", "n1,n2", *SHOW]))) == 3
    # One on each is what horovodrun does with hosts without slots, and asks nobody.
    assert seen(hvdrun(["-np", "2", "-H", "n1,n2", "--gpu-bind", "one", *SHOW])) == {0: "0 GPU-n1-0", 1: "0 GPU-n2-0"}
    assert len(seen(hvdrun(["-H", "n1:1,n2", *SHOW]))) == 3  # explicit slots win
    assert len(seen(hvdrun(["-H", "n1,n3", *SHOW]))) == 3  # n3 has none: one
    result = hvdrun(["-H", "n1,nowhere", *SHOW])
    assert result.rc == 125 and "nowhere counts as one slot, because its GPUs are unknown" in result.stderr, result
    assert seen(hvdrun(["-H", "n1,n2", "--gpus-per-rank", "2", "--gpu-bind", "one", *SHOW])) == {
        0: "0 GPU-n1-0,GPU-n1-1", 1: "0 GPU-n2-0,GPU-n2-1"}


def test_slots_of_an_allocation_that_counts_no_tasks(hvdrun, cluster, nvml, no_leftovers):
    nodes = "/home/alice/nodes"
    by_gpus = {0: "0 GPU-n1-0", 1: "1 GPU-n1-1", 2: "0 GPU-n2-0", 3: "1 GPU-n2-1"}
    try:
        cluster.run("head", "alice", ["sh", "-c", f"printf 'n1\\nn2\\n' > {nodes}"], check=True)
        for environment in ({"PBS_NODEFILE": nodes}, {"COBALT_NODEFILE": nodes}):
            assert seen(hvdrun(["--gpu-bind", "one", *SHOW], env=environment)) == by_gpus
        assert len(seen(hvdrun(["-N", "1", *SHOW], env={"PBS_NODEFILE": nodes}))) == 2
        # Chunks are slots.
        cluster.run("head", "alice", ["sh", "-c", f"printf 'n1\\nn1\\nn2\\n' > {nodes}"], check=True)
        assert len(seen(hvdrun(SHOW, env={"PBS_NODEFILE": nodes}))) == 3
    finally:
        cluster.run("head", "alice", ["rm", "-f", nodes], check=True)
    # What is on one node of Slurm's says nothing of the others.
    slurm = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_GPUS_ON_NODE": "2", "SLURMD_NODENAME": "n1"}
    say(cluster, "n2", gpu(0, "n2"))
    assert len(seen(hvdrun(SHOW, env=slurm))) == 3


def test_launcherds_slots_are_gpus(hvdrun, cluster, nvml, no_leftovers):
    """The same counts as hvdrun's: its list says no slots of n1, n2 and n3, n3 has no GPU, nowhere is no host."""
    daemon = Launcherd(hvdrun, cluster, hosts="n1,n2,n3,n4:2,nowhere")
    try:
        # As many ranks as slots: who submits waits until they are known.
        job = daemon.submit("-H", "n1,n2,n3", "--gpu-bind", "one", *SHOW)
        assert daemon.asked("wait", job) == ""
        printed = daemon.asked("logs", job).splitlines()
        assert {int(line[1]): line.split(":", 1)[1] for line in printed} == {
            0: "0 GPU-n1-0", 1: "1 GPU-n1-1", 2: "0 GPU-n2-0", 3: "1 GPU-n2-1", 4: "0 unset"}
        daemon.watched.err.wait_for("nowhere.*; it counts as one slot because its GPUs are unknown")
        daemon.watched.err.wait_for("all hosts without given slots have reported their GPUs: 8 slots in total")
        hosts = {host["name"]: host for host in daemon.hosts()}
        assert {name: host["slots"] for name, host in hosts.items()} == {"n1": 2, "n2": 2, "n3": 1, "n4": 2, "nowhere": 1}
        assert hosts["nowhere"]["problem"].endswith("; it counts as one slot because its GPUs are unknown"), hosts
        table = daemon.asked("hosts")
        assert re.search(r"n1 +0/2 .*\n.*2 x NVIDIA H100", table) and re.search(r"n3 +0/1 ", table), table
        refused = daemon.muster("submit", "-np", "9", "true")
        assert refused.returncode == 2 and "nowhere counts as one slot, because its GPUs are unknown" in refused.stderr, refused
        daemon.die()  # the next one asks again, those that have outlived it as well
        daemon.come_back()
        job = daemon.submit("-np", "6", "-H", "n1,n2,n4", "true")
        assert daemon.asked("wait", job) == ""
    finally:
        daemon.close()


def test_more_ranks_than_gpus(hvdrun, nvml, no_leftovers):
    # Nobody has asked for GPUs: the ranks may need none.
    result = hvdrun(["-H", "n1:3", *SHOW])
    assert len(seen(result)) == 3
    assert "n1: 3 ranks but 2 GPUs" in result.stderr and "--share-gpu" in result.stderr, result
    assert "but 2 GPUs" not in hvdrun(["-H", "n1:3", "--share-gpu", *SHOW]).stderr
    result = hvdrun(["-H", "n1:3", "--gpu-bind", "none", *SHOW])
    assert set(seen(result).values()) == {"0 unset", "1 unset", "2 unset"} and "GPU" not in result.stderr, result
    # They have been asked for, one for each.
    result = hvdrun(["-H", "n1:3", "--gpu-bind", "one", *SHOW])
    assert result.rc == 2 and "n1: 3 ranks need 1 GPU each" in result.stderr, result
    assert "--share-gpu" in result.stderr, result
    assert seen(hvdrun(["-H", "n1:3", "--gpu-bind", "one", "--share-gpu", *SHOW])) == {
        0: "0 GPU-n1-0", 1: "1 GPU-n1-1", 2: "2 GPU-n1-0"}
    result = hvdrun(["-H", "n1:1", "--gpus-per-rank", "3", *SHOW])
    assert result.rc == 2 and "n1: --gpus-per-rank 3: ranks may use only 2 GPUs on that host" in result.stderr, result


def test_a_dry_run_knows_this_machines_gpus(cluster, nvml, no_leftovers):
    def dry(*args):
        return cluster.run("n1", "alice", ["env", f"LD_LIBRARY_PATH={FOLDER}", BIN_DIR / "hvdrun", "--dry-run", "--json", *args])

    result = dry("-np", "1", "--gpus-per-rank", "1", "true")
    assert result.returncode == 0, result
    assert [rank["gpus"] for rank in json.loads(result.stdout)["hosts"][0]["ranks"]] == [[0]], result
    result = dry("-np", "3", "-H", "localhost:3", "--gpu-bind", "one", "true")
    assert result.returncode == 2 and "3 ranks need 1 GPU each" in result.stderr, result


def test_parts_of_a_divided_gpu(hvdrun, cluster, nvml, no_leftovers):
    parts = f"divided\npart MIG-a {10 * GIB} 0 NVIDIA H100 MIG 1g.10gb\ngap\npart MIG-b {20 * GIB} 0 NVIDIA H100 MIG 2g.20gb\n"
    say(cluster, "n1", gpu(0, "n1", parts))
    result = hvdrun(["-H", "n1", *SHOW])
    assert seen(result) == {0: "0 MIG-a", 1: "1 MIG-b"}
    assert "n1: a GPU there is divided (MIG)" in result.stderr and "--gpu-bind one if that is intended" in result.stderr, result
    result = hvdrun(["-H", "n1", "--gpu-bind", "one", *SHOW])
    assert seen(result) == {0: "0 MIG-a", 1: "1 MIG-b"} and "divided" not in result.stderr, result
    result = hvdrun(["-H", "n1:1", "--gpus-per-rank", "2", *SHOW])
    assert result.rc == 2 and "divided (MIG)" in result.stderr, result
    # A whole one beside it, where that is enough.
    say(cluster, "n1", gpu(0, "n1", parts) + gpu(1, "n1"))
    assert seen(hvdrun(["-H", "n1:1", *SHOW])) == {0: "0 GPU-n1-1"}
    assert seen(hvdrun(["-H", "n1", *SHOW])) == {0: "0 MIG-a", 1: "1 MIG-b", 2: "2 GPU-n1-1"}


def test_another_users_gpu_is_not_dealt(hvdrun, cluster, nvml, no_leftovers):
    say(cluster, "n1", gpu(0, "n1", "closed\n") + gpu(1, "n1"))
    assert seen(hvdrun(["-H", "n1", *SHOW])) == {0: "0 GPU-n1-1"}


def test_a_library_that_fails_is_said_and_does_not_matter(hvdrun, cluster, nvml, no_leftovers):
    say(cluster, "n1", "fail nvmlInit_v2 18\n")
    result = hvdrun(["-H", "n1:1,n2:1", *SHOW])
    assert seen(result)[0] == "0 unset", result
    assert [line for line in result.stderr.splitlines() if "NVIDIA" in line] == [
        "hvdrun: n1: NVIDIA's management library does not start: nvmlInit_v2 failed: Driver/library version mismatch (18); its "
        "GPUs are known from files only (--gpu-bind none if the ranks need none)"], result
    assert "NVIDIA" not in hvdrun(["-H", "n1:1", "--gpu-bind", "none", *SHOW]).stderr
    result = cluster.run("head", "alice", [MUSTER, "doctor", "-H", "n1,n2", "--json"], timeout=60)
    checks = {report["host"]: {check["name"]: check for check in report["checks"]} if "checks" in report else report
              for report in map(json.loads, result.stdout.splitlines())}
    assert "Driver/library version mismatch" in json.dumps(checks["n1"]), checks
    assert "Driver/library version mismatch" not in json.dumps(checks["n2"]), checks


def test_a_driver_that_hangs_does_not_hang_the_job(hvdrun, cluster, nvml, no_leftovers):
    say(cluster, "n1", "hang nvmlInit_v2\n")
    result = hvdrun(["-H", "n1:1", *SHOW])
    assert seen(result) == {0: "0 unset"} and result.elapsed < 20, result
    assert "n1: NVIDIA's management library has not answered within 5 s" in result.stderr, result


def test_a_driver_whose_files_hang_as_well(hvdrun, cluster, nvml, no_leftovers):
    """A pipe that nobody writes to: whoever opens it waits for ever."""
    say(cluster, "n1", "hang nvmlInit_v2\n")
    folder = "/proc/driver/nvidia/gpus/0000:1b:00.0"
    cluster.run("n1", "root", ["sh", "-c", f"mkdir -p {folder} && mkfifo -m 666 {folder}/information"], check=True)
    result = hvdrun(["-H", "n1:1", *SHOW])
    assert seen(result) == {0: "0 unset"} and result.elapsed < 25, result
    assert "n1: NVIDIA's management library has not answered within 5 s" in result.stderr, result


def test_a_job_without_gpus_asks_nobody(hvdrun, cluster, nvml, no_leftovers):
    calls = Calls(cluster, "n1")
    assert seen(hvdrun(["-H", "n1:1", "--gpu-bind", "none", *SHOW])) == {0: "0 unset"}
    assert calls.end() == []


def test_the_doctor_names_who_holds_memory(cluster, nvml, no_leftovers):
    say(cluster, "n1", gpu(0, "n1", "process 1 536870912\nprocess 999999999 1048576\n") + gpu(1, "n1"))
    said = cluster.run("head", "alice", [MUSTER, "doctor", "-H", "n1,n2"], timeout=60).stdout
    assert re.search(r"gpu memory.*GPU 0: 512 MiB of pid 1 \(.*, uid 0\); GPU 0: 1 MiB of pid 999999999 \(not visible "
                     r"to the agent\)", said), said


HOLDER = f"""
import os, signal
with open("{FOLDER}/script") as file: text = file.read()
with open("{FOLDER}/new", "w") as file: file.write(text + f"process {{os.getpid()}} 1200000000\\n")
os.rename("{FOLDER}/new", "{FOLDER}/script")
print(os.getpid(), flush=True)
if os.environ.get("DIES"): os.kill(os.getpid(), signal.SIGKILL)
"""


def holds_memory(hvdrun, cluster):
    """A job whose rank on n1 has ended and is still listed, seen so by the agent three times."""
    calls = Calls(cluster, "n1")
    job = Watched(hvdrun, cluster, ["-H", "n1:1", PYTHON, "-c", HOLDER])
    calls.seen.wait_for("nvmlDeviceGetCount_v2", count=4)  # the first is the agent's start
    job.out.wait_for(r"\[0\]<stdout>:\d+\n")
    assert not job.ended()
    return job, calls


def test_memory_that_is_not_released_is_said(hvdrun, nvml, no_leftovers):
    """The script goes on to list the rank, as a driver does that has not cleaned up after it."""
    result = hvdrun(["-H", "n1:1", "-x", "DIES=1", PYTHON, "-c", HOLDER])
    assert result.rc == 137, result
    pid = result.stdout.split(":")[1].strip()
    assert f"n1: GPU 1 still holds 1.2 GB of rank 0 (pid {pid}), which has ended" in result.stderr, result
    assert 8 < result.elapsed < 20, result


def test_a_wrappers_child_is_waited_for(hvdrun, nvml, no_leftovers):
    """The shell, which is the rank, has reaped it: nobody was told of its end."""
    result = hvdrun(["-H", "n1:1", "-x", "DIES=1", "sh", "-c", '"$0" -c "$1"; exit 3', PYTHON, HOLDER])
    assert result.rc == 3, result
    pid = result.stdout.split(":")[1].strip()
    assert (f"n1: GPU 1 still holds 1.2 GB of a process that has ended (pid {pid}): a child of a rank, if no other job uses that GPU"
            in result.stderr), result


def test_a_library_that_failed_at_the_start_is_asked_after_the_job(hvdrun, cluster, nvml, no_leftovers):
    """No GPU is known then; the user's own mask is what tells that the rank has one."""
    say(cluster, "n1", "fail nvmlInit_v2 18\n" + gpu(0, "n1") + gpu(1, "n1"))
    heals = HOLDER.replace("file.read()", "file.read().replace('fail nvmlInit_v2 18\\n', '')")
    result = hvdrun(["-H", "n1:1", "-x", "CUDA_VISIBLE_DEVICES=1", PYTHON, "-c", heals])
    assert result.rc == 0 and "Driver/library version mismatch" in result.stderr, result
    pid = result.stdout.split(":")[1].strip()
    assert f"n1: GPU 1 still holds 1.2 GB of rank 0 (pid {pid}), which has ended" in result.stderr, result


def test_released_memory_is_waited_for(hvdrun, cluster, nvml, no_leftovers):
    job, calls = holds_memory(hvdrun, cluster)
    say(cluster, "n1", gpu(0, "n1") + gpu(1, "n1"))
    result = job.end()
    assert result.rc == 0 and "GPU" not in result.stderr, result
    # The agent's start; then one helper for the whole wait, which looked again after the memory was released.
    asked = calls.end()
    assert asked.count("nvmlInit_v2") == 2 and asked.count("nvmlDeviceGetCount_v2") > 4, asked


def test_ctrl_c_ends_the_wait(hvdrun, cluster, nvml, no_leftovers):
    job, calls = holds_memory(hvdrun, cluster)
    job.signal(signal.SIGINT)
    result = job.end()
    assert result.rc == 130, result
    assert "still holds" not in result.stderr and "did not confirm" not in result.stderr, result
    calls.end()


def test_a_second_ctrl_c_before_the_wait_lets_nobody_wait(hvdrun, cluster, nvml, no_leftovers):
    """The rank is killed by it, and is listed for ever."""
    stubborn = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))\n"
    job = Watched(hvdrun, cluster, ["-H", "n1:1", PYTHON, "-c", f"{stubborn}{HOLDER}while True: signal.pause()\n"])
    job.out.wait_for(r"\[0\]<stdout>:\d+\n")
    job.signal(signal.SIGINT)
    job.out.wait_for("asked")
    job.signal(signal.SIGINT)
    result = job.end()
    assert result.rc == 130, result
    assert "still holds" not in result.stderr and "did not confirm" not in result.stderr, result


def test_the_wait_is_not_the_ranks_time(hvdrun, nvml, no_leftovers):
    """All ranks have ended in time; the wait goes on beyond it."""
    result = hvdrun(["-H", "n1:1", "--timeout", "6", PYTHON, "-c", HOLDER])
    assert result.rc == 0 and "GPU 1 still holds 1.2 GB of rank 0" in result.stderr, result


def test_a_time_limit_during_the_wait(hvdrun, cluster, nvml, no_leftovers):
    """Rank 0 has ended and its host waits; rank 1 is stopped at its limit. Nobody takes the wait for a lost host."""
    command = f"import os, time\nif os.environ['MUSTER_RANK'] == '1': time.sleep(1000)\n{HOLDER}"
    result = hvdrun(["-np", "2", "-H", "n1:1,n2:1", "--timeout", "3", PYTHON, "-c", command])
    assert result.rc == 124, result
    assert "n1: GPU 1 still holds 1.2 GB of rank 0" in result.stderr and "did not confirm" not in result.stderr, result


def test_hosts_and_top(hvdrun, cluster, nvml, no_leftovers):
    say(cluster, "n1", gpu(0, "n1", "process 77 1000\n") + gpu(1, "n1", f"divided\npart MIG-a {10 * GIB} 0 MIG 1g.10gb\n"))
    daemon = Launcherd(hvdrun, cluster, hosts="n1:2,n2:2")
    try:
        job = daemon.submit("-np", "4", "sleep", "1000")
        watch = daemon.watch("top", "--json")
        watch.out.wait_for('"processes": ?1')
        watch.signal(signal.SIGTERM)
        watch.end()
        host = daemon.host("n1")
        assert [each["memory_mib"] for each in host["gpus"]] == ["81920", "81920"], host
        assert host["gpus"][1]["parts"][0]["uuid"] == "MIG-a" and host["gpu_driver"] == "550.54.15", host
        load = host["load"]["gpus"]
        assert (load[0]["busy_percent"], load[0]["memory_used_mib"], load[0]["processes"]) == (40, "2048", 1), host
        assert load[1]["busy_unknown"], host
        table = daemon.asked("hosts")
        assert "2 x NVIDIA H100 80GB HBM3 of 80 GiB; 1 divided (MIG), 1 part; 4096 MiB used, 1 process" in table, table
        lines = [line.split() for line in daemon.asked("hosts", "--gpus").splitlines() if line.startswith("n1 ")]
        assert [line[1] for line in lines] == ["0", "1", "1.0"] and lines[2][-1] == "MIG-a", lines
        assert lines[0][-7:-4] == ["2048", "MiB", "40%"] and lines[0][-1] == "GPU-n1-0", lines
        assert "2 40%" in daemon.asked("top", "--once")
        lost = "nvmlDeviceGetCount_v2 failed: GPU is lost (15)"
        well = gpu(0, "n1").replace(" 40 ", " 77 ")
        for text, news, problem in (("fail nvmlDeviceGetCount_v2 15\n", f'"gpu_problem": ?"{re.escape(lost)}"', f"  gpus: {lost}\n"),
                                    (well, '"busy_percent": ?77', "")):
            say(cluster, "n1", text)
            watch = daemon.watch("top", "--json")
            watch.out.wait_for(news)
            watch.signal(signal.SIGTERM)
            watch.end()
            assert [line for line in daemon.asked("hosts").splitlines(True) if "gpus: nvml" in line] == [problem] * bool(problem)
        daemon.asked("kill", job)
    finally:
        daemon.close()
