"""Where a process of an elastic job gets its next world from: its ranks, and the place where the ranks meet.

HOROVOD_ELASTIC=1 makes a job elastic. Without it nothing here is used.

    source = next_world.source()  # None in other jobs
    numbers = source.next()
    meeting = Meeting(source, numbers)
"""

import os
import socket
import threading
import time
from typing import NamedTuple, Optional

from muster import _library as lib
from muster.job_store import JobStore

_FIND_SECONDS = 0.05  # a search for rank 0 waits at most this long before libmuster checks its deadline
_LOOK_SECONDS = 0.005
_OVER_SECONDS = 0.1
_HOROVOD_NAMES = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
_SCOPE = "/muster.elastic"


class Numbers(NamedTuple):
    """This process's place in a world. `generation` is None if the launcher does not number its worlds."""
    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    generation: Optional[int] = None


class WorldSource:
    """The interface to the launcher of an elastic job.

    A failed call raises ConnectionError. A process that has been removed from the job gets SystemExit from next(), with
    Horovod's text: Python prints it and ends with exit code 1."""

    def next(self):
        """The first call returns the Numbers that this process was started with. Every later call reports that this
        process has left its world, and waits for the Numbers of the next one."""
        raise NotImplementedError

    def arrived(self, numbers):
        """Reports that this process begins to join the world of `numbers`."""
        raise NotImplementedError

    def formed(self, numbers):
        """Reports that all ranks have joined that world."""
        raise NotImplementedError

    def publish(self, numbers, text):
        """Stores where rank 0 of that world can be found, as bytes."""
        raise NotImplementedError

    def find(self, numbers):
        """Returns what rank 0 of that world has published. Waits some ms for it. b"" if there is nothing yet."""
        raise NotImplementedError

    def is_over(self, numbers):
        """Returns True if that world cannot form any more, because one of its processes has ended."""
        raise NotImplementedError

    def failed_ranks(self, numbers):
        """Returns {rank: cause} of the ranks of that world that have failed. Any thread may call it."""
        raise NotImplementedError


class HorovodSource(WorldSource):
    """The protocol of Horovod's elastic driver, by which the launcher also serves unmodified workers of Horovod.

    GET /rank_and_size/HOST:LOCAL_RANK waits for the next world. The launcher clears all keys before it answers. So the
    ranks of a new world find no key of an older one.
    Two additions are optional. The header Muster-Generation of that answer numbers the worlds. The launcher may put
    /muster.elastic/over when a process of the present world ends: its value is the number of that world, or nothing.
    Ranks that still join do not wait for it then. Otherwise they wait until the time limit for joining ends. A line
    "RANK CAUSE" for each failed rank may follow the number.
    report_first_collective() sends one more request, PUT /muster.elastic/first_collective, in all jobs."""

    def __init__(self, store, host):
        self._store = store
        self._host = host
        self._next_look = 0.0
        self._is_over = False
        self._is_first = True

    def next(self):
        if self._is_first:
            self._is_first = False
            return Numbers(*(_number(f"HOROVOD_{name}") for name in _HOROVOD_NAMES), _number("MUSTER_GENERATION", None))
        self._is_over = False
        answer, generation = self._store.get_with_generation(f"/rank_and_size/{own_slot()}")
        numbers = _parse(answer, generation)
        if numbers.rank < 0:
            raise SystemExit(f"{self._host}[{_number('HOROVOD_LOCAL_RANK')}] has been removed from elastic job")
        for name, value in zip(_HOROVOD_NAMES, numbers):
            os.environ[f"HOROVOD_{name}"] = os.environ[f"MUSTER_{name}"] = str(value)
        if generation is not None:
            os.environ["MUSTER_GENERATION"] = str(generation)
        return numbers

    def arrived(self, numbers):
        # Horovod's launcher sees by this key that a new process has come as far as init().
        self._store.put(f"/global/rank_{numbers.rank}", socket.gethostname().encode())

    def formed(self, numbers):
        self._store.delete(f"/global/{numbers.rank}")

    def publish(self, numbers, text):
        self._store.put(f"{_SCOPE}/place", _head_of(numbers) + text)

    def find(self, numbers):
        end = time.monotonic() + _FIND_SECONDS
        while True:
            found = self._store.get(f"{_SCOPE}/place")
            if found is not None:
                head, _, text = found.partition(b"\n")
                if _is_of(head, numbers):
                    return text
            if time.monotonic() >= end:
                return b""
            time.sleep(_LOOK_SECONDS)  # the store reports no new keys

    def is_over(self, numbers):
        now = time.monotonic()
        if not self._is_over and now >= self._next_look:
            self._next_look = now + _OVER_SECONDS
            self._is_over = self._over(numbers) is not None
        return self._is_over

    def failed_ranks(self, numbers):
        lines = [line.partition(" ") for line in self._over(numbers) or []]
        return {int(rank): cause for rank, _, cause in lines if rank.isdecimal()}

    def _over(self, numbers):
        """Returns the lines about the failed ranks if the world of `numbers` is over, else None."""
        over = self._store.get(f"{_SCOPE}/over")
        if over is None:
            return None
        generation, *failed = over.decode(errors="replace").split("\n")
        is_of_it = not generation or numbers.generation is None or generation == str(numbers.generation)
        return failed if is_of_it else None


def _head_of(numbers):
    generation = "" if numbers.generation is None else numbers.generation
    return f"size {numbers.size} generation {generation}\n".encode()


def _is_of(head, numbers):
    """Returns True if a place with this head belongs to the world of `numbers`. If one side does not know the number of
    its generation, the sizes alone decide."""
    words = head.decode(errors="replace").split(" ")
    if len(words) != 4 or words[0] != "size" or words[2] != "generation" or words[1] != str(numbers.size):
        return False
    return not words[3] or numbers.generation is None or words[3] == str(numbers.generation)


def _number(name, *otherwise):
    value = os.environ.get(name)
    if not value and otherwise:
        return otherwise[0]
    try:
        return int(value or "")
    except ValueError:
        raise ValueError(f"HOROVOD_ELASTIC is set, but {name}={value} is not a number: start this program with "
                         "hvdrun") from None


def _parse(answer, generation):
    """Returns the Numbers of an answer to /rank_and_size. ConnectionError: it does not have six numbers."""
    try:
        numbers = Numbers(*(int(word) for word in (answer or b"").decode().split(",")), generation)
    except (ValueError, TypeError):
        raise ConnectionError(f"the launcher answered {answer!r} instead of six numbers") from None
    if numbers.rank >= 0 and not (numbers.rank < numbers.size and 0 <= numbers.local_rank < numbers.local_size and
                                  0 <= numbers.cross_rank < numbers.cross_size):
        raise ConnectionError(f"the launcher answered {answer!r}, which is not a place in a world")
    return numbers


class Meeting:
    """The muster_meeting by which libmuster meets through `source`. Use it for one muster_init()."""

    def __init__(self, source, numbers):
        self.failure = None  # what a call of `source` has raised
        self._source = source
        self._numbers = numbers
        self._text = b""
        self.description = lib.Meeting(numbers.rank, numbers.size, None, lib.PUBLISH(self._publish),
                                       lib.FIND(self._find), lib.IS_OVER(self._check))

    def _guarded(self, call, otherwise):
        # An exception must not pass through libmuster. Keep it, such as a KeyboardInterrupt, for the caller of init().
        try:
            return call()
        except BaseException as problem:  # pylint: disable=broad-except
            self.failure = self.failure or problem
            return otherwise

    def _publish(self, _, text, size):
        return self._guarded(lambda: self._source.publish(self._numbers, lib.bytes_at(text, size)), 1) or 0

    def _find(self, _, room, size):
        def find():
            text = self._source.find(self._numbers)
            if len(text) > size:
                return 0  # not a place of libmuster
            lib.copy_to(room, text)
            return len(text)

        return self._guarded(find, -1)

    def _check(self, _):
        return self._guarded(lambda: int(self._source.is_over(self._numbers)), 1)


_lock = threading.Lock()
_sources = []  # empty, or the source of this process


def is_elastic():
    """Returns True if this process belongs to an elastic job that has a launcher."""
    try:
        wanted = int(os.environ.get("HOROVOD_ELASTIC") or 0) > 0
    except ValueError:
        wanted = False
    return wanted and bool(os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR"))


def source():
    """Returns the process's WorldSource, always the same one. None if the job is not elastic."""
    if not is_elastic():
        return None
    with _lock:
        if not _sources:
            _sources.append(HorovodSource(job_store(), own_host()))
        return _sources[0]


def job_store():
    """Returns a client of the store that the launcher has named."""
    return JobStore(os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]))


def own_host():
    """Returns the name of this host as the launcher has given it."""
    name = os.environ.get("HOROVOD_HOSTNAME")
    if not name:
        raise ValueError("HOROVOD_ELASTIC is set, but HOROVOD_HOSTNAME is not: start this program with hvdrun")
    return name


def report_first_collective():
    """Reports to the launcher that the world of all ranks has ended its first collective. Only rank 0 reports it, and
    only in a generation after the first. The launcher measures the time of a failure by it. A report may be lost."""
    generation = os.environ.get("MUSTER_GENERATION", "")
    if os.environ.get("MUSTER_RANK") != "0" or not generation.isdecimal() or int(generation) == 0:
        return
    if os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR") and os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT", "").isdecimal():
        job_store().try_put(f"{_SCOPE}/first_collective", generation.encode())


def own_slot():
    """Returns HOST:LOCAL_RANK, by which the launcher knows this process."""
    return f"{own_host()}:{_number('HOROVOD_LOCAL_RANK')}"
