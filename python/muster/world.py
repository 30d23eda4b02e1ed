"""This process in its job: Horovod's init(), rank(), process sets, for all frameworks at once.

Thread-safe but for init() and shutdown(). After a fork the child may ask for ranks and sizes, and nothing else.
"""

import atexit
import collections
import ctypes
import itertools
import operator
import os
import socket
import threading
import time
import zlib
from ctypes import byref, c_int, c_void_p

from muster import _library as lib
from muster import engine
from muster.exceptions import HorovodInternalError

# Ranks that go say so to the others, which may be at something else for long.
_FAREWELL_SECONDS = 1.0
_OLDEST_NCCL = 21400  # as in collectives/device/path.cc
# Of operations without a name, of a kind, in a process set: a timeline has a row for each name. So many are never under
# way at once.
_MOST_NAMES = 1 << 16
_IS_THERE = "the set of all ranks is there already"


class ProcessSet:
    """Some ranks of the world that do collectives by themselves. `ranks` are ranks of the world, or None for all."""

    process_set_id = None

    def __init__(self, ranks_or_comm=None):
        self.ranks = None if ranks_or_comm is None else _ranks_of(ranks_or_comm)
        self.mpi_comm = None

    def __repr__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    def __eq__(self, other):
        return isinstance(other, ProcessSet) and self.ranks == other.ranks

    def __hash__(self):
        return id(self)

    def included(self):
        """Whether this rank is in it. None: it was not added yet."""
        return None if self.process_set_id is None else _world().rank in self.ranks

    def size(self):
        """How many ranks it has. None: it was not added yet."""
        return None if self.process_set_id is None else len(self.ranks)

    def rank(self):
        """This rank's number in it. None: it was not added yet. ValueError: it is not in it."""
        if self.process_set_id is None:
            return None
        if not self.included():
            raise ValueError(f"rank {_world().rank} is not in {self!r}")
        return self.ranks.index(_world().rank)


def takes_part(process_set):
    """Whether this rank is in it. ValueError: it was not added, or init() was not called."""
    _world()
    included = process_set.included()
    if included is None:
        raise ValueError(_not_added(process_set))
    return included


def size_of(process_set):
    """How many ranks it has. ValueError: it was not added, or init() was not called."""
    _world()
    size = process_set.size()
    if size is None:
        raise ValueError(_not_added(process_set))
    return size


def check_known(process_set):
    """ValueError: it was not added, or init() was not called."""
    size_of(process_set)
    get_process_set_by_id(process_set.process_set_id)


def _not_added(process_set):
    return (f"{process_set!r} was not added, or was removed: give it to init(process_sets=[...]), or to "
            "add_process_set() on all ranks, before it is used")


def _ranks_of(given):
    """The ranks of a list (or the like) of integers, in order. ValueError: it is none, or names a rank twice."""
    try:
        ranks = sorted(operator.index(rank) for rank in given)
    except TypeError:
        raise ValueError(f"{given!r} is no list of ranks (MPI communicators are not supported)") from None
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"{ranks} names a rank twice")
    return ranks


global_process_set = ProcessSet()


class _World:
    """What init() makes."""

    def __init__(self, ranks, timeout_seconds):
        self.pid = os.getpid()
        self.handle = c_void_p()
        self.group = None
        self.communicators = set()  # made by communicator_of()
        self.unused = collections.deque()  # those of them that nobody uses any more; a collection of garbage may add one
        self.sets = {}  # id -> (ProcessSet, communicator, engine); both None where this rank is not in it
        # A signal's handler, or a __del__, may come in the middle of what holds a lock, and submit something, too.
        self.lock = threading.RLock()
        self.submit_lock = threading.RLock()  # an engine is not freed while something is submitted to it
        self.is_submitting = False  # by the thread that has this lock
        self.set_ids = itertools.count(1)
        self.names = {}
        options = lib.Options(ctypes.sizeof(lib.Options), _operation_seconds(timeout_seconds), 0)
        self._check(lib.muster_init, byref(options), byref(self.handle))
        try:
            self._make(ranks)
        except BaseException:
            self.leave()
            raise

    def _make(self, ranks):
        comm = lib.muster_world_comm(self.handle)
        if ranks is not None:
            own = lib.muster_comm_rank(comm)
            comm = self._group(comm, ranks if own in ranks else [own])
            self.group = comm
        self.comm = comm
        self.rank, self.size = lib.muster_comm_rank(comm), lib.muster_comm_size(comm)
        self.local_rank, self.local_size = lib.muster_comm_local_rank(comm), lib.muster_comm_local_size(comm)
        self.sets[0] = (global_process_set, None, self._engine(comm, writes_files=True))
        global_process_set.process_set_id = 0
        global_process_set.ranks = list(range(self.size))
        places = self._gather("muster.places", [_host_key(), self.local_rank, self.local_size])
        self.is_homogeneous = len({size for _, _, size in places}) == 1
        peers = [key for key, local_rank, _ in places if local_rank == self.local_rank]
        self.cross_rank, self.cross_size = peers.index(_host_key()), len(peers)

    def _check(self, function, *arguments):
        error = c_void_p()
        code = function(*arguments, byref(error))
        if code == lib.OK:
            return
        message, rank, host = lib.take_error(error)
        if code == lib.INVALID:
            raise ValueError(message)
        raise HorovodInternalError(message, rank=rank, host=host)

    def _group(self, comm, ranks):
        made = c_void_p()
        self._check(lib.muster_comm_group, comm, (c_int * len(ranks))(*ranks), len(ranks), byref(made))
        return made.value

    def _engine(self, comm, writes_files):
        made = c_void_p()
        self._check(lib.muster_engine_start, comm, int(writes_files), byref(made))
        return made.value

    def _gather(self, name, numbers):
        """Everybody's list of numbers."""
        own = (ctypes.c_int64 * len(numbers))(*numbers)
        buffer = engine.Buffer(ctypes.addressof(own), 0, lib.INT64, (1, len(numbers)), own)
        ticket = engine.submit(self.sets[0][2], lib.ALLGATHER, name, [buffer])
        ticket.wait()
        all_numbers = (ctypes.c_int64 * (len(numbers) * self.size)).from_buffer_copy(ticket.output().data)
        return [tuple(all_numbers[i:i + len(numbers)]) for i in range(0, len(all_numbers), len(numbers))]

    def add_set(self, process_set):
        ranks = sorted(process_set.ranks)
        if not ranks or ranks[0] < 0 or ranks[-1] >= self.size:
            raise ValueError(f"{ranks} are no ranks of a world of {self.size}")
        with self.lock:
            if any(known.ranks == ranks for known, _, _ in self.sets.values()):
                raise ValueError(f"there is a process set of ranks {ranks} already")
            number = next(self.set_ids)
        self._check_same(number, ranks)
        comm = made = None
        if self.rank in ranks:
            comm = self._group(self.comm, ranks)
            made = self._engine(comm, writes_files=False)
        process_set.ranks, process_set.process_set_id = ranks, number
        with self.lock:
            self.sets[number] = (process_set, comm, made)

    def _check_same(self, number, ranks):
        bits = sum(1 << rank for rank in ranks)
        words = [bits >> (62 * i) & (1 << 62) - 1 for i in range(self.size // 62 + 1)]
        for rank, other in enumerate(self._gather(f"muster.process_set.{number}", words)):
            if list(other) != words:
                theirs = [r for r in range(self.size) if other[r // 62] >> r % 62 & 1]
                raise ValueError(f"ranks differ in the process set that they add: rank {self.rank} has {ranks}, "
                                 f"rank {rank} has {theirs}")

    def submit(self, process_set, call):
        """submit_to()."""
        with self.submit_lock:
            outer, self.is_submitting = self.is_submitting, True
            try:
                return call(self.engine_of(process_set))
            finally:
                self.is_submitting = outer

    def check_not_submitting(self):
        """ValueError: below the caller, on this thread, something is being submitted."""
        with self.submit_lock:
            if self.is_submitting:
                raise ValueError("shutdown() or remove_process_set() has interrupted an operation that is being "
                                 "submitted, in a handler of a signal or in a __del__: call it somewhere else")

    def remove_set(self, process_set):
        self.check_not_submitting()
        with self.lock:
            known, comm, made = self.sets.get(process_set.process_set_id, (None, None, None))
            if known is not process_set or process_set.process_set_id == 0:
                return False
            del self.sets[process_set.process_set_id]
        self._free([(comm, made)])
        process_set.process_set_id = None
        return True

    def engine_of(self, process_set):
        found = self.sets.get(process_set.process_set_id)
        if found is None:
            raise ValueError(_not_added(process_set))
        if found[2] is None:
            raise ValueError(f"rank {self.rank} is not in {process_set!r}")
        return found[2]

    def _free(self, members):
        """Ends engines, each of (communicator or None, engine or None), and frees both."""
        engines = [made for _, made in members if made is not None]
        for made in engines:
            lib.muster_engine_shut_down(made, 0)
        end = time.monotonic() + _FAREWELL_SECONDS
        for made in engines:
            lib.muster_engine_shut_down(made, max(0, end - time.monotonic()))
        with self.submit_lock:
            for comm, made in members:
                lib.muster_engine_free(made)
                lib.muster_comm_free(comm)

    def name(self, kind, name, process_set):
        """The name of an operation on all ranks: given, or by the number of operations without a name. Of each process
        set: its ranks do what others do not."""
        if name is not None:
            return f"{kind}.{name}"
        with self.lock:
            counter = self.names.setdefault((kind, process_set.process_set_id), itertools.count())
            return f"{kind}.noname.{next(counter) % _MOST_NAMES + 1}"

    def restart_names(self):
        """Those of the set of all ranks."""
        with self.lock:
            self.names = {of: counter for of, counter in self.names.items() if of[1] != 0}

    def communicator(self, ranks):
        """communicator_of()."""
        while self.unused:
            comm = self.unused.popleft()
            self.communicators.discard(comm)
            lib.muster_comm_free(comm)
        made = self._group(self.comm, ranks)
        self.communicators.add(made)
        return made

    def leave(self):
        with self.lock:
            members = [(comm, made) for _, comm, made in reversed(list(self.sets.values()))]
            self.sets.clear()
        self._free(members)
        for comm in self.communicators:
            lib.muster_comm_free(comm)
        self.communicators.clear()
        if self.group is not None:
            lib.muster_comm_free(self.group)
        if self.handle:
            lib.muster_finalize(self.handle)
        self.handle = None


def _host_key():
    name = os.environ.get("MUSTER_HOSTNAME") or socket.gethostname()
    return zlib.crc32(name.encode())


def _operation_seconds(otherwise):
    """HOROVOD_GLOO_TIMEOUT_SECONDS, where MUSTER_OPERATION_TIMEOUT is not set, which libmuster reads itself (0)."""
    if os.environ.get("MUSTER_OPERATION_TIMEOUT"):
        return 0
    value = os.environ.get("HOROVOD_GLOO_TIMEOUT_SECONDS")
    if not value:
        return otherwise
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"HOROVOD_GLOO_TIMEOUT_SECONDS={value} is not a number of seconds") from None


_current = None


def _world():
    if _current is None:
        raise ValueError("this process has not joined its job: call init() first")
    return _current


def init(comm=None, process_sets=None, *, timeout_seconds=0):
    """Joins the job; returns when all its ranks have. Called again it does nothing.

    comm: None for all ranks, or a list of ranks that are the world for each other; a rank that is not in it is a world
        of one.
    process_sets: a list of ProcessSets, the same on all ranks, or "dynamic" (sets can be added at any time here).
    timeout_seconds: of one operation without progress, where the environment does not say (0: libmuster's default).
    ValueError: an argument, a setting of the environment; HorovodInternalError: a rank did not come, or ended. After
    an error this process has not joined, and can call it again."""
    global _current
    if _current is not None:
        return
    ranks = None if comm is None else _ranks_of(comm)
    sets = _sets_of(process_sets)
    _current = _World(ranks or None, timeout_seconds)
    try:
        for process_set in sets:
            add_process_set(process_set)
    except BaseException:
        shutdown()  # else a second call, with what is right, would do nothing
        raise


def _sets_of(given):
    """The ProcessSets that init() is to add. ValueError: it is no list of such."""
    if given is None or isinstance(given, str):
        if given not in (None, "dynamic"):
            raise ValueError(f"process_sets={given!r} is neither a list nor 'dynamic'")
        return []
    try:
        sets = [each if isinstance(each, ProcessSet) else ProcessSet(each) for each in given]
    except TypeError:
        raise ValueError(f"process_sets={given!r} is neither a list nor 'dynamic'") from None
    if any(each.ranks is None for each in sets):
        raise ValueError(_IS_THERE)
    return sets


def shutdown():
    """Leaves the job: operations that other ranks wait for with this one fail there. After init() again it goes on.
    ValueError: it was called by a signal's handler, or a __del__, in the middle of a submission."""
    global _current
    if _current is not None and _current.pid == os.getpid():
        _current.check_not_submitting()
    world, _current = _current, None
    if world is None or world.pid != os.getpid():
        return
    for process_set, _, _ in world.sets.values():
        process_set.process_set_id = None
    global_process_set.ranks = None
    world.leave()


atexit.register(shutdown)


def is_initialized():
    """Whether init() was called, and shutdown() was not since."""
    return _current is not None


def size():
    """How many ranks there are."""
    return _world().size


def rank():
    """This rank's number, from 0."""
    return _world().rank


def local_size():
    """How many ranks are on this host."""
    return _world().local_size


def local_rank():
    """This rank's number among those of its host."""
    return _world().local_rank


def cross_size():
    """How many hosts have a rank of this local rank."""
    return _world().cross_size


def cross_rank():
    """This host's number among them."""
    return _world().cross_rank


def is_homogeneous():
    """Whether all hosts have equally many ranks."""
    return _world().is_homogeneous


def add_process_set(process_set):
    """Makes a ProcessSet (or one of a list of ranks) known. Called by all ranks of the world, in the same order.
    ValueError: no such ranks, the set exists, or ranks differ."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.ranks is None:
        raise ValueError(_IS_THERE)
    _world().add_set(process_set)
    return process_set


def remove_process_set(process_set):
    """Forgets it; called by all ranks of the world. False: it is not known, or the global one."""
    return _world().remove_set(process_set)


def process_set_ids():
    """Numbers of the sets that are known, in the order in which they were added."""
    return sorted(_world().sets)


def get_process_set_by_id(number):
    """The ProcessSet with this number. ValueError: there is none."""
    found = _world().sets.get(number)
    if found is None:
        raise ValueError(f"there is no process set {number}")
    return found[0]


def start_timeline(file_path, mark_cycles=False):
    """From now on rank 0 writes a timeline in Chrome's trace format to `file_path`."""
    world = _world()
    world._check(lib.muster_engine_timeline, world.engine_of(global_process_set), os.fsencode(file_path),
                 int(mark_cycles))


def stop_timeline():
    """Ends the timeline."""
    world = _world()
    world._check(lib.muster_engine_timeline, world.engine_of(global_process_set), None, 0)


# What a build of Horovod may hold. Gloo is what libmuster stands for; values are those of Horovod.
def mpi_threads_supported():
    """False: there is no MPI in it."""
    return False


def mpi_enabled():
    """False: there is no MPI in it."""
    return False


def mpi_built():
    """False: there is no MPI in it."""
    return False


def gloo_enabled():
    """True: libmuster is used where Horovod uses Gloo."""
    return True


def gloo_built():
    """True: libmuster is used where Horovod uses Gloo."""
    return True


def nccl_built():
    """The number of NCCL's version (22005 for 2.20.5) where ranks with a GPU each can use it: this libmuster has kernels
    for GPUs, and libnccl.so.2, which libmuster looks for at run time, is there and not older than 2.14. Otherwise 0."""
    if not cuda_built():
        return 0
    version = c_int(0)
    try:
        ctypes.CDLL("libnccl.so.2").ncclGetVersion(byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value if version.value >= _OLDEST_NCCL else 0


def ddl_built():
    """False."""
    return False


def ccl_built():
    """False."""
    return False


def cuda_built():
    """Whether this libmuster has kernels for GPUs; without them tensors of a GPU go through the host."""
    return bool(lib.muster_device_kernels())


def rocm_built():
    """False."""
    return False


def _own_world():
    """That of this process, which is not a forked child: locks that its parent's other threads held stay locked."""
    world = _world()
    if world.pid != os.getpid():
        raise ValueError("a process that was forked from a rank cannot take part in collectives")
    return world


def submit_to(process_set, call):
    """`call(target)` with the muster_engine of `process_set`, which is not freed meanwhile. ValueError: there is none, or
    this rank is not in the set."""
    return _own_world().submit(process_set, call)


def submit(kind, name, buffers, process_set=global_process_set, root_rank=None, **options):
    """engine.submit() to the engine of `process_set`; `root_rank` is a rank of the world."""
    root = 0
    if root_rank is not None and process_set.ranks is not None:
        if root_rank not in process_set.ranks:
            raise ValueError(f"root_rank {root_rank} is not in {process_set!r}")
        root = process_set.ranks.index(root_rank)
    return submit_to(process_set, lambda target: engine.submit(target, kind, name, buffers, root=root, **options))


def operation_name(kind, name, process_set=global_process_set):
    """`kind.name`, or a numbered name where `name` is None, which is the same on ranks of `process_set` that do the
    same."""
    return _own_world().name(kind, name, process_set)


def restart_names():
    """All ranks have joined: some have done less than others, and what they had submitted is done. From here operations
    without a name have the same numbers again."""
    _own_world().restart_names()


def communicator_of(ranks):
    """A communicator (muster_comm) of these ranks of the world, called by them alone, with the same list. Valid until
    let_go_of() or shutdown(); one that was let go of is freed here, which waits for its operations."""
    return _own_world().communicator(list(ranks))


def let_go_of(communicator, of_world):
    """Nobody uses it any more; `of_world` is the current() in which it was made. Never waits."""
    of_world.unused.append(communicator)


def is_current(world):
    """Whether `world`, of an earlier current(), is still joined."""
    return world is _current


def current():
    """What stands for the time from this init() to the next shutdown()."""
    return _world()
