"""Backend "muster" of torch.distributed, for tensors of the CPU and of one GPU (CUDA) for each rank.

    import muster.torch.distributed

    torch.distributed.init_process_group("muster")
    model = torch.nn.parallel.DistributedDataParallel(model)

Operations of a group run in the order of the calls. The order must be the same on all ranks of the group.
Errors: if ranks differ or have ended, wait() raises HorovodInternalError on all ranks, and the group has ended.
DistributedDataParallel raises a RuntimeError with the same message.
Time limit: if this backend joins the job, the group's `timeout` limits operations without progress. If
muster.torch.init() was called before, or MUSTER_OPERATION_TIMEOUT is set, that limit stays.
Messages between two ranks arrive in the order in which they were sent. Their tags must agree; they do not select
messages.
Not supported: recv from any rank, bitwise reductions, sparse tensors.

On a GPU an operation runs after the present work of the current stream, and in parallel with the stream's later work.
wait() returns when the operation is done. The tensors of allreduce, broadcast and alltoall stay on the GPU. So do those
of allgather and reduce_scatter, if all have the same size. All other tensors are copied to the host and back. No part
of this has run on a GPU yet.
"""

import inspect
import itertools
import weakref

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ReduceOp

from muster import _library as lib
from muster import requests, world
from muster.torch import tensors as memory
from muster.torch.on_stream import OnStream
from muster.torch.work import MusterWork

_OPS = ((ReduceOp.SUM, lib.OP_SUM), (ReduceOp.AVG, lib.OP_AVG), (ReduceOp.MIN, lib.OP_MIN), (ReduceOp.MAX, lib.OP_MAX),
        (ReduceOp.PRODUCT, lib.OP_PROD))


def _op_of(options):
    if options is None:
        return lib.OP_SUM
    for op, ours in _OPS:
        if options.reduceOp == op:
            return ours
    named = [name for name in ("BAND", "BOR", "BXOR", "PREMUL_SUM") if options.reduceOp == getattr(ReduceOp, name, None)]
    raise ValueError(f"backend muster has no reduction {' '.join(named)}: use SUM, AVG, MIN, MAX or PRODUCT")


def _root_of(options):
    return 0 if options is None else options.rootRank


def _only(tensors):
    if len(tensors) != 1:
        raise ValueError(f"backend muster needs one tensor per call, not {len(tensors)}")
    return tensors[0]


def _flat(tensors, on_gpu=False):
    """Returns one tensor with the elements of all tensors, on their GPU or on the host."""
    return torch.cat([(tensor.detach() if on_gpu else tensor.detach().cpu()).reshape(-1) for tensor in tensors])


def _room_for(tensors, on_gpu=False):
    """Returns a new tensor with room for the elements of all tensors, on their GPU or on the host."""
    return memory.new((sum(tensor.numel() for tensor in tensors),), tensors[0].dtype,
                      tensors[0].device if on_gpu else "cpu")


def _share_out(flat, tensors):
    """Copies the elements of `flat` to the tensors, in order."""
    for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
        memory.copy_out(tensor, part.view(tensor.shape))


def _copying_back(tensors, copies):
    """Returns a function that copies the results of an operation in place back to `tensors`. None if nothing must be
    copied, so that the MusterWork makes no CUDA events either."""
    if all(copy is None for copy in copies):
        return None

    def finish():
        for tensor, copy in zip(tensors, copies):
            memory.copy_back(tensor, copy)

    return finish


class MusterProcessGroup(dist.ProcessGroup):
    """A group of ranks with a communicator of libmuster. torch.distributed creates it. The methods have the same
    arguments as those of other process groups."""

    def __init__(self, rank, size, ranks, name=""):
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._world = world.current()
        self._comm = world.communicator_of(ranks)
        # Don't release the communicator at Python's end, because shutdown() frees it.
        weakref.finalize(self, world.release, self._comm, self._world).atexit = False
        self._gpu = None  # an OnStream, once the group has had tensors of a GPU

        self._called = itertools.count(1)
        self._last_call = 0
        self._group_name, self._group_desc = name, ""

    def getBackendName(self):
        """Returns "muster"."""
        return "muster"

    # Since torch 2, groups have names, and DTensor, FSDP and device meshes find groups by name. Since 2.2, torch sets
    # the names. Python code reads the properties. C++ code calls the functions.
    def _set_group_name(self, name):
        self._group_name = name

    def getGroupName(self):
        """Returns the name that torch.distributed has set."""
        return self._group_name

    group_name = property(getGroupName)

    def _set_group_desc(self, description):
        self._group_desc = description

    def getGroupDesc(self):
        """Returns the user's description of the group."""
        return self._group_desc

    group_desc = property(getGroupDesc)

    def _set_sequence_number_for_group(self):
        """Does nothing, because the group counts operations from its beginning."""

    def _get_sequence_number_for_group(self):
        """Returns the number of libmuster's operations that this rank has started in the group. If no rank sends
        messages, the number is the same on all ranks."""
        return self._last_call

    @property
    def device_path(self):
        """The path on which this group sends tensors of a GPU: "nccl", "ipc" or "staged", in libmuster's order of
        preference. None if the group had no such tensor yet, or if muster's shutdown() has ended the group."""
        return self._gpu.path if self._has_gpu() else None

    @property
    def device_path_reason(self):
        """The reason why the group does not use a preferred path (see device_path), such as "not nccl: ranks share a
        GPU". Empty if the group uses "nccl", or if MUSTER_DEVICE_PATH names the path. None if device_path is None."""
        return self._gpu.path_reason if self._has_gpu() else None

    def _has_gpu(self):
        return self._gpu is not None and world.is_current(self._world)

    def _start(self, function, *arguments, keep):
        if not world.is_current(self._world):
            raise ValueError("this process group has ended with muster's shutdown()")
        self._last_call = next(self._called)
        return requests.start(function, self._comm, *arguments, keep=keep)

    def _start_on_gpu(self, function, *arguments, keep):
        if not world.is_current(self._world):
            raise ValueError("this process group has ended with muster's shutdown()")
        self._last_call = next(self._called)
        return self._gpu.start(function, *arguments, keep=keep)

    def _is_on_gpu(self, tensors):
        """Returns True if an operation on these tensors runs on the GPU. The first such call sets the group's GPU.
        ValueError: the group has another GPU."""
        if not memory.stay_on_gpu(tensors):
            return False
        if self._gpu is None:
            self._gpu = OnStream(self._comm, tensors[0].device)
        if self._gpu.device != tensors[0].device:
            raise ValueError(f"this process group works on {self._gpu.device}, but these tensors are on "
                             f"{tensors[0].device}: use one GPU per rank (torch.cuda.set_device())")
        return True

    def _in_place(self, function, tensors, *arguments, is_separate=True, on_gpu=False):
        """Returns a work that writes to `tensors`. `function` takes (communicator, in, out, ...) or (communicator,
        data, ...)."""
        start = self._start_on_gpu if on_gpu else self._start
        copies, started = [], []
        for tensor in tensors:
            buffer, copy = memory.in_place(tensor, on_host=not on_gpu)
            addresses = (buffer.in_, buffer.out) if is_separate else (buffer.in_,)
            count = tensor.numel()
            started.append(start(function, *addresses, count, buffer.dtype, *arguments, keep=buffer))
            copies.append(copy)

        return MusterWork(started, list(tensors), _copying_back(tensors, copies))

    def allreduce(self, tensors, opts=None):
        """Reduces one tensor in place."""
        return self.allreduce_coalesced([_only(tensors)], opts)

    def allreduce_coalesced(self, tensors, opts=None):
        """Reduces several tensors in place."""
        op = _op_of(opts)
        if self._is_on_gpu(tensors):
            return self._in_place(lib.muster_allreduce_on_stream, tensors, op, 1.0, 1.0, on_gpu=True)
        return self._in_place(lib.muster_iallreduce, tensors, op)

    def reduce(self, tensors, opts=None):
        """Reduces in place on the root. The tensors of other ranks stay unchanged."""
        tensor, root = _only(tensors), _root_of(opts)
        if self._rank == root:
            return self._in_place(lib.muster_ireduce, [tensor], _op_of(opts), root)
        source = memory.reading(tensor)
        request = self._start(lib.muster_ireduce, source.in_, None, tensor.numel(), source.dtype, _op_of(opts), root,
                              keep=source)
        return MusterWork([request], [tensor])

    def broadcast(self, tensors, opts=None):
        """Broadcasts one tensor in place."""
        on_gpu = self._is_on_gpu([_only(tensors)])
        return self._in_place(lib.muster_broadcast_on_stream if on_gpu else lib.muster_ibroadcast, tensors,
                              _root_of(opts), is_separate=False, on_gpu=on_gpu)

    def allgather(self, output_lists, input_tensors, opts=None):
        """Gathers one tensor from each rank. The tensors may differ in size."""
        outputs = _only(output_lists)
        return self._gather_into([output.numel() for output in outputs], _only(input_tensors), outputs)

    def allgather_coalesced(self, output_lists, input_tensors, opts=None):
        """Gathers several tensors. `output_lists` contains a list of tensors for each rank. Such a list has one output
        for each input."""
        works = [self.allgather([[outputs[i] for outputs in output_lists]], [tensor])
                 for i, tensor in enumerate(input_tensors)]
        return _all_of(works, output_lists)

    def _allgather_base(self, output, input, opts=None):
        return self._gather_into([input.numel()] * self._size, input, [output])

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        """Gathers several tensors. Each input has one output, with room for all ranks."""
        return _all_of([self._allgather_base(output, tensor) for output, tensor in zip(outputs, inputs)], outputs)

    def _gather_into(self, numbers, tensor, outputs):
        on_gpu = len(set(numbers)) == 1 and self._is_on_gpu([tensor, *outputs])
        room = _room_for(outputs, on_gpu)
        if numbers[self._rank] != tensor.numel() or sum(numbers) != room.numel():
            raise ValueError(f"allgather: the outputs have room for {numbers} elements of the ranks, but this rank has "
                             f"{tensor.numel()}")
        if on_gpu:
            source = memory.reading_on_gpu(tensor)
            request = self._start_on_gpu(lib.muster_allgather_on_stream, source.in_, room.data_ptr(), numbers[0],
                                         source.dtype, keep=(source, room))
        else:
            source = memory.reading(tensor)
            request = self._start(lib.muster_iallgatherv, source.in_, room.data_ptr(), requests.counts(numbers),
                                  source.dtype, keep=(source, room))
        return MusterWork([request], outputs, lambda: _share_out(room, outputs))

    def gather(self, output_lists, input_tensors, opts=None):
        """Gathers to the root, which passes one list of tensors."""
        source, root = memory.reading(_only(input_tensors)), _root_of(opts)
        outputs = _only(output_lists) if self._rank == root else []
        room = _room_for(outputs) if outputs else None
        request = self._start(lib.muster_igather, source.in_, room.data_ptr() if outputs else None, source.keep.numel(),
                              source.dtype, root, keep=(source, room))
        return MusterWork([request], outputs, lambda: _share_out(room, outputs) if outputs else None)

    def scatter(self, output_tensors, input_lists, opts=None):
        """Scatters from the root, which passes one list of tensors."""
        output, root = _only(output_tensors), _root_of(opts)
        flat = _flat(_only(input_lists)) if self._rank == root else None
        target, copy = memory.in_place(output, on_host=True)
        request = self._start(lib.muster_iscatter, None if flat is None else flat.data_ptr(), target.out,
                              output.numel(), target.dtype, root, keep=(flat, target))
        return MusterWork([request], [output], _copying_back([output], [copy]))

    def reduce_scatter(self, output_tensors, input_lists, opts=None):
        """Reduces one list with a tensor for each rank. The tensors may differ in size."""
        inputs = _only(input_lists)
        return self._scatter_from(inputs, [tensor.numel() for tensor in inputs], _only(output_tensors), opts)

    def _reduce_scatter_base(self, output, input, opts=None):
        return self._scatter_from([input], [output.numel()] * self._size, output, opts)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        """Scatters several inputs. Each output has one input, with a part for each rank."""
        return _all_of([self._reduce_scatter_base(output, tensor, opts) for output, tensor in zip(outputs, inputs)],
                       outputs)

    def _scatter_from(self, inputs, numbers, output, opts):
        if numbers[self._rank] != output.numel() or sum(numbers) != sum(tensor.numel() for tensor in inputs):
            raise ValueError(f"reduce_scatter: the inputs have {numbers} elements for the ranks, but the output has "
                             f"room for {output.numel()}")
        op = _op_of(opts)
        on_gpu = len(set(numbers)) == 1 and self._is_on_gpu([output, *inputs])
        flat = inputs[0] if len(inputs) == 1 else _flat(inputs, on_gpu)
        target, copy = memory.in_place(output, on_host=not on_gpu)
        if on_gpu:
            source = memory.reading_on_gpu(flat)
            request = self._start_on_gpu(lib.muster_reduce_scatter_on_stream, source.in_, target.out, numbers[0],
                                         target.dtype, op, keep=(source, target))
        else:
            source = memory.reading(flat)
            request = self._start(lib.muster_ireduce_scatterv, source.in_, target.out, requests.counts(numbers),
                                  target.dtype, op, keep=(source, target))
        return MusterWork([request], [output], _copying_back([output], [copy]))

    def alltoall_base(self, output, input, output_splits, input_splits, opts=None):
        """Splits are numbers of rows. Without splits all ranks get the same number of rows."""
        sent, received = self._elements(input, input_splits), self._elements(output, output_splits)
        on_gpu = self._is_on_gpu([input, output])
        target, copy = memory.in_place(output, on_host=not on_gpu)
        return self._exchange(input, sent, target, received, [output], _copying_back([output], [copy]), on_gpu)

    def alltoall(self, output_tensors, input_tensors, opts=None):
        """Exchanges lists with a tensor for each rank."""
        on_gpu = self._is_on_gpu([*input_tensors, *output_tensors])
        flat, room = _flat(input_tensors, on_gpu), _room_for(output_tensors, on_gpu)
        target, _ = memory.in_place(room, on_host=not on_gpu)
        return self._exchange(flat, [tensor.numel() for tensor in input_tensors], target,
                              [tensor.numel() for tensor in output_tensors], output_tensors,
                              lambda: _share_out(room, output_tensors), on_gpu)

    def _exchange(self, tensor, sent, target, received, outputs, finish, on_gpu):
        source = memory.reading_on_gpu(tensor) if on_gpu else memory.reading(tensor)
        start, function = ((self._start_on_gpu, lib.muster_alltoallv_on_stream) if on_gpu else
                           (self._start, lib.muster_ialltoallv))
        request = start(function, source.in_, requests.counts(sent), target.out, requests.counts(received),
                        source.dtype, keep=(source, target))
        return MusterWork([request], outputs, finish)

    def _elements(self, tensor, splits):
        rows = tensor.shape[0] if tensor.dim() else 0
        if not splits and rows % self._size == 0:
            splits = [rows // self._size] * self._size
        if len(splits) != self._size or sum(splits) != rows:
            raise ValueError(f"alltoall: splits {splits} do not distribute {rows} rows to {self._size} ranks")
        width = tensor.numel() // rows if rows else 0
        return [split * width for split in splits]

    def barrier(self, opts=None):
        """Returns a work that is done when all ranks have called it."""
        return MusterWork([self._start(lib.muster_ibarrier, keep=None)], [])

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Does barrier() and waits. An error names a rank that has ended, but not a rank that is late."""
        self.barrier().wait(*([] if timeout is None else [timeout]))

    def send(self, tensors, dst, tag):
        """Sends to rank `dst` of the group."""
        tensor = _only(tensors)
        source = memory.reading(tensor)
        request = self._start(lib.muster_isend, source.in_, tensor.numel(), source.dtype, dst, tag, keep=source)
        return MusterWork([request], [tensor])

    def recv(self, tensors, src, tag):
        """Receives from rank `src` of the group."""
        tensor = _only(tensors)
        target, copy = memory.in_place(tensor, on_host=True)
        request = self._start(lib.muster_irecv, target.out, tensor.numel(), target.dtype, src, tag, keep=target)
        return MusterWork([request], [tensor], _copying_back([tensor], [copy]), source=src)

    def recv_anysource(self, tensors, tag):
        """Raises ValueError."""
        raise ValueError("backend muster cannot receive from any rank: name one by recv(tensor, src)")


def _all_of(works, result):
    def finish():
        for work in works:
            work.wait()

    return MusterWork([request for work in works for request in work.requests], result, finish)


def _made(options, _):
    """Returns a process group for torch.distributed. The first call joins the job."""
    world.init(timeout_seconds=options.timeout.total_seconds())
    ranks = list(options.global_ranks_in_group)
    if not ranks:
        if (options.group_rank, options.group_size) != (world.rank(), world.size()):
            raise ValueError(f"init_process_group: this process is rank {options.group_rank} of {options.group_size} "
                             f"in the group, but rank {world.rank()} of {world.size()} in the job: backend muster "
                             "needs the same numbers")
        ranks = range(world.size())
    return MusterProcessGroup(options.group_rank, options.group_size, ranks, options.group_id)


def _register():
    options = {"extended_api": True}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:  # the parameter exists since torch 2.0
        options["devices"] = ["cpu", "cuda"]
    dist.Backend.register_backend("muster", _made, **options)


_register()
