"""Which GPUs ranks see. The driver's files are emulated: a tmpfs over /proc/driver of the test hosts, in the form in which
NVIDIA's driver writes them. No GPU is used."""

import pytest
from test_09_hosts import bashrc

INFORMATION = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 30\nGPU UUID: \t {}\nBus Location: \t {}\nDevice Minor: \t 0\n"
SHOW = ["sh", "-c", 'echo "$MUSTER_LOCAL_RANK ${CUDA_VISIBLE_DEVICES-unset}"']


@pytest.fixture
def gpus(cluster):
    """Two GPUs on n1 and n2: GPU-<host>-0 and GPU-<host>-1."""
    for host in ("n1", "n2"):
        cluster.run(host, "root", ["mount", "-t", "tmpfs", "none", "/proc/driver"], check=True)
        for number, address in enumerate(("0000:1b:00.0", "0000:43:00.0")):
            folder = f"/proc/driver/nvidia/gpus/{address}"
            cluster.run(host, "root", ["mkdir", "-p", folder], check=True)
            text = INFORMATION.format(f"GPU-{host}-{number}", address)
            cluster.run(host, "root", ["sh", "-c", f'printf "%s" "$0" > {folder}/information', text], check=True)
    yield
    for host in ("n1", "n2"):
        cluster.run(host, "root", ["umount", "/proc/driver"], check=True)


def seen(result):
    """{rank: what it has printed}"""
    assert result.rc == 0, result
    return {int(line[1]): line.split(":", 1)[1] for line in result.stdout.splitlines()}


def test_order_one_none(hvdrun, gpus, no_leftovers):
    job = ["-np", "4", "-H", "n1:2,n2:2"]
    assert seen(hvdrun([*job, *SHOW])) == {0: "0 GPU-n1-0,GPU-n1-1", 1: "1 GPU-n1-0,GPU-n1-1",
                                           2: "0 GPU-n2-0,GPU-n2-1", 3: "1 GPU-n2-0,GPU-n2-1"}
    assert seen(hvdrun([*job, "--gpu-bind", "one", *SHOW])) == {0: "0 GPU-n1-0", 1: "1 GPU-n1-1", 2: "0 GPU-n2-0",
                                                                3: "1 GPU-n2-1"}
    assert seen(hvdrun([*job, "--gpu-bind", "none", *SHOW])) == {0: "0 unset", 1: "1 unset", 2: "0 unset", 3: "1 unset"}
    assert seen(hvdrun(["-H", "n1:1,n3", *SHOW])) == {0: "0 GPU-n1-0,GPU-n1-1", 1: "0 unset"}  # n3 has none


def test_the_order_that_a_site_wants(hvdrun, gpus, no_leftovers):
    job = ["-np", "2", "-H", "n1:2", "--gpu-order"]
    assert seen(hvdrun([*job, "reverse", *SHOW])) == {0: "0 GPU-n1-1,GPU-n1-0", 1: "1 GPU-n1-1,GPU-n1-0"}
    assert seen(hvdrun([*job, "reverse", "--gpu-bind", "one", *SHOW])) == {0: "0 GPU-n1-1", 1: "1 GPU-n1-0"}
    assert seen(hvdrun([*job, "1", *SHOW])) == {0: "0 GPU-n1-1", 1: "1 GPU-n1-1"}
    result = hvdrun([*job, "0,2", *SHOW])
    assert result.rc == 2 and "n1: --gpu-order names GPU 2, but ranks may use 0-1" in result.stderr, result


def test_more_ranks_than_gpus_is_said(hvdrun, gpus, no_leftovers):
    result = hvdrun(["-H", "n1:3", *SHOW])
    assert seen(result) == {rank: f"{rank} GPU-n1-0,GPU-n1-1" for rank in range(3)}
    assert "n1: 3 ranks but 2 GPUs" in result.stderr, result


def test_masks_of_the_job_and_of_the_login(hvdrun, cluster, gpus, no_leftovers):
    mask = ["-x", "CUDA_VISIBLE_DEVICES=1", "-H", "n1", *SHOW]
    assert seen(hvdrun(mask)) == {0: "0 GPU-n1-1"}
    with bashrc(cluster, "n1", "export CUDA_VISIBLE_DEVICES=1,0\n"):
        assert seen(hvdrun(["-np", "2", "-H", "n1,n2", "--gpu-bind", "one", *SHOW])) == {0: "0 GPU-n1-1", 1: "0 GPU-n2-0"}
        assert seen(hvdrun(["-H", "n1:1", "--gpu-bind", "none", *SHOW])) == {0: "0 1,0"}
    with bashrc(cluster, "n1", "export CUDA_VISIBLE_DEVICES=\n"):
        assert seen(hvdrun(["-H", "n1", *SHOW])) == {0: "0 "}


def test_a_mask_that_leaves_none(hvdrun, cluster, gpus, no_leftovers):
    result = hvdrun(["-H", "n1:1", "-x", "CUDA_VISIBLE_DEVICES=all", *SHOW])
    assert seen(result) == {0: "0 all"}
    assert "n1: CUDA_VISIBLE_DEVICES is 'all', which leaves none of its 2 GPUs" in result.stderr, result
    for wish in (["--gpu-bind", "one"], ["--gpus-per-rank", "1"]):
        with bashrc(cluster, "n1", "export CUDA_VISIBLE_DEVICES=0,0\n"):
            result = hvdrun(["-H", "n1:1", *wish, *SHOW])
            assert result.rc == 2 and f"n1: {' '.join(wish)}: CUDA_VISIBLE_DEVICES is '0,0'" in result.stderr, result
            assert seen(hvdrun(["-H", "n1:1", "--gpu-bind", "none", *SHOW])) == {0: "0 0,0"}


def test_the_launchers_own_masks_stay_with_it(hvdrun, gpus, no_leftovers):
    show = ["sh", "-c", 'echo "${ROCR_VISIBLE_DEVICES-unset} ${HIP_VISIBLE_DEVICES-unset} ${ZE_AFFINITY_MASK-unset}"']
    masks = {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1", "ZE_AFFINITY_MASK": "1"}
    assert seen(hvdrun(["-H", "n1:1", *show], env=masks)) == {0: "unset unset unset"}
    assert seen(hvdrun(["-H", "n1:1", "-x", "ZE_AFFINITY_MASK", *show], env=masks)) == {0: "unset unset 1"}
    assert seen(hvdrun(["-np", "1", *show], env=masks)) == {0: "1 1 1"}  # this host


def test_several_for_each_rank(hvdrun, gpus, no_leftovers):
    """Number local_rank of the list that all see is the rank's own."""
    assert seen(hvdrun(["-H", "n1:1", "--gpus-per-rank", "2", *SHOW])) == {0: "0 GPU-n1-0,GPU-n1-1"}
    result = hvdrun(["-H", "n1", "--gpu-order", "1", "--gpu-bind", "one", *SHOW])
    assert seen(result) == {0: "0 GPU-n1-1"}  # so many slots as can be dealt


def test_a_rank_for_each_gpu(hvdrun, gpus, no_leftovers):
    args = ["torchrun", "--no-python", "-H", "n1,n2", "--nproc-per-node"]
    result = hvdrun([], argv=["muster", *args, "gpu", *SHOW])
    assert sorted(seen(result)) == [0, 1, 2, 3]
    probed = hvdrun([], argv=["muster", *args, "auto", "--dry-run", "--probe", "true"])
    assert [line.split()[4] for line in probed.stdout.splitlines()[1:]] == ["0", "1", "0", "1"], probed
