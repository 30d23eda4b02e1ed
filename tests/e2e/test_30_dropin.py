"""Muster's `horovod` between hosts: hvdrun, muster submit and horovod.run() give it to all ranks."""

import pytest
from conftest import BIN_DIR
from console import PYTHON
from launcherd_user import Launcherd

SHOW = [PYTHON, "-c", "import horovod, muster.numpy as hvd; hvd.init(); "
        "print(horovod.__version__, hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_rank())"]
EXPECTED = [f"[{rank}]<stdout>:0.28.1 {rank} 4 {rank % 2} {rank // 2}" for rank in range(4)]
HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]

CALLER = """
import sys
sys.path.append("/tmp")
import horovod, of_a_module
print(horovod.run(of_a_module.add, args=(10,), np=4, hosts="n1:2,n2:2"))
"""
MODULE = """
def add(base):
    import muster.numpy as hvd
    import numpy as np
    hvd.init()
    return hvd.rank(), hvd.cross_rank(), float(hvd.allreduce(np.array(base + hvd.rank()), op=hvd.Sum))
"""


@pytest.fixture
def launcherd(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster)
    yield daemon
    daemon.close()


def test_hvdrun(hvdrun, no_leftovers):
    done = hvdrun([*HOSTS, *SHOW])
    assert done.rc == 0 and sorted(done.stdout.splitlines()) == EXPECTED, done
    assert done.stderr.count("muster: horovod is Muster's") == 1, done


def test_submit(launcherd):
    job = launcherd.submit(*HOSTS, "--horovod", "muster", *SHOW)
    assert launcherd.asked("wait", job) == ""
    assert sorted(launcherd.muster("logs", job).stdout.splitlines()) == EXPECTED


def test_run(hvdrun, cluster, no_leftovers):
    """Called on a host that has no rank."""
    modules = [cluster.path(host, "/tmp/of_a_module.py") for host in ("head", "n1", "n2")]
    for module in modules:
        module.write_text(MODULE)
    python = BIN_DIR.parent / "python"
    try:
        called = hvdrun([], argv=[PYTHON, "-c", CALLER], env={"PYTHONPATH": f"{python}:{python}/muster/dropin"})
    finally:
        for module in modules:
            module.unlink()
    assert called.rc == 0 and called.stdout.splitlines()[-1] == str([(r, r // 2, 46.0) for r in range(4)]), called
