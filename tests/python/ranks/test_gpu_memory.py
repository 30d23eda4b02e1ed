"""muster.torch on memory of a GPU, without a GPU and without torch's CUDA: the driver is none (tests/programs/fake_cuda), and
tensors are stand-ins with the attributes that muster.torch asks of a CUDA tensor. What torch itself does on a GPU is for
tests/gpu/train.py."""

import ctypes

import numpy as np
import pytest
import torch

import muster.torch as hvd
from muster.torch import tensors as memory
from muster.torch.compression import compress, wire_of
from muster.torch.repeated import Repeated

DTYPES = {torch.float32: np.float32, torch.float64: np.float64, torch.int32: np.int32, torch.float16: np.float16}


class Device:
    """A context of GPU 0, current on this thread."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        assert self.cuda.cuInit(0) == 0
        assert self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert self.cuda.cuCtxPushCurrent_v2(context) == 0

    def copy(self, to, source, size):
        assert self.cuda.cuMemcpyAsync(ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size), None) == 0

    def wait(self):
        event = ctypes.c_void_p()
        assert self.cuda.cuEventCreate(ctypes.byref(event), 2) == 0
        assert self.cuda.cuEventRecord(event, None) == 0
        while self.cuda.cuEventQuery(event) != 0:
            pass


class StandIn:
    """What muster.torch asks of a contiguous CUDA tensor."""

    is_cpu, is_cuda, is_meta, is_sparse, requires_grad = False, True, False, False, False
    layout, device = torch.strided, "cuda:0"

    def __init__(self, device, values, dtype=torch.float32):
        self.values = np.array(values, dtype=DTYPES[dtype])
        self.dtype, self.shape, self.owner = dtype, self.values.shape, device
        address = ctypes.c_uint64()
        assert device.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(self.values.nbytes + 1)) == 0
        self.address = address.value
        device.copy(self.address, self.values.ctypes.data, self.values.nbytes)

    def is_contiguous(self):
        return True

    def data_ptr(self):
        return self.address

    def read(self):
        out = np.zeros_like(self.values)
        self.owner.copy(out.ctypes.data, self.address, out.nbytes)
        self.owner.wait()
        return out.tolist()


@pytest.fixture(scope="module")
def device():
    return Device()


@pytest.fixture(autouse=True)
def current_stream(monkeypatch):
    monkeypatch.setattr(memory, "stream_of", lambda tensor: 0 if tensor.is_cuda else None)


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_allreduce_in_place(device, dtype):
    tensor = StandIn(device, [hvd.rank() + 1, 2, 3], dtype)
    assert hvd.allreduce_(tensor, name=f"in place {dtype}", op=hvd.Sum) is tensor
    size = hvd.size()
    assert tensor.read() == [size * (size + 1) / 2, 2 * size, 3 * size]


def test_many_tensors_as_one(device):
    tensors = [StandIn(device, [float(hvd.rank() + i)] * (i + 1)) for i in range(200)]
    hvd.grouped_allreduce_(tensors, name="many", op=hvd.Sum)
    size = hvd.size()
    for i, tensor in enumerate(tensors):
        assert tensor.read() == [i * size + size * (size - 1) / 2] * (i + 1)


def test_gradients_of_several_steps(device):
    reduction = Repeated("gradient", hvd.global_process_set, hvd.Average)
    for step in range(3):
        tensor = StandIn(device, [float(step), float(hvd.rank())])
        assert reduction.begin(tensor)() is tensor
        assert tensor.read() == [step, (hvd.size() - 1) / 2]
    on_host = torch.tensor([3.0])
    assert reduction.begin(on_host)().tolist() == [3.0]


@pytest.mark.parametrize("compression", [hvd.Compression.fp16, hvd.Compression.bf16])
def test_float32_is_cast_on_the_way(device, compression):
    """The kernels cast: no tensor of another type is made. A stand-in could not be cast by torch."""
    size = hvd.size()
    lost = 1 + 2.0 ** -13  # beside 1, in both types
    kept = 1.0 if is_cast() else lost
    reduction = Repeated("small gradient", hvd.global_process_set, hvd.Sum)
    for step in range(2):
        tensor = StandIn(device, [lost, float(hvd.rank() + step)])
        [(sent, ctx)], wire = compress(compression, [tensor], hvd.Sum)
        assert sent is tensor and ctx is None and wire != 0
        assert compression.decompress(reduction.begin(sent, wire)(), ctx) is tensor
        assert tensor.read() == [kept * size, size * (size - 1) / 2 + step * size]
    many = [StandIn(device, [lost] * (i + 1)) for i in range(100)]
    hvd.synchronize(hvd.grouped_allreduce_async_(many, name=f"small {compression.__name__}", op=hvd.Sum, wire=wire))
    for i, tensor in enumerate(many):
        assert tensor.read() == [kept * size] * (i + 1)


def is_cast():
    """Without kernels float32 travels as it is."""
    return hvd.cuda_built()


def test_what_the_kernels_do_not_cast_is_cast_before(device):
    class Own(hvd.Compression.fp16):
        pass

    small, other = StandIn(device, [1.0]), StandIn(device, [1.0], torch.float64)
    on_host = torch.ones(3)
    assert wire_of(hvd.Compression.none, [small], hvd.Sum) == 0
    assert wire_of(Own, [small], hvd.Sum) == 0
    assert wire_of(hvd.Compression.fp16, [small, other], hvd.Sum) == 0
    assert wire_of(hvd.Compression.fp16, [small], hvd.Adasum) == 0
    assert wire_of(hvd.Compression.fp16, [on_host], hvd.Sum) == 0
    [(sent, ctx)], wire = compress(hvd.Compression.fp16, [on_host], hvd.Sum)
    assert sent.dtype == torch.float16 and ctx == torch.float32 and wire == 0


def test_broadcast_in_place(device):
    tensor = StandIn(device, [float(hvd.rank())] * 1000)
    hvd.broadcast_(tensor, root_rank=hvd.size() - 1, name="parameters")
    assert tensor.read() == [hvd.size() - 1] * 1000


def test_what_does_not_go_together_is_named(device):
    with pytest.raises(ValueError, match="not all on the CPU, or not all on one GPU"):
        hvd.grouped_allreduce_([StandIn(device, [1.0]), torch.ones(1)], name="both")
    if hvd.size() > 1:
        mixed = StandIn(device, [1.0]) if hvd.rank() == 0 else torch.ones(1)
        with pytest.raises(hvd.HorovodInternalError, match="on a GPU"):
            hvd.allreduce_(mixed, name="mixed")


def test_memory_of_the_host_is_not_taken_for_a_gpus(device):
    tensor = StandIn(device, [1.0])
    tensor.address = tensor.values.ctypes.data
    with pytest.raises(ValueError, match="is not memory of a GPU"):
        hvd.allreduce_(tensor, name="host")


def test_the_host_goes_on_beside(device):
    tensor = StandIn(device, [1.0])
    handles = [hvd.allreduce_async_(tensor, name="gpu", op=hvd.Sum), hvd.allreduce_async(torch.ones(3), name="cpu")]
    assert [hvd.synchronize(handle) for handle in handles][1].tolist() == [1.0] * 3
    assert tensor.read() == [hvd.size()]
