"""The examples written for Horovod, unchanged, with no Horovod installed: every rank has the same parameters after every
step, and many ranks learn as one process does from the same batches."""

import re

import pytest
from conftest import BIN_DIR, REPOSITORY

PYTHON = "/usr/bin/python3"
EXAMPLES = REPOSITORY / "examples"
CHECKED = [PYTHON, str(REPOSITORY / "tests/e2e/checked_training.py")]
CHECKED_TENSORFLOW = str(REPOSITORY / "tests/e2e/checked_tensorflow.py")
SHAPES = {"one host": (2, "n1:2"), "four hosts": (8, "n1:2,n2:2,n3:2,n4:2")}
GLOBAL_BATCH, RATE, EPOCHS = 64, 0.16, 3
STEPS = EPOCHS * 1408 // GLOBAL_BATCH
TRAINING = 240.0  # importing torch and scikit-learn in eight processes takes long on a busy machine


@pytest.fixture(scope="module")
def needs_torch(clusters):
    probe = clusters.get(4).run("n1", "alice", [PYTHON, "-c", "import torch, sklearn.datasets"], timeout=TRAINING)
    if probe.returncode != 0:
        pytest.skip(f"python3-torch and python3-sklearn are needed: {probe.stderr.strip().splitlines()[-1]}")


@pytest.fixture
def train(hvdrun, no_leftovers):
    """train(ranks, hosts, script, *arguments): what rank 0 printed, once the parameters were checked on all ranks by
    `checked`, a program that runs the script."""
    def call(ranks, hosts, script, *arguments, checked=CHECKED):
        result = hvdrun(["-np", str(ranks), "-H", hosts, "--horovod", "muster", *checked, str(EXAMPLES / script), *arguments],
                        timeout=TRAINING)
        assert result.rc == 0, result
        said = re.findall(r"^\[(\d+)\]<stdout>:checked (\d+) steps of (\d+) ranks$", result.stdout, re.M)
        assert sorted(int(rank) for rank, _, _ in said) == list(range(ranks)), result
        assert {(steps != "0", int(size)) for _, steps, size in said} == {(True, ranks)}, result
        assert len({steps for _, steps, _ in said}) == 1, result
        lines = re.findall(r"^\[0\]<stdout>:(.*)$", result.stdout, re.M)
        return lines
    return call


def losses(lines):
    return [float(found) for found in re.findall(r"loss ([\d.]+)", "\n".join(lines))]


def digits_arguments(ranks):
    """The same batches and the same rate for any number of ranks."""
    return ["--batch-size", str(GLOBAL_BATCH // ranks), "--lr", str(RATE / ranks), "--epochs", str(EPOCHS)]


@pytest.fixture(scope="module")
def single():
    """The loss curve of one process; the first test fills it, so that its failure is reported there."""
    return []


@pytest.mark.usefixtures("needs_torch")
def test_one_process_learns(train, single):
    lines = train(1, "n1:1", "horovod_torch_digits.py", *digits_arguments(1))
    assert f"checked {STEPS} steps of 1 ranks" in lines
    curve = losses(lines)
    assert len(curve) == EPOCHS and curve[-1] < curve[0] / 2, lines
    single.extend(curve)


@pytest.mark.usefixtures("needs_torch")
@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_learn_as_one_process_does(train, single, cluster, shape):
    assert single, "there is no curve of one process to compare with"
    ranks, hosts = SHAPES[shape]
    checkpoint = f"/tmp/digits-{ranks}.pt"
    lines = train(ranks, hosts, "horovod_torch_digits.py", *digits_arguments(ranks), "--checkpoint", checkpoint)
    print("one process", single, "ranks", losses(lines))
    assert f"checked {STEPS} steps of {ranks} ranks" in lines
    # fp32 has 6e-8; every one of the steps adds to that, and learning makes it more.
    assert losses(lines) == pytest.approx(single, rel=1e-4)
    written = {host: cluster.path(host, checkpoint).exists() for host in ("n1", "n2")}
    assert written == {"n1": True, "n2": False}, "rank 0 alone writes it"


@pytest.mark.usefixtures("needs_torch")
@pytest.mark.parametrize("shape", SHAPES)
def test_fp16_compression(train, shape):
    """16 bits cost little: the last loss is that of 32 bits but for a hundredth of the first one."""
    ranks, hosts = SHAPES[shape]
    arguments = ["--epochs", "3", "--batch-size", str(32 // ranks), "--base-lr", str(0.1 / ranks)]
    curve = losses(train(ranks, hosts, "horovod_fp16_digits.py", *arguments))
    exact = losses(train(ranks, hosts, "horovod_fp16_digits.py", *arguments, "--no-fp16-allreduce"))
    assert len(curve) == len(exact) == 3 and curve[-1] < curve[0] / 2, curve
    assert curve != exact, "nothing was compressed"
    assert curve == pytest.approx(exact, abs=exact[0] / 100)


@pytest.mark.usefixtures("needs_torch")
@pytest.mark.parametrize("shape", SHAPES)
def test_train_func_of_a_larger_program(train, shape):
    """It trains twice in one process, the second time what was pruned."""
    ranks, hosts = SHAPES[shape]
    lines = train(ranks, hosts, "horovod_train_func.py")
    said = re.fullmatch(rf"accuracy ([\d.]+); (\d+)% of the weights pruned: ([\d.]+), trained again: ([\d.]+) \({ranks} ranks\)",
                        lines[0])
    assert said, lines
    dense, sparsity, pruned, tuned = map(float, said.groups())
    assert dense > 0.8 and tuned > 0.8 and tuned >= pruned and 60 < sparsity < 75, lines


@pytest.mark.parametrize("peer", ["tensorflow", "tensorflow-keras3"])
@pytest.mark.parametrize("shape", SHAPES)
def test_tensorflow(train, shape, peer):
    """From different weights on each rank, which the script makes those of rank 0 after the first step."""
    python = BIN_DIR.parent / f"peers/{peer}/bin/python"
    if not python.exists():
        pytest.skip("TensorFlow is not installed: tools/peers tensorflow")
    ranks, hosts = SHAPES[shape]
    lines = train(ranks, hosts, "horovod_tensorflow2_digits.py", "--steps", "160", "--batch-size", str(GLOBAL_BATCH // ranks),
                  checked=[str(python), CHECKED_TENSORFLOW])
    assert f"checked {160 // ranks} steps of {ranks} ranks" in lines
    curve = losses(lines)
    assert len(curve) == 160 // ranks // 10 and curve[-1] < curve[0], lines
