"""Operations of a communicator on tensors of a GPU, for the torch.distributed backend."""

import collections
import contextlib
import threading
from ctypes import byref, c_void_p

from muster import _library as lib
from muster import requests
from muster.exceptions import HorovodInternalError
from muster.torch import tensors as memory

# The largest number of running operations. Each has three entries in the queue of its stream: a wait for an event, a
# wait for a word, and an event. CUDA's queue has room for about 1,024 entries. If it is full, the next caller waits
# inside the driver, and launches of other threads wait, too. libmuster itself allows 1,024 running operations.
_MOST_RUNNING = 100


class OnStream:
    """The operations of one communicator on one GPU. They run after the present work of the current stream, and in
    parallel with the stream's later work. All ranks of the communicator create their OnStream at the same time.
    Thread-safe."""

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
        """Returns the path on which the tensors are sent: "nccl", "ipc" or "staged", in libmuster's order of
        preference."""
        return lib.muster_device_path(self._comm).decode()

    @property
    def path_reason(self):
        """Returns the reason why a preferred path is not used, such as "not nccl: ranks share a GPU". If this rank has
        no kernels, it also returns the reason for that. Empty if "nccl" is used, or if MUSTER_DEVICE_PATH names the
        path."""
        return lib.muster_device_path_reason(self._comm).decode()

    def start(self, function, *arguments, keep):
        """Does requests.start() with one of muster_..._on_stream, and adds the stream as the last argument."""
        with self._lock:
            self._make_way()
            self._side.follow()
            request = requests.start(function, self._comm, *arguments, self._side.handle, keep=keep)
            self._running.append(request)
            return request

    def _make_way(self):
        while self._running and (self._running[0].done() or len(self._running) >= _MOST_RUNNING):
            with contextlib.suppress(HorovodInternalError):  # the caller that waits for the request gets the error, too
                self._running.popleft().wait()
