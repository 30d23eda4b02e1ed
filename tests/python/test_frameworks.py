"""The tests of frameworks that tools/peers installs, each by the framework's own Python; `muster compat` shows them."""

import pytest
from conftest import REPOSITORY

RANKS = REPOSITORY / "tests/python/ranks"
KERAS_2 = ("tensorflow", pytest.mark.compat("tensorflow-2.15", "2.15.1"))
KERAS_3 = ("tensorflow-keras3", pytest.mark.compat("tensorflow-2.21", "2.21.0"))
MXNET = ("mxnet", pytest.mark.compat("mxnet-1.9", "1.9.1"))


def cases(peer_and_mark, *files, ranks=(1, 2, 3)):
    """A test for each file and number of ranks."""
    peer, mark = peer_and_mark
    return [pytest.param(peer, file, count, marks=mark, id=f"{peer}-{file}-{count}")
            for file in files for count in ranks]


TENSORFLOW = ("test_tensorflow", "test_tensorflow_horovod", "test_tensorflow_sessions", "test_keras")


@pytest.mark.parametrize("peer, file, ranks", [*cases(KERAS_2, *TENSORFLOW), *cases(KERAS_3, *TENSORFLOW, ranks=(1, 2)),
                                               *cases(MXNET, "test_mxnet")])
def test_on_ranks(hvdrun, peer, file, ranks):
    python = REPOSITORY / "build/release/peers" / peer / "bin/python"
    if not python.exists():
        pytest.skip(f"{peer} is not installed: tools/peers {peer.split('-')[0]}")
    done = hvdrun(["-np", str(ranks), "--oversubscribe", "--horovod", "muster", str(python), "-m", "pytest", "-q", "-x",
                   "-p", "no:cacheprovider", str(RANKS / f"{file}.py")])
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.count(" passed") == ranks, done.stdout
