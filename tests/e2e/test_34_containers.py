"""--container. Apptainer cannot be installed here: tests/programs/container/apptainer stands in for it and makes the
container with bubblewrap. What is shown: what Muster starts, binds and passes on, and that signals and cleaning up reach
inside. Not shown: Apptainer itself."""

import json
import signal

import pytest
from conftest import REPOSITORY
from console import PYTHON, Watched
from launcherd_user import Launcherd

STAND_IN = REPOSITORY / "tests" / "programs" / "container"
SEARCH = {"PATH": f"{STAND_IN}:/usr/local/bin:/usr/bin:/bin"}
TELL = [PYTHON, "-c",
        "import json, os; print(json.dumps({'cwd': os.getcwd(), 'root': sorted(os.listdir('/')), 'image': "
        "os.path.exists('/image/name'), 'rank': os.environ.get('MUSTER_RANK'), 'own': os.environ.get('MY_SETTING'), 'nv': "
        "os.environ.get('STAND_IN_NV')}))"]
HOROVOD = [PYTHON, "-c", "import horovod, numpy as np, muster.numpy as hvd; hvd.init(); "
           "print(horovod.__version__, hvd.size(), int(hvd.allreduce(np.ones(1), op=hvd.Sum)[0]))"]


@pytest.fixture
def image(cluster):
    """A folder on n1 and n2 that the stand-in takes for an image."""
    for host in ("n1", "n2"):
        folder = cluster.path(host, "/tmp/image")
        folder.mkdir()
        (folder / "name").write_text("an image\n")
    yield "/tmp/image"
    for host in ("n1", "n2"):
        cluster.run(host, "root", ["rm", "-rf", "/tmp/image"], check=True)


@pytest.fixture
def gpus(cluster):
    cluster.run("n1", "root", ["mount", "-t", "tmpfs", "none", "/proc/driver"], check=True)
    folder = "/proc/driver/nvidia/gpus/0000:1b:00.0"
    information = "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-n1\n"
    cluster.run("n1", "root", ["mkdir", "-p", folder], check=True)
    cluster.run("n1", "root", ["sh", "-c", f'printf "%s" "$0" > {folder}/information', information], check=True)
    yield
    cluster.run("n1", "root", ["umount", "/proc/driver"], check=True)


def told(result):
    assert result.rc == 0, result
    return [json.loads(line.split("]<stdout>:", 1)[1]) for line in sorted(result.stdout.splitlines())]


def test_inside(hvdrun, image, no_leftovers):
    job = ["-np", "2", "-H", "n1,n2", "--wdir", "/home/alice", "--container", image]
    rows = told(hvdrun([*job, *TELL], env=SEARCH | {"MY_SETTING": "a"}))
    assert [row["rank"] for row in rows] == ["0", "1"]
    for row in rows:
        assert row["image"] and row["cwd"] == "/home/alice" and row["own"] == "a" and row["nv"] is None, row
        assert "root" not in row["root"] and "srv" not in row["root"], row  # the host's own folders
    rows = told(hvdrun([*job, "--container-args", "--cleanenv --nv", *TELL], env=SEARCH | {"MY_SETTING": "a"}))
    assert [row["rank"] for row in rows] == ["0", "1"]
    assert {(row["own"], row["nv"]) for row in rows} == {(None, "1")}


def test_muster_and_its_horovod_work_inside(hvdrun, image, no_leftovers):
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", "--horovod", "muster", "--container", image, "--container-args",
                     "--cleanenv", *HOROVOD], env=SEARCH)
    assert result.rc == 0, result
    assert sorted(result.stdout.splitlines()) == [f"[{rank}]<stdout>:0.28.1 4 4" for rank in range(4)], result


def test_gpus_of_the_host(hvdrun, image, gpus, no_leftovers):
    """Files of NVIDIA's driver are emulated on n1, no GPU is used."""
    show = ["sh", "-c", 'echo "${STAND_IN_NV-none} ${CUDA_VISIBLE_DEVICES-unset}"']
    result = hvdrun(["-np", "2", "-H", "n1,n2", "--container", image, "--gpu-bind", "one", *show], env=SEARCH)
    assert result.rc == 0, result
    assert sorted(result.stdout.splitlines()) == ["[0]<stdout>:1 GPU-n1", "[1]<stdout>:none unset"], result


def test_through_launcherd(hvdrun, cluster, image, no_leftovers):
    launcherd = Launcherd(hvdrun, cluster)
    try:
        job = launcherd.submit("-np", "2", "-H", "n1,n2", "--wdir", "/home/alice", "--container", image, "--container-args",
                               "--cleanenv", "sh", "-c", 'echo "$MUSTER_RANK $(pwd) $(cat /image/name)"', env=SEARCH)
        launcherd.asked("wait", job)
        logs = sorted(launcherd.asked("logs", job).splitlines())
        assert logs == [f"[{rank}]<stdout>:{rank} /home/alice an image" for rank in range(2)]
    finally:
        launcherd.close()


def test_exit_code_and_signals(hvdrun, cluster, image, no_leftovers):
    job = ["-H", "n1", "--container", image, "sh", "-c"]
    assert hvdrun([*job, "exit 7"], env=SEARCH).rc == 7
    watched = Watched(hvdrun, cluster, args=[*job, "echo up; sleep 1000 & setsid sleep 1000"], env=SEARCH)
    watched.out.wait_for("up")
    # Its values are in no command line.
    for process in cluster.processes("n1"):
        assert not any("MUSTER_RANK" in word for word in process.argv), process
    watched.signal(signal.SIGTERM)
    assert watched.end().rc == 143  # and no_leftovers finds neither sleep


def test_a_host_without_the_program_is_named(hvdrun, image, no_leftovers):
    result = hvdrun(["-H", "n1", "--container", image, "true"], env={"PATH": "/usr/bin:/bin"})
    assert result.rc == 127, result
    assert "--container needs apptainer or singularity, and neither is in PATH (/usr/bin:/bin): install apptainer on that host" \
        in result.stderr, result
    assert "n1" in result.stderr, result
