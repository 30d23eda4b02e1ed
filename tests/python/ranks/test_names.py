"""Operations without a name are matched by their order, in every process set by itself."""

import numpy as np
import pytest

import muster.numpy as hvd
from muster import world


def test_what_a_process_set_does_does_not_count_for_others():
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    some = hvd.add_process_set(list(range(1, hvd.size())))
    if some.included():
        assert hvd.allreduce(np.ones(2), op=hvd.Sum, process_set=some).tolist() == [hvd.size() - 1] * 2
        assert hvd.broadcast(np.array([hvd.rank()]), 1, process_set=some).tolist() == [1]
        assert hvd.allgather_object(hvd.rank(), process_set=some) == some.ranks
        hvd.barrier(some)
    assert hvd.allreduce(np.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2
    assert hvd.broadcast(np.array([hvd.rank()]), 1).tolist() == [1]
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))
    hvd.barrier()
    assert hvd.remove_process_set(some)


def test_names_come_again(monkeypatch):
    """They are kept, by a timeline above all."""
    monkeypatch.setattr(world, "_MOST_NAMES", 3)
    for i in range(8):
        assert hvd.allreduce(np.full(2, i), op=hvd.Sum).tolist() == [i * hvd.size()] * 2
    assert len({world.operation_name("allreduce", None) for _ in range(9)}) == 3


def test_names_are_the_same_again_when_all_have_joined():
    for batch in range(hvd.rank()):  # a rank has fewer batches than the next one
        assert hvd.allreduce(np.ones(2), op=hvd.Sum).tolist() == [hvd.size() - 1 - batch] * 2
    assert 0 <= hvd.join() < hvd.size()
    assert hvd.allreduce(np.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2
    assert hvd.allgather(np.array([hvd.rank()])).tolist() == list(range(hvd.size()))
