"""Every function of muster.numpy against what NumPy computes from all ranks' arrays, and what it refuses."""

import os
import sys

import numpy as np
import pytest

import muster
import muster.numpy as hvd
from muster import world

TYPES = [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64]
REDUCTIONS = {hvd.Sum: lambda all_: sum(all_), hvd.Min: np.minimum.reduce, hvd.Max: np.maximum.reduce,
              hvd.Product: np.multiply.reduce}


def of_rank(rank, shape, dtype=np.float32):
    """The array of a rank: small whole numbers, so that results are exact."""
    count = int(np.prod(shape, dtype=np.int64))
    return (np.arange(count) % 5 + rank + 1).astype(dtype).reshape(shape)


def of_all(shape, dtype=np.float32):
    return [of_rank(rank, shape, dtype) for rank in range(hvd.size())]


def mine(shape, dtype=np.float32):
    return of_rank(hvd.rank(), shape, dtype)


def test_topology():
    assert hvd.is_initialized()
    assert 0 <= hvd.rank() < hvd.size() == int(os.environ.get("MUSTER_SIZE", "1"))
    assert (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()) == (hvd.rank(), hvd.size(), 0, 1)
    assert hvd.is_homogeneous() and hvd.gloo_built() and not hvd.mpi_enabled()
    assert hvd.nccl_built() == 0 or hvd.cuda_built()
    hvd.init()  # does nothing


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (17, 3), (2, 0, 3), (300, 7, 11)])
def test_allreduce(dtype, op, shape):
    expected = np.asarray(REDUCTIONS[op](of_all(shape, dtype)), dtype)
    given = mine(shape, dtype)
    result = hvd.allreduce(given, op=op)
    assert result.dtype == dtype and result.shape == shape and (result == expected).all()
    assert (given == mine(shape, dtype)).all()
    assert hvd.allreduce_(given, op=op) is given and (given == expected).all()


def test_bool_is_or_and_and():
    own = np.array([True, False, hvd.rank() == 0])
    assert hvd.allreduce(own, op=hvd.Sum).tolist() == hvd.allreduce(own, op=hvd.Max).tolist() == [True, False, True]
    assert hvd.allreduce(own, op=hvd.Min).tolist() == [True, False, hvd.size() == 1]
    with pytest.raises(ValueError, match="bool has no average"):
        hvd.allreduce(own)


def test_average_and_scales():
    given = mine((5,), np.float64)
    added = sum(of_all((5,), np.float64))
    assert np.allclose(hvd.allreduce(given), added / hvd.size())
    assert np.allclose(hvd.allreduce(given, average=True), added / hvd.size())
    assert np.allclose(hvd.allreduce(given, average=False), added)
    assert np.allclose(hvd.allreduce(given, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3), added * 1.5)
    assert hvd.allreduce(np.array([-7], np.int32)).tolist() == [-7]
    with pytest.raises(ValueError, match="and not both"):
        hvd.allreduce(given, average=True, op=hvd.Sum)


def test_not_a_number_and_infinity_pass_through():
    given = np.array([np.nan if hvd.rank() == 0 else 1, np.inf, -np.inf, 1], np.float32)
    result = hvd.allreduce(given, op=hvd.Sum)
    assert np.isnan(result[0]) and result[1] == np.inf and result[2] == -np.inf and result[3] == hvd.size()


def test_arrays_that_are_not_contiguous():
    given = mine((6, 8)).T[::2]
    assert (hvd.allreduce(given, op=hvd.Sum) == sum(array.T[::2] for array in of_all((6, 8)))).all()
    with pytest.raises(ValueError, match="contiguous, writable"):
        hvd.allreduce_(given)
    with pytest.raises(ValueError, match="contiguous, writable"):
        hvd.broadcast_(np.broadcast_to(1.0, (3,)), 0)


def test_groups():
    arrays = [mine((3,)), mine((2, 2), np.float64), mine((0,), np.int64)]
    expected = [sum(of_all(array.shape, array.dtype)) for array in arrays]
    for made, wanted in zip(hvd.grouped_allreduce(arrays, op=hvd.Sum), expected):
        assert made.dtype == wanted.dtype and (made == wanted).all()
    gathered = hvd.grouped_allgather([mine((2, 3)), mine((hvd.rank(), 1))])
    assert gathered[0].shape == (2 * hvd.size(), 3) and gathered[1].shape == (sum(range(hvd.size())), 1)
    scattered = hvd.grouped_reducescatter([mine((hvd.size(), 2)), mine((2 * hvd.size(),))], op=hvd.Sum)
    assert (scattered[0] == sum(of_all((hvd.size(), 2)))[hvd.rank()]).all() and scattered[1].shape == (2,)
    hvd.grouped_allreduce_(arrays, op=hvd.Sum)
    assert all((array == wanted).all() for array, wanted in zip(arrays, expected))


@pytest.mark.parametrize("dtype", TYPES + [np.bool_, np.uint16, np.uint32, np.uint64])
def test_allgather_of_different_lengths(dtype):
    own = np.full((hvd.rank(), 2), hvd.rank() % 2, dtype)
    result = hvd.allgather(own)
    expected = np.concatenate([np.full((rank, 2), rank % 2, dtype) for rank in range(hvd.size())])
    assert result.dtype == dtype and (result == expected).all() and result.shape == expected.shape
    with pytest.raises(ValueError, match="no rows"):
        hvd.allgather(np.array(1, dtype))


def test_results_outlive_their_operation_and_may_be_written():
    results = [hvd.allgather(np.full((1000,), i + hvd.rank())) for i in range(20)]
    for i, result in enumerate(results):
        assert result[0] == i and result[-1] == i + hvd.size() - 1
        result += 1


@pytest.mark.parametrize("dtype", TYPES + [np.bool_, np.uint16])
def test_broadcast(dtype):
    root = hvd.size() - 1
    own = np.full((3, 2), hvd.rank() % 2, dtype)
    result = hvd.broadcast(own, root)
    assert (result == root % 2).all() and (own == hvd.rank() % 2).all()
    assert hvd.broadcast_(own, root) is own and (own == root % 2).all()
    with pytest.raises(ValueError, match="root_rank"):
        hvd.broadcast(own, hvd.size())


def test_alltoall():
    ranks = hvd.size()
    own = np.arange(2 * ranks) + 100 * hvd.rank()
    expected = np.concatenate([np.arange(2) + 2 * hvd.rank() + 100 * rank for rank in range(ranks)])
    assert (hvd.alltoall(own) == expected).all()
    # r + 1 rows to rank r, and from every rank as many.
    rows = np.repeat(np.arange(ranks), np.arange(ranks) + 1)
    made, received = hvd.alltoall(rows, splits=[rank + 1 for rank in range(ranks)])
    assert received.tolist() == [hvd.rank() + 1] * ranks and (made == hvd.rank()).all()
    with pytest.raises(ValueError, match="a split for each of"):
        hvd.alltoall(rows, splits=[1] * (ranks + 1))
    with pytest.raises(ValueError, match="do not distribute"):
        hvd.alltoall(rows, splits=[0] * ranks)
    if ranks > 1:
        with pytest.raises(ValueError, match="evenly"):
            hvd.alltoall(np.ones(ranks + 1))


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product])
def test_reducescatter(op):
    ranks, rank = hvd.size(), hvd.rank()
    shape = (ranks + 1, 2)  # the first rank gets a row more
    if op == hvd.Average:
        whole = sum(of_all(shape, np.float64)) / ranks
    else:
        whole = REDUCTIONS[op](of_all(shape, np.float64))
    expected = whole[:2] if rank == 0 else whole[rank + 1:rank + 2]
    assert np.allclose(hvd.reducescatter(mine(shape, np.float64), op=op), expected)
    assert hvd.reducescatter(np.ones((2 * ranks, 0)), op=op).shape == (2, 0)
    with pytest.raises(ValueError, match="Adasum is for allreduce only"):
        hvd.reducescatter(np.ones(2), op=hvd.Adasum)


def test_reducescatter_scales_before_and_after():
    given = np.full((hvd.size(),), 3, np.float32)
    made = hvd.reducescatter(given, op=hvd.Product, prescale_factor=2, postscale_factor=0.5)
    assert made.tolist() == [6 ** hvd.size() / 2]


def test_adasum_of_equal_vectors_is_the_vector():
    if hvd.size() & (hvd.size() - 1):
        with pytest.raises(ValueError, match="a power of two"):
            hvd.allreduce(np.ones(4), op=hvd.Adasum)
    else:
        assert np.allclose(hvd.allreduce(np.arange(4.0), op=hvd.Adasum), np.arange(4.0))


def test_handles():
    handle = hvd.allreduce_async(np.ones(3), name="handled", op=hvd.Sum)
    result = hvd.synchronize(handle)
    assert result.tolist() == [hvd.size()] * 3
    assert hvd.synchronize(handle) is None and hvd.synchronize(10 ** 9) is None
    with pytest.raises(ValueError, match=r"handle \d+ is unknown"):
        hvd.poll(handle)
    handle = hvd.broadcast_async(np.ones(1), 0)
    hvd.barrier()  # later than what was submitted before
    assert hvd.poll(handle) in (True, False)
    hvd.synchronize(handle)


def test_operations_in_any_order():
    names = [f"any{i}" for i in range(50)]
    order = names if hvd.rank() % 2 == 0 else names[::-1]
    handles = {name: hvd.allreduce_async(np.full(3, names.index(name)), name=name, op=hvd.Sum) for name in order}
    for i, name in enumerate(names):
        assert hvd.synchronize(handles[name]).tolist() == [i * hvd.size()] * 3


def test_a_name_is_taken_until_it_is_done():
    handle = hvd.allreduce_async(np.ones(2), name="taken") if hvd.rank() == 0 else None
    if handle is not None and hvd.size() > 1:
        with pytest.raises(ValueError, match="'allreduce.taken' is in flight"):
            hvd.allreduce_async(np.ones(2), name="taken")
    hvd.barrier()
    hvd.synchronize(handle if handle is not None else hvd.allreduce_async(np.ones(2), name="taken"))


@pytest.mark.parametrize("other", ["shape", "dtype", "op", "kind", "root", "scale"])
def test_what_ranks_want_differently_fails_on_all_and_the_job_goes_on(other):
    if hvd.size() == 1:
        pytest.skip("needs two ranks")
    odd = hvd.rank() == 1
    calls = {"shape": lambda: hvd.allreduce(np.ones(3 if odd else 4), name="odd"),
             "dtype": lambda: hvd.allreduce(np.ones(4, np.float32 if odd else np.float64), name="odd"),
             "op": lambda: hvd.allreduce(np.ones(4), name="odd", op=hvd.Max if odd else hvd.Min),
             "kind": lambda: hvd.synchronize(world_allgather("allreduce.odd") if odd
                                             else hvd.allreduce_async(np.ones(4), name="odd")),
             "root": lambda: hvd.broadcast(np.ones(4), 1 if odd else 0, name="odd"),
             "scale": lambda: hvd.allreduce(np.ones(4), name="odd", prescale_factor=2.0 if odd else 1.0)}
    with pytest.raises(hvd.HorovodInternalError, match=r"ranks differ in '\w+.odd': rank 0 wants .*, rank 1 wants"):
        calls[other]()
    assert hvd.allreduce(np.ones(2), name="odd", op=hvd.Sum).tolist() == [hvd.size()] * 2


def world_allgather(name):
    from muster import _library as lib
    from muster import engine
    array = np.ones(4)
    ticket = world.submit(lib.ALLGATHER, name, [engine.Buffer(array.ctypes.data, 0, lib.FLOAT64, (4,), array)])
    return engine.handles.add(ticket, lambda done: done.output())


def test_join_with_uneven_data():
    for _ in range(hvd.rank() + 1):
        assert hvd.allreduce(np.ones(4), name="batch", op=hvd.Sum)[0] >= 1
    handle = hvd.allreduce_async(np.ones(2), name="last", op=hvd.Sum) if hvd.rank() == hvd.size() - 1 else None
    assert hvd.join() == hvd.size() - 1
    if handle is not None:
        assert hvd.synchronize(handle)[0] == 1
    assert hvd.allreduce(np.ones(1), op=hvd.Sum)[0] == hvd.size()


def test_objects():
    made = hvd.broadcast_object({"rank": hvd.rank(), "text": "x" * 1000}, root_rank=hvd.size() - 1)
    assert made["rank"] == hvd.size() - 1 and len(made["text"]) == 1000
    assert hvd.allgather_object(["a"] * hvd.rank()) == [["a"] * rank for rank in range(hvd.size())]


def test_process_sets():
    if hvd.size() < 3:
        pytest.skip("needs three ranks")
    others = hvd.add_process_set(np.arange(1, hvd.size()))
    assert others.ranks == list(range(1, hvd.size())) and others.size() == hvd.size() - 1
    named = f"process_set_id={others.process_set_id}, ranks={others.ranks}"
    assert str(others) == f"ProcessSet({named}, mpi_comm=None)"  # as Horovod prints it
    assert hvd.get_process_set_by_id(others.process_set_id) is others
    assert others.process_set_id in hvd.process_set_ids()
    with pytest.raises(ValueError, match="already"):
        hvd.add_process_set(list(range(1, hvd.size())))
    if not others.included():
        with pytest.raises(ValueError, match="rank 0 is not in"):
            hvd.allreduce(np.ones(1), process_set=others)
    else:
        assert others.rank() == hvd.rank() - 1
        assert hvd.broadcast(np.array([hvd.rank()]), 2, process_set=others).tolist() == [2]
        with pytest.raises(ValueError, match="root_rank 0 is not in"):
            hvd.broadcast(np.ones(1), 0, process_set=others)
        # In messages, ranks are those of the world.
        with pytest.raises(hvd.HorovodInternalError, match="rank 1 wants .*, rank 2 wants"):
            hvd.allreduce(np.ones(3 if hvd.rank() == 2 else 4), name="odd", process_set=others)
    assert hvd.remove_process_set(others) and not hvd.remove_process_set(others)
    assert others.size() is None and others.included() is None
    with pytest.raises(ValueError, match="was not added, or was removed: give it to init"):
        hvd.alltoall(np.ones(2), process_set=others)


def test_process_sets_that_are_none():
    for ranks, message in [([0, 0], "twice"), ([hvd.size()], "only ranks from 0"), ([-1], "only ranks from 0"),
                           ([], "only ranks from 0"), (["a"], "not a list of ranks"), (7, "not a list of ranks")]:
        with pytest.raises(ValueError, match=message):
            hvd.add_process_set(ranks)
    if hvd.size() > 1:
        with pytest.raises(ValueError, match="ranks differ in the process set"):
            hvd.add_process_set([hvd.rank()])


def test_a_timeline(tmp_path):
    import json
    file = tmp_path / "timeline.json"
    hvd.start_timeline(str(file), mark_cycles=True)
    hvd.allreduce(np.ones(2), name="shown")
    hvd.barrier()
    hvd.stop_timeline()
    if hvd.rank() == 0:
        assert any(event.get("args", {}).get("name") == "allreduce.shown" for event in json.loads(file.read_text()))


def test_a_forked_child_may_ask_who_it_is_and_nothing_else():
    handle = hvd.allreduce_async(np.ones(2), name="forked")
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (lambda: hvd.allreduce(np.ones(2)), hvd.stop_timeline, hvd.barrier):
            try:
                call()
            except ValueError:
                refused += 1
        hvd.shutdown()
        os._exit(0 if refused == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
    hvd.synchronize(handle)


def test_leaving_and_coming_back():
    before = hvd.rank(), hvd.size()
    for _ in range(3):
        hvd.shutdown()
        assert not hvd.is_initialized()
        with pytest.raises(ValueError, match="call init"):
            hvd.rank()
        hvd.init()
        assert (hvd.rank(), hvd.size()) == before
        assert hvd.allreduce(np.ones(1), op=hvd.Sum)[0] == hvd.size()


def test_a_world_of_some_ranks():
    if hvd.size() < 3:
        pytest.skip("needs three ranks")
    rank, size = hvd.rank(), hvd.size()
    hvd.shutdown()
    with pytest.raises(ValueError, match="twice"):
        hvd.init(comm=[0, 0])
    hvd.init(comm=[1, 2], process_sets="dynamic")
    assert (hvd.size(), hvd.rank()) == ((2, rank - 1) if rank in (1, 2) else (1, 0))
    assert hvd.allreduce(np.ones(1), op=hvd.Sum)[0] == hvd.size()
    hvd.shutdown()
    hvd.init(process_sets=[hvd.ProcessSet([0, size - 1])])
    assert hvd.size() == size and hvd.process_set_ids() == [0, 1]


@pytest.mark.parametrize("wrong, message", [("all", "neither a list nor 'dynamic'"), (7, "neither a list"),
                                            ([[0, 0]], "twice"), ([None], "exists already"),
                                            ([[0], [1 << 20]], "only ranks from 0|already"),
                                            ([[0], [0]], "already")])
def test_process_sets_that_init_cannot_add(wrong, message):
    """It can be called again, and adds those that it is given then."""
    right = [hvd.ProcessSet([0])] if hvd.size() > 1 else []  # a world of one has that set as its own
    hvd.shutdown()
    with pytest.raises(ValueError, match=message):
        hvd.init(process_sets=wrong)
    assert not hvd.is_initialized()
    hvd.init(process_sets=right)
    assert hvd.process_set_ids() == [0, 1][:1 + len(right)]
    assert hvd.allreduce(np.ones(1), op=hvd.Sum)[0] == hvd.size()
    assert all(hvd.remove_process_set(each) for each in right)


def test_registered_arrays_are_reduced_in_place():
    array = hvd.empty_registered((300, 1000))
    assert array.shape == (300, 1000) and array.dtype == np.float32 and not array.any()
    for step in range(3):
        array[:] = hvd.rank() + step
        hvd.allreduce_(array, op=hvd.Sum)
        assert (array == sum(range(hvd.size())) + step * hvd.size()).all()
    assert muster.empty_registered(3, "int64", name="named").dtype == np.int64
    assert hvd.empty_registered((2, 0)).shape == (2, 0)
    with pytest.raises(ValueError, match="not supported"):
        hvd.empty_registered(3, np.complex64)
    hvd.shutdown()
    array += 1  # still this process's
    hvd.init()


def test_registered_arrays_have_one_size():
    if hvd.size() > 1:
        with pytest.raises(hvd.HorovodInternalError, match="ranks differ in 'registered.other': rank 0 wants buffer of uint8"):
            hvd.empty_registered(10 + hvd.rank(), name="other")


def test_frameworks_are_not_imported():
    assert "tensorflow" not in sys.modules and "mxnet" not in sys.modules
