"""Reports of changed hosts, which the launcher of an elastic job sends to the process of rank 0.

Protocol: Horovod's worker notification service. The process listens at a port of its own and publishes
/worker_addresses/HOST:LOCAL_RANK in the job's store, with a key. Each connection carries one request and one answer. A
frame is HMAC-SHA256(key, body), the length of the body as a native int32, and the body: a pickle.

Security: a body is unpickled only if its HMAC is right, and then only with the classes of this protocol. Connections,
their number, their time and the length of a body are bounded.
Threads: one thread accepts, and one serves each connection. Listeners are called from the latter.
"""

import base64
import contextlib
import enum
import fcntl
import hashlib
import hmac
import io
import os
import pickle
import secrets
import socket
import struct
import threading
import time

from muster import next_world

NAME = "worker notification service"

_LENGTH = struct.Struct("=i")
_MAX_BODY_BYTES = 64 << 10
_MAX_CONNECTIONS = 16
_CONNECTION_SECONDS = 30
_ACCEPT_PAUSE_SECONDS = 0.1
_SIOCGIFADDR = 0x8915
_ANY = ""  # all addresses of this host


class HostUpdateResult(enum.IntFlag):
    """How the hosts have changed. The names are Horovod's, and part of the protocol."""

    no_update = 0  # pylint: disable=invalid-name
    removed = 1  # pylint: disable=invalid-name
    added = 2  # pylint: disable=invalid-name
    mixed = 3  # pylint: disable=invalid-name


class PingRequest:
    """Asks for the name of the service."""


class HostsUpdatedRequest:
    """Reports at `timestamp` (seconds since 1970) that hosts have changed. `res` is a HostUpdateResult."""

    timestamp = 0
    res = HostUpdateResult.no_update


# Since Python 3.11, a HostUpdateResult is pickled as getattr(HostUpdateResult, "added"), or as operator.or_ of two such
# values. The two functions here allow nothing else.
def _member(kind, name):
    if kind is not HostUpdateResult or name not in HostUpdateResult.__members__:
        raise pickle.UnpicklingError(f"{name} is not part of this protocol")
    return HostUpdateResult[name]


def _either(one, other):
    return HostUpdateResult(one) | HostUpdateResult(other)


_CLASSES = {
    ("horovod.runner.common.util.network", "PingRequest"): PingRequest,
    ("horovod.runner.elastic.worker", "HostsUpdatedRequest"): HostsUpdatedRequest,
    ("horovod.runner.elastic.worker", "HostUpdateResult"): HostUpdateResult,
    ("builtins", "getattr"): _member,
    ("_operator", "or_"): _either,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        found = _CLASSES.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of this protocol")
        return found


def _ack():
    return b"\x80\x02chorovod.runner.common.util.network\nAckResponse\n)\x81."


def _ping_answer(address):
    """Returns the pickle of Horovod's PingResponse, whose class this process does not have."""
    state = pickle.dumps({"service_name": NAME, "source_address": address}, protocol=2)
    return b"\x80\x02chorovod.runner.common.util.network\nPingResponse\n)\x81" + state[2:-1] + b"b."


def framed(key, body):
    """Returns `body` as a frame of this protocol."""
    return hmac.new(key, body, hashlib.sha256).digest() + _LENGTH.pack(len(body)) + body


class Deadline:
    """A socket of which all reads and writes together end after `seconds`, with a TimeoutError. A time limit for each
    of them would let a peer that sends one byte after the other stay for ever."""

    def __init__(self, connection, seconds):
        self._connection = connection
        self._end = time.monotonic() + seconds

    def read(self, count):
        """Returns `count` bytes, or less at the end of the stream."""
        parts = []
        while count > 0:
            self._limit()
            part = self._connection.recv(count)
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def sendall(self, data):
        """Sends all bytes."""
        self._limit()
        self._connection.sendall(data)  # its time limit is for all bytes together

    def _limit(self):
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the exchange took too long")
        self._connection.settimeout(left)


def read_frame(stream, key):
    """Returns the body of a frame. ValueError: it is too long, cut off, or its HMAC is wrong."""
    digest = stream.read(hashlib.sha256().digest_size)
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise ValueError("the frame is cut off")
    length = _LENGTH.unpack(head)[0]
    if not 0 <= length <= _MAX_BODY_BYTES:
        raise ValueError(f"a body of {length} bytes is not allowed")
    body = stream.read(length)
    if len(body) < length or not hmac.compare_digest(digest, hmac.new(key, body, hashlib.sha256).digest()):
        raise ValueError("the digest is wrong")
    return body


def interface_addresses(wanted):
    """Returns {interface: IPv4 address}. `wanted` is a list of names, separated by commas. If it is empty, or none of
    the names has an address, all interfaces count."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an IPv4 address
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found[name] = socket.inet_ntoa(answer[20:24])
    chosen = {name: address for name, address in found.items() if name in wanted.split(",")}
    return chosen or found


class Service:
    """Listens for requests until close(). `on_updated(timestamp, res)` is called for each report."""

    def __init__(self, on_updated):
        self.key = secrets.token_bytes(32)
        self._on_updated = on_updated
        self._is_closed = False
        self._listener = socket.create_server((_ANY, 0), backlog=_MAX_CONNECTIONS)
        self.port = self._listener.getsockname()[1]
        self._free = threading.Semaphore(_MAX_CONNECTIONS)
        threading.Thread(target=self._accept, name="muster-notices", daemon=True).start()

    def description(self):
        """Returns the value for the job's store, as Horovod encodes it."""
        wanted = os.environ.get("HOROVOD_GLOO_IFACE") or ""
        addresses = {name: [(address, self.port)] for name, address in interface_addresses(wanted).items()}
        return base64.b64encode(pickle.dumps((addresses, self.key), protocol=5))

    def close(self):
        """Stops to accept. Connections that were accepted before are still answered."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._is_closed:
                    return
                time.sleep(_ACCEPT_PAUSE_SECONDS)  # descriptors have run out; no event reports a free one
                continue
            self._free.acquire()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        # A wrong request, or a peer that has gone, ends its own connection only. Wrong pickles raise any exception.
        try:
            with connection, contextlib.suppress(Exception):
                exchange = Deadline(connection, _CONNECTION_SECONDS)
                request = _Unpickler(io.BytesIO(read_frame(exchange, self.key))).load()
                exchange.sendall(framed(self.key, self._answer(request, connection.getpeername()[0])))
        finally:
            self._free.release()

    def _answer(self, request, peer):
        if isinstance(request, PingRequest):
            return _ping_answer(peer)
        if not isinstance(request, HostsUpdatedRequest):
            raise ValueError("this is no request")
        self._on_updated(int(request.timestamp), HostUpdateResult(request.res))
        return _ack()


class Notifications:
    """The listeners of this process, and its service, which the first use of listening() starts."""

    def __init__(self):
        self._lock = threading.Lock()
        self._listeners = []
        self._service = None
        self._slot = None  # for which the address was published

    @contextlib.contextmanager
    def listening(self, listener):
        """A context in which listener.on_hosts_updated(timestamp, res) is called for each report."""
        with self._lock:
            self._listeners.append(listener)
        try:
            self.publish()
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def publish(self):
        """Publishes the address under the name that the launcher has for this process now. Does nothing in a job that
        is not elastic."""
        if not next_world.is_elastic():
            return
        slot = next_world.own_slot()
        with self._lock:
            if self._service is None:
                self._service = Service(self._updated)
            if self._slot == slot:
                return
            self._slot = slot
        next_world.job_store().put(f"/worker_addresses/{slot}", self._service.description())

    def _updated(self, timestamp, res):
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.on_hosts_updated(timestamp, res)


notifications = Notifications()
