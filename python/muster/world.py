"""This process in its job: Horovod's init(), rank() and process sets, for all frameworks.

Threads: all functions except init() and shutdown() are thread-safe. A forked child may call only the functions that
return ranks and sizes.
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
from muster import engine, next_world
from muster.exceptions import HorovodInternalError
from muster.failure_watch import FailureWatch

# A rank that leaves waits at most this long until the other ranks notice that. They may be busy with other work.
_SHUTDOWN_SECONDS = 1.0
# In an elastic job, init() fails after so many worlds that did not form. Each may have lost a rank.
_ELASTIC_TRIES = 10
_OLDEST_NCCL = 21400  # the same limit as in collectives/device/path.cc
# The number of names for unnamed operations of one kind in one process set. After so many operations the names repeat,
# so that a timeline, with a row for each name, does not grow. Far fewer operations run at the same time.
_MOST_NAMES = 1 << 16
_EXISTS = "the process set of all ranks exists already"


class ProcessSet:
    """A set of ranks that run collectives among themselves. `ranks` are ranks of the world. None means all ranks."""

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
        """Returns True if this rank is in the set. Returns None if the set was not added yet."""
        return None if self.process_set_id is None else _world().rank in self.ranks

    def size(self):
        """Returns the number of ranks of the set. Returns None if the set was not added yet."""
        return None if self.process_set_id is None else len(self.ranks)

    def rank(self):
        """Returns this rank's number in the set. Returns None if the set was not added yet. ValueError: this rank is
        not in the set."""
        if self.process_set_id is None:
            return None
        if not self.included():
            raise ValueError(f"rank {_world().rank} is not in {self!r}")
        return self.ranks.index(_world().rank)


def takes_part(process_set):
    """Returns True if this rank is in the set. ValueError: the set was not added, or init() was not called."""
    _world()
    included = process_set.included()
    if included is None:
        raise ValueError(_not_added(process_set))
    return included


def size_of(process_set):
    """Returns the number of ranks of the set. ValueError: the set was not added, or init() was not called."""
    _world()
    size = process_set.size()
    if size is None:
        raise ValueError(_not_added(process_set))
    return size


def check_known(process_set):
    """Raises ValueError if the set was not added, or init() was not called."""
    size_of(process_set)
    get_process_set_by_id(process_set.process_set_id)


def _not_added(process_set):
    return (f"{process_set!r} was not added, or was removed: give it to init(process_sets=[...]), or to "
            "add_process_set() on all ranks, before it is used")


def _ranks_of(given):
    """Returns the ranks of a list (or another iterable) of integers, sorted. ValueError: `given` is not such a list, or
    contains a rank twice."""
    try:
        ranks = sorted(operator.index(rank) for rank in given)
    except TypeError:
        raise ValueError(f"{given!r} is not a list of ranks (MPI communicators are not supported)") from None
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"{ranks} contains a rank twice")
    return ranks


global_process_set = ProcessSet()


class _World:
    """The state that init() creates."""

    def __init__(self, ranks, timeout_seconds, source=None, numbers=None):
        self.pid = os.getpid()
        self.handle = c_void_p()
        self.group = None
        self.communicators = set()  # made by communicator_of()
        # The released communicators. The garbage collector may add one at any time.
        self.unused = collections.deque()
        # id -> (ProcessSet, communicator, engine). The last two are None if this rank is not in the set.
        self.sets = {}
        self.watch = None  # the FailureWatch of an elastic job
        # Both locks are re-entrant, because a signal handler or a __del__ may interrupt the thread that holds one, and
        # submit an operation.
        self.lock = threading.RLock()
        # Held while an operation is submitted, so that no other thread frees the engine.
        self.submit_lock = threading.RLock()
        self.is_submitting = False  # True while the thread that holds submit_lock submits an operation
        self.set_ids = itertools.count(1)
        self.names = {}
        seconds = _operation_seconds(timeout_seconds)
        if source is None:
            self._join(lib.Options(ctypes.sizeof(lib.Options), seconds, 0, None))
        else:
            self._meet(source, numbers, seconds)
        try:
            if source is not None and numbers.generation is not None:  # horovodrun does not report failed ranks
                self.watch = FailureWatch(source, numbers, self._rank_failed)
            self._make(ranks, numbers)
        except BaseException:
            self.leave()
            raise

    def _rank_failed(self, rank, cause):
        lib.muster_world_rank_failed(self.handle, rank, cause.encode())

    def _join(self, options):
        self._check(lib.muster_init, byref(options), byref(self.handle))

    def _meet(self, source, numbers, seconds):
        """Joins a world of an elastic job. ValueError: the environment asks for encryption. Its key would cross the
        network in the clear, in the job's store."""
        if os.environ.get("MUSTER_ENCRYPT") == "1":
            raise ValueError("MUSTER_ENCRYPT=1 is not possible in an elastic job yet: set it to 0")
        source.arrived(numbers)
        meeting = next_world.Meeting(source, numbers)
        options = lib.Options(ctypes.sizeof(lib.Options), seconds, seconds, ctypes.pointer(meeting.description))
        try:
            self._join(options)
        except HorovodInternalError as error:
            if meeting.failure is not None:
                raise meeting.failure from error
            raise

    def _make(self, ranks, numbers):
        comm = lib.muster_world_comm(self.handle)
        if ranks is not None:
            own = lib.muster_comm_rank(comm)
            comm = self._group(comm, ranks if own in ranks else [own])
            self.group = comm
        self.comm = comm
        self.rank, self.size = lib.muster_comm_rank(comm), lib.muster_comm_size(comm)
        self.local_rank, self.local_size = lib.muster_comm_local_rank(comm), lib.muster_comm_local_size(comm)
        if numbers is not None and ranks is None:
            self.local_rank, self.local_size = numbers.local_rank, numbers.local_size
        self.sets[0] = (global_process_set, None, self._engine(comm, writes_files=True))
        global_process_set.process_set_id = 0
        global_process_set.ranks = list(range(self.size))
        places = self._gather("muster.places", [_host_key(), self.local_rank, self.local_size])
        self.is_homogeneous = len({size for _, _, size in places}) == 1
        peers = [key for key, local_rank, _ in places if local_rank == self.local_rank]
        self.cross_rank, self.cross_size = peers.index(_host_key()), len(peers)
        if numbers is not None and ranks is None:
            self.cross_rank, self.cross_size = numbers.cross_rank, numbers.cross_size

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
        """Returns the list of numbers of every rank, in rank order."""
        own = (ctypes.c_int64 * len(numbers))(*numbers)
        buffer = engine.Buffer(ctypes.addressof(own), 0, lib.INT64, (1, len(numbers)), own)
        ticket = engine.submit(self.sets[0][2], lib.ALLGATHER, name, [buffer])
        ticket.wait()
        all_numbers = (ctypes.c_int64 * (len(numbers) * self.size)).from_buffer_copy(ticket.output().data)
        return [tuple(all_numbers[i:i + len(numbers)]) for i in range(0, len(all_numbers), len(numbers))]

    def add_set(self, process_set):
        ranks = sorted(process_set.ranks)
        if not ranks or ranks[0] < 0 or ranks[-1] >= self.size:
            raise ValueError(f"process set {ranks}: name at least one rank, and only ranks from 0 to {self.size - 1}")
        with self.lock:
            if any(known.ranks == ranks for known, _, _ in self.sets.values()):
                raise ValueError(f"a process set of ranks {ranks} exists already")
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
        """Does the work of submit_to()."""
        with self.submit_lock:
            outer, self.is_submitting = self.is_submitting, True
            try:
                return call(self.engine_of(process_set))
            finally:
                self.is_submitting = outer

    def check_not_submitting(self):
        """Raises ValueError if the caller has interrupted a submission of this thread."""
        with self.submit_lock:
            if self.is_submitting:
                raise ValueError("a signal handler or a __del__ called shutdown() or remove_process_set(), and "
                                 "interrupted an operation that is being submitted: call it somewhere else")

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
        """Shuts down the engines, and frees engines and communicators. `members` are pairs (communicator or None,
        engine or None)."""
        engines = [made for _, made in members if made is not None]
        for made in engines:
            lib.muster_engine_shut_down(made, 0)
        end = time.monotonic() + _SHUTDOWN_SECONDS
        for made in engines:
            lib.muster_engine_shut_down(made, max(0, end - time.monotonic()))
        with self.submit_lock:
            for comm, made in members:
                lib.muster_engine_free(made)
                lib.muster_comm_free(comm)

    def name(self, kind, name, process_set):
        """Returns the name of an operation, the same on all ranks. It contains `name`, or a number if `name` is None.
        Each process set has its own numbers, because its ranks call operations that other ranks do not call."""
        if name is not None:
            return f"{kind}.{name}"
        with self.lock:
            counter = self.names.setdefault((kind, process_set.process_set_id), itertools.count())
            return f"{kind}.noname.{next(counter) % _MOST_NAMES + 1}"

    def restart_names(self):
        """Restarts the numbers of unnamed operations in the set of all ranks."""
        with self.lock:
            self.names = {of: counter for of, counter in self.names.items() if of[1] != 0}

    def communicator(self, ranks):
        """Does the work of communicator_of()."""
        while self.unused:
            comm = self.unused.popleft()
            self.communicators.discard(comm)
            lib.muster_comm_free(comm)
        made = self._group(self.comm, ranks)
        self.communicators.add(made)
        return made

    def leave(self):
        if self.watch is not None:
            self.watch.stop()
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
    """Returns HOROVOD_GLOO_TIMEOUT_SECONDS, or `otherwise` if it is not set. Returns 0 if MUSTER_OPERATION_TIMEOUT is
    set, because libmuster itself reads that variable."""
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
    """Joins the job, and returns when all its ranks have joined. A second call does nothing.

    comm: None for all ranks, or a list of ranks that form a separate world. Each rank outside the list forms a world of
    one rank.
    process_sets: a list of ProcessSets, the same on all ranks. "dynamic" is accepted without effect, because sets can
    always be added here.
    In an elastic job, every call after the first waits until the launcher has decided on the next world. SystemExit:
    this process has been removed from the job.
    timeout_seconds: the limit for an operation without progress, if the environment sets no limit. 0 means libmuster's
    default.
    ValueError: an argument or a setting of the environment is wrong. HorovodInternalError: a rank did not join, or
    ended. After an error this process has not joined, and init() can be called again."""
    global _current
    if _current is not None:
        return
    ranks = None if comm is None else _ranks_of(comm)
    sets = _sets_of(process_sets)
    source = next_world.source()
    if source is None:
        _current = _World(ranks or None, timeout_seconds)
    else:
        _current = _elastic_world(source, ranks or None, timeout_seconds)
    if not ranks:
        next_world.report_first_collective()
    try:
        for process_set in sets:
            add_process_set(process_set)
    except BaseException:
        shutdown()  # otherwise a second call with correct arguments would do nothing
        raise


def _elastic_world(source, ranks, timeout_seconds):
    """Joins the next world of an elastic job. If a rank ends while that world forms, this process asks for another."""
    for left in reversed(range(_ELASTIC_TRIES)):
        numbers = source.next()
        made = None
        try:
            made = _World(ranks, timeout_seconds, source, numbers)
            source.formed(numbers)
            return made
        except (HorovodInternalError, ConnectionError):  # the store is lost together with its host
            if made is not None:
                made.leave()
            if not left:
                raise
    return None


def _sets_of(given):
    """Returns the ProcessSets that init() must add. ValueError: `given` is not a list of process sets."""
    if given is None or isinstance(given, str):
        if given not in (None, "dynamic"):
            raise ValueError(f"process_sets={given!r} is neither a list nor 'dynamic'")
        return []
    try:
        sets = [each if isinstance(each, ProcessSet) else ProcessSet(each) for each in given]
    except TypeError:
        raise ValueError(f"process_sets={given!r} is neither a list nor 'dynamic'") from None
    if any(each.ranks is None for each in sets):
        raise ValueError(_EXISTS)
    return sets


def shutdown():
    """Leaves the job. On other ranks, operations that need this rank fail. init() may be called again afterwards.
    ValueError: a signal handler or a __del__ has called it in the middle of a submission."""
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
    """Returns True between init() and shutdown()."""
    return _current is not None


def size():
    """Returns the number of ranks."""
    return _world().size


def rank():
    """Returns this rank's number, from 0."""
    return _world().rank


def local_size():
    """Returns the number of ranks on this host."""
    return _world().local_size


def local_rank():
    """Returns this rank's number among the ranks of its host."""
    return _world().local_rank


def cross_size():
    """Returns the number of hosts that have a rank with this local rank."""
    return _world().cross_size


def cross_rank():
    """Returns this host's number among the hosts that cross_size() counts."""
    return _world().cross_rank


def is_homogeneous():
    """Returns True if all hosts have the same number of ranks."""
    return _world().is_homogeneous


def add_process_set(process_set):
    """Adds a ProcessSet (or a list of ranks) and returns it. All ranks of the world call it, in the same order.
    ValueError: the ranks do not exist, the set exists already, or the ranks add different sets."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.ranks is None:
        raise ValueError(_EXISTS)
    _world().add_set(process_set)
    return process_set


def remove_process_set(process_set):
    """Removes the set; all ranks of the world call it. Returns False if the set is not known, or is the global one."""
    return _world().remove_set(process_set)


def process_set_ids():
    """Returns the numbers of the known sets, in the order in which they were added."""
    return sorted(_world().sets)


def get_process_set_by_id(number):
    """Returns the ProcessSet with this number. ValueError: no set has this number."""
    found = _world().sets.get(number)
    if found is None:
        raise ValueError(f"process set {number} does not exist")
    return found[0]


def start_timeline(file_path, mark_cycles=False):
    """Starts a timeline: rank 0 writes it to `file_path` in Chrome's trace format."""
    world = _world()
    world._check(lib.muster_engine_timeline, world.engine_of(global_process_set), os.fsencode(file_path),
                 int(mark_cycles))


def stop_timeline():
    """Ends the timeline."""
    world = _world()
    world._check(lib.muster_engine_timeline, world.engine_of(global_process_set), None, 0)


# The features of a build of Horovod. The functions return what Horovod would return if libmuster were its Gloo.
def mpi_threads_supported():
    """Returns False: this build has no MPI."""
    return False


def mpi_enabled():
    """Returns False: this build has no MPI."""
    return False


def mpi_built():
    """Returns False: this build has no MPI."""
    return False


def gloo_enabled():
    """Returns True: libmuster is used where Horovod uses Gloo."""
    return True


def gloo_built():
    """Returns True: libmuster is used where Horovod uses Gloo."""
    return True


def nccl_built():
    """Returns NCCL's version (22005 for 2.20.5) if ranks with one GPU each can use NCCL. Otherwise it returns 0. They
    can if this libmuster has kernels for GPUs, and if libnccl.so.2 is found at run time and is at least version
    2.14."""
    if not cuda_built():
        return 0
    version = c_int(0)
    try:
        ctypes.CDLL("libnccl.so.2").ncclGetVersion(byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value if version.value >= _OLDEST_NCCL else 0


def ddl_built():
    """Returns False."""
    return False


def ccl_built():
    """Returns False."""
    return False


def cuda_built():
    """Returns True if this libmuster has kernels for GPUs. Without kernels, tensors of a GPU are copied to the host and
    back."""
    return bool(lib.muster_device_kernels())


def rocm_built():
    """Returns False."""
    return False


def _own_world():
    """Returns this process's world. ValueError: this process is a forked child. If another thread of the parent held a
    lock, that lock stays locked in the child."""
    world = _world()
    if world.pid != os.getpid():
        raise ValueError("a forked child process cannot take part in collectives")
    return world


def submit_to(process_set, call):
    """Returns `call(target)`, where target is the muster_engine of `process_set`. No thread frees it during the call.
    ValueError: the set is unknown, or this rank is not in the set."""
    return _own_world().submit(process_set, call)


def submit(kind, name, buffers, process_set=global_process_set, root_rank=None, **options):
    """Does engine.submit() with the engine of `process_set`. `root_rank` is a rank of the world."""
    root = 0
    if root_rank is not None and process_set.ranks is not None:
        if root_rank not in process_set.ranks:
            raise ValueError(f"root_rank {root_rank} is not in {process_set!r}")
        root = process_set.ranks.index(root_rank)
    return submit_to(process_set, lambda target: engine.submit(target, kind, name, buffers, root=root, **options))


def operation_name(kind, name, process_set=global_process_set):
    """Returns `kind.name`, or a numbered name if `name` is None. The numbers agree on all ranks of `process_set` that
    call the same operations."""
    return _own_world().name(kind, name, process_set)


def restart_names():
    """Restarts the numbers of unnamed operations. The caller calls it when all ranks have returned from join(). Then
    all operations are done, but some ranks have called fewer operations. From now on the numbers agree again."""
    _own_world().restart_names()


def communicator_of(ranks):
    """Returns a communicator (muster_comm) of these ranks of the world. Exactly these ranks call it, with the same
    list. The communicator is valid until release() or shutdown(). This call first frees released communicators, and
    waits for their operations."""
    return _own_world().communicator(list(ranks))


def release(communicator, of_world):
    """Releases a communicator that is no longer used. `of_world` is the current() in which it was created. Never
    waits."""
    of_world.unused.append(communicator)


def is_current(world):
    """Returns True if shutdown() was not called since current() has returned `world`."""
    return world is _current


def current():
    """Returns an object that identifies the time from this init() to the next shutdown()."""
    return _world()
