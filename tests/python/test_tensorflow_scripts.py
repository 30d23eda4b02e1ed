"""Scripts with TensorFlow as a whole: the example, and how ranks end."""

import re

import pytest
from conftest import REPOSITORY

PEERS = REPOSITORY / "build/release/peers"
EXAMPLE = str(REPOSITORY / "examples/horovod_tensorflow2_digits.py")
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}

ENDS = """
import os, signal, sys
import horovod.tensorflow as hvd, tensorflow as tf
hvd.init()

@tf.function
def step(x):
    return hvd.allreduce(x)

step(tf.ones(3))
if hvd.rank() == 1:
    {end}
try:
    step(tf.ones(3))
except tf.errors.UnknownError as failure:
    print("told:", *[line for line in failure.message.splitlines() if "HorovodInternalError" in line][:1], flush=True)
"""


@pytest.fixture(params=["tensorflow", "tensorflow-keras3"])
def interpreter(request):
    """The Python of each environment that has TensorFlow."""
    python = PEERS / request.param / "bin/python"
    if not python.exists():
        pytest.skip("tools/peers tensorflow was not run")
    return str(python)


def test_the_example_learns(hvdrun, interpreter, tmp_path):
    done = hvdrun(["-np", "2", "--horovod", "muster", interpreter, EXAMPLE, "--steps", "100", "--checkpoint",
                   str(tmp_path / "digits")], **QUIET)
    assert done.returncode == 0, done
    losses = [float(loss) for loss in re.findall(r"^\[0\]<stdout>:step \d+: loss ([0-9.]+) \(2 ranks\)$", done.stdout,
                                                 re.MULTILINE)]
    assert len(losses) == 5 and losses[-1] < losses[0] / 2, done
    assert (tmp_path / "digits-1.index").exists()


@pytest.mark.parametrize("end, code", [("os.kill(os.getpid(), signal.SIGKILL)", 137), ("os._exit(3)", 3),
                                       ("sys.exit(4)", 4), ("raise KeyError('mine')", 1)])
def test_a_rank_that_ends_is_named_by_the_other_which_ends_by_itself(hvdrun, interpreter, end, code):
    done = hvdrun(["-np", "2", "--horovod", "muster", "--keep-going", interpreter, "-c", ENDS.format(end=end)], **QUIET)
    assert done.returncode == code, done
    told = re.findall(r"^\[0\]<stdout>:told: (.*)$", done.stdout, re.MULTILINE)
    assert len(told) == 1 and "HorovodInternalError: rank 1 " in told[0], done
    assert "rank 0" not in done.stderr.splitlines()[-1], done
