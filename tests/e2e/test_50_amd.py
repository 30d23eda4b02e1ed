"""What the kernel's files tell of AMD's GPUs: the real agent and its helper, on files in the form in which amdgpu and amdkfd write
them, in a tmpfs over the test hosts' /sys/class and /sys/bus/pci/devices.  No GPU and no driver is used.  The test hosts have PID
namespaces of their own, as containers have: whose memory is held is not known by process numbers there."""

import os
import re
import signal
import threading

import pytest
from console import Watched
from launcherd_user import MUSTER, Launcherd

GIB = 1 << 30
PCI = "0000:c1:00.0"
FOLDER = "/tmp/emulated-amd"
NODE = "/sys/class/kfd/kfd/topology/nodes/1"
DEVICE = f"/sys/bus/pci/devices/{PCI}"
KFD_PROCESS = "/sys/class/kfd/kfd/proc/4711"
SHOW = ["sh", "-c", 'echo "$MUSTER_LOCAL_RANK ${ROCR_VISIBLE_DEVICES-unset}"']

# Network interfaces stay: they are links to ../../devices.
MAKE = f"""
set -e
mkdir -p {FOLDER}/net; chmod 777 {FOLDER}
mount --bind /sys/class/net {FOLDER}/net
mount -t tmpfs -o mode=777 none /sys/class; mkdir /sys/class/net
mount --bind {FOLDER}/net /sys/class/net
mount -t tmpfs -o mode=777 none /sys/bus/pci/devices
umask 0
mkdir -p {NODE} {DEVICE} {KFD_PROCESS}
printf 'simd_count 440\\nlocation_id 49408\\ndomain 0\\nunique_id 81985529216486895\\n' > {NODE}/properties
echo 7 > {NODE}/gpu_id; echo aldebaran > {NODE}/name
echo {64 * GIB} > {DEVICE}/mem_info_vram_total; echo 40 > {DEVICE}/gpu_busy_percent
"""


def use(cluster, text, host="n1"):
    """In use on the GPU from now on; whole at every moment."""
    folder = cluster.path(host, DEVICE)
    (folder / "new").write_text(f"{text}\n")
    (folder / "new").rename(folder / "mem_info_vram_used")


@pytest.fixture
def amd(cluster):
    """n1 has one GPU of AMD's; 100 MB of it are in use."""
    mine = cluster.run("n1", "root", ["readlink", "/proc/self/ns/pid"], check=True).stdout.strip()
    assert mine != "pid:[4026531836]", "the test hosts share the machine's PID namespace"
    cluster.run("n1", "root", ["sh", "-c", MAKE], check=True)
    use(cluster, 100_000_000)
    yield
    for mount in ("/sys/class/net", "/sys/class", "/sys/bus/pci/devices", f"{FOLDER}/net"):
        cluster.run("n1", "root", ["umount", mount], check=True)
    cluster.run("n1", "root", ["rm", "-rf", FOLDER], check=True)


def holds_memory(hvdrun, cluster, more):
    """A job whose rank has ended, and during which `more` bytes came into use. The agent looks at what is in use twice before: at
    its start, and when the rank starts. Then the rank may end."""
    folder = cluster.path("n1", DEVICE)
    used = folder / "mem_info_vram_used"
    gate = cluster.path("n1", f"{FOLDER}/gate")

    def pipe(path):
        os.mkfifo(path)
        path.chmod(0o666)
        return path

    pipe(folder / "pipe").rename(used)
    pipe(gate)

    def tell():
        with used.open("w") as first:  # somebody reads; the next one gets another pipe
            pipe(folder / "pipe").rename(used)
            first.write("100000000\n")
        with used.open("w") as second:
            use(cluster, 100_000_000 + more)
            second.write("100000000\n")
        gate.write_text("go\n")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    job = Watched(hvdrun, cluster, ["-H", "n1:1", "sh", "-c", f"cat {FOLDER}/gate"])
    job.out.wait_for("go")
    teller.join()
    return job


def test_ranks_get_it(hvdrun, amd, no_leftovers):
    result = hvdrun(["-H", "n1:1", *SHOW])
    assert result.rc == 0 and "GPU-0123456789abcdef" in result.stdout, result
    assert "GPU" not in result.stderr, result


def test_memory_that_is_not_released_is_said(hvdrun, cluster, amd, no_leftovers):
    result = holds_memory(hvdrun, cluster, 1_200_000_000).end()
    assert result.rc == 0, result
    assert ("n1: AMD GPU 0 has 1.2 GB more in use than before the job, by an unknown process: the driver reports the "
            "host's process IDs, but the agent runs in a container") in result.stderr, result


def test_released_memory_is_waited_for(hvdrun, cluster, amd, no_leftovers):
    job = holds_memory(hvdrun, cluster, 1_200_000_000)
    assert not job.ended()
    use(cluster, 90_000_000)
    result = job.end()
    assert result.rc == 0 and "GPU" not in result.stderr, result


def test_a_job_without_gpus_waits_for_nothing(hvdrun, cluster, amd, no_leftovers):
    cluster.path("n1", f"{DEVICE}/mem_info_vram_used").unlink()
    result = hvdrun(["-H", "n1:1", "--gpu-bind", "none", *SHOW])
    assert result.rc == 0 and "GPU" not in result.stderr, result


def test_hosts_and_the_doctor(hvdrun, cluster, amd, no_leftovers):
    cluster.path("n1", f"{KFD_PROCESS}/vram_7").write_text("536870912\n")
    said = cluster.run("head", "alice", [MUSTER, "doctor", "-H", "n1"], timeout=60).stdout
    assert re.search(r"gpu memory.*GPU 0: 512 MiB of pid 4711 \(the host's number\)", said), said
    daemon = Launcherd(hvdrun, cluster, hosts="n1:1")
    try:
        job = daemon.submit("-np", "1", "sleep", "1000")
        watch = daemon.watch("top", "--json")
        watch.out.wait_for('"processes": ?1')
        watch.signal(signal.SIGTERM)
        watch.end()
        table = daemon.asked("hosts")
        assert "  gpus: 1 x aldebaran of 64 GiB; 95 MiB used, 1 process" in table, table
        assert "1 40%" in daemon.asked("top", "--once")
        daemon.asked("kill", job)
    finally:
        daemon.close()
