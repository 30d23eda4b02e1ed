"""Frameworks that find their processes by variables: JAX and TensorFlow, unmodified, over two hosts. Installed by
tools/peers; skipped without. JAX's gloo listens at the address of the host's own name, whatever interface it is told."""

import pytest
from conftest import BIN_DIR

TRAINING = 240.0

JAX = """
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize()
import jax.numpy as jnp
from jax.experimental.multihost_utils import process_allgather
seen = process_allgather(jnp.array([jax.process_index()]))
print("processes", jax.process_count(), "sum", int(seen.sum()), flush=True)
"""

TENSORFLOW = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
@tf.function
def step():
    context = tf.distribute.get_replica_context()
    one = tf.cast(context.replica_id_in_sync_group, tf.float32) + 1.0
    return context.all_reduce(tf.distribute.ReduceOp.SUM, one)
values = strategy.experimental_local_results(strategy.run(step))
print("replicas", strategy.num_replicas_in_sync, "sum", float(values[0]), flush=True)
"""


def python_of(peer, what):
    path = BIN_DIR.parent / f"peers/{peer}/bin/python"
    if not path.exists():
        pytest.skip(f"{what} is not installed: tools/peers {what}")
    return path


@pytest.mark.compat("jax-0.6", "0.6.2")
def test_jax(hvdrun, own_names, no_leftovers):
    python = python_of("jax", "jax")
    result = hvdrun(["-np", "3", "-H", "n1:2,n2:1", "--runtime", "jax", python, "-c", JAX], timeout=TRAINING)
    assert result.rc == 0 and result.stdout.count("processes 3 sum 3") == 3, result


@pytest.mark.compat("jax-0.6", "0.6.2")
def test_jax_told_by_its_script(hvdrun, own_names, no_leftovers):
    """Without --runtime the address is there, and who it is in variables that a script reads."""
    python = python_of("jax", "jax")
    told = JAX.replace("initialize()", "initialize(num_processes=int(os.environ['JAX_NUM_PROCESSES']), "
                                       "process_id=int(os.environ['JAX_PROCESS_ID']))")
    result = hvdrun(["-np", "2", "-H", "n1:1,n2:1", python, "-c", "import os\n" + told], timeout=TRAINING)
    assert result.rc == 0 and result.stdout.count("processes 2 sum 1") == 2, result


@pytest.mark.compat("tensorflow-multi", "2.15.1")
def test_tensorflow(hvdrun, no_leftovers):
    python = python_of("tensorflow", "tensorflow")
    result = hvdrun(["-np", "3", "-H", "n1:2,n2:1", "--runtime", "tensorflow", python, "-c", TENSORFLOW],
                    timeout=TRAINING)
    assert result.rc == 0 and result.stdout.count("replicas 3 sum 6.0") == 3, result
