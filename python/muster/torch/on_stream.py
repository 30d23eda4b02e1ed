"""Operations of a communicator on tensors of a GPU, for the torch.distributed backend."""

import collections
import contextlib
import threading
from ctypes import byref, c_void_p

from muster import _library as lib
from muster import requests
from muster.exceptions import HorovodInternalError
from muster.torch import tensors as memory

# Each has three entries (a wait for an event, one for a word, an event) in the queue of its stream, which has room for
# some 1,024 in CUDA; where it is full, whoever comes next waits within the driver, and so do other threads' launches.
# (libmuster itself lets 1,024 wait.)
_MOST_RUNNING = 100


class OnStream:
    """Those of one communicator and one GPU: behind what the current stream has, beside what it gets next. Made on all
    ranks of the communicator at once. Thread-safe."""

    def __init__(self, comm, device):
        self.device = device
        self._comm = comm
        error = c_void_p()
        code = lib.muster_device_attach(comm, device.index or 0, byref(error))
        if code != lib.OK:
            message, rank, host = lib.take_error(error)
            raise HorovodInternalError(f"{message}; tensors of the CPU (tensor.cpu()) do not need a GPU", rank=rank,
                                       host=host)
        self._side = memory.SideStream(device)
        self._lock = threading.Lock()
        self._running = collections.deque()

    @property
    def path(self):
        """How the tensors travel: "nccl", "ipc" or "staged"."""
        return lib.muster_device_path(self._comm).decode()

    @property
    def path_reason(self):
        """Why that is none before it in that list, and why this rank has no kernels, if it has none: "not nccl: ranks share
        a GPU". "": there is nothing to say, as where MUSTER_DEVICE_PATH names it."""
        return lib.muster_device_path_reason(self._comm).decode()

    def start(self, function, *arguments, keep):
        """requests.start() of one of muster_..._on_stream, whose last argument is the stream."""
        with self._lock:
            self._make_way()
            self._side.follow()
            request = requests.start(function, self._comm, *arguments, self._side.handle, keep=keep)
            self._running.append(request)
            return request

    def _make_way(self):
        while self._running and (self._running[0].done() or len(self._running) >= _MOST_RUNNING):
            with contextlib.suppress(HorovodInternalError):  # who waits for it hears it as well
                self._running.popleft().wait()
