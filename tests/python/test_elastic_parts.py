"""The parts of muster.elastic in one process: the loop of run(), the states, the notification service, the job's store."""

import base64
import contextlib
import enum
import http.server
import pathlib
import pickle
import pickletools
import socket
import struct
import sys
import threading
import time
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "elastic"))
from launcher_double import LauncherDouble, ask, notify  # noqa: E402

from muster import elastic, job_store, next_world, notifications, world  # noqa: E402
from muster.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: E402
from muster.notifications import HostUpdateResult  # noqa: E402


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    """A LauncherDouble that has started nothing. This process is in its job."""
    with LauncherDouble([], tmp_path, {}) as double:
        variables = {"HOROVOD_ELASTIC": "1", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "HOROVOD_HOSTNAME": "h0",
                     "HOROVOD_GLOO_RENDEZVOUS_PORT": str(double.server.server_address[1]),
                     "HOROVOD_GLOO_IFACE": "lo", "HOROVOD_RANK": "0", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": "0",
                     "HOROVOD_LOCAL_SIZE": "1", "HOROVOD_CROSS_RANK": "0", "HOROVOD_CROSS_SIZE": "2"}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(next_world, "_sources", [])
        monkeypatch.setattr(notifications.notifications, "_service", None)
        monkeypatch.setattr(notifications.notifications, "_slot", None)
        yield double


# --- the loop of run() -----------------------------------------------------------------------------------------------


class Recorded(elastic.State):
    """A state that writes down what is called."""

    def __init__(self, calls):
        super().__init__(bcast_object=lambda obj: obj)
        self._calls = calls
        self.register_reset_callbacks([lambda: calls.append("callback")])

    def save(self):
        self._calls.append("save")

    def restore(self):
        self._calls.append("restore")

    def sync(self):
        self._calls.append("sync")

    def reset(self):
        self._calls.append("state.reset")


def run_with(monkeypatch, outcomes, resets=()):
    """What run_fn() calls if `func` has these outcomes (exceptions, or a result), and reset() these exceptions."""
    monkeypatch.setattr(elastic, "_any_rank", lambda needs_sync: needs_sync)
    calls, left, resets = [], list(outcomes), list(resets)

    def func(state):
        calls.append("func")
        outcome = left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def reset():
        calls.append("reset")
        if resets:
            raise resets.pop(0)

    result = elastic.run_fn(func, reset)(Recorded(calls))
    return result, calls


AFTER_RESET = ["reset", "state.reset", "callback"]


def test_a_failure_restores_and_synchronizes(launcher, monkeypatch):
    result, calls = run_with(monkeypatch, [HorovodInternalError("a rank has ended"), 5])
    assert result == 5
    assert calls == ["sync", "func", "restore", *AFTER_RESET, "sync", "func"]


@pytest.mark.parametrize("skips", [True, False])
def test_changed_hosts_restore_nothing(launcher, monkeypatch, skips):
    _, calls = run_with(monkeypatch, [HostsUpdatedInterrupt(skips), 5])
    assert calls == ["sync", "func", *AFTER_RESET, *([] if skips else ["sync"]), "func"]


def test_a_failure_after_a_skipped_synchronization_synchronizes(launcher, monkeypatch):
    _, calls = run_with(monkeypatch, [HostsUpdatedInterrupt(True), HorovodInternalError(), 5])
    assert calls[-2:] == ["sync", "func"]


def test_a_world_that_does_not_form_is_left_for_the_next(launcher, monkeypatch):
    _, calls = run_with(monkeypatch, [HostsUpdatedInterrupt(), 5], [HorovodInternalError(), HorovodInternalError()])
    assert calls == ["sync", "func", "reset", "reset", *AFTER_RESET, "sync", "func"]


def test_other_errors_pass(launcher, monkeypatch):
    with pytest.raises(KeyError):
        run_with(monkeypatch, [KeyError()])
    with pytest.raises(ZeroDivisionError):
        run_with(monkeypatch, [HorovodInternalError()], [ZeroDivisionError()])


def test_in_a_job_that_is_not_elastic_a_failure_passes(monkeypatch):
    monkeypatch.delenv("HOROVOD_ELASTIC", raising=False)
    with pytest.raises(HorovodInternalError):
        run_with(monkeypatch, [HorovodInternalError()])
    _, calls = run_with(monkeypatch, [5])
    assert calls == ["sync", "func"]
    elastic.State(lambda obj: pytest.fail("a broadcast")).check_host_updates()


# --- reports of changed hosts ----------------------------------------------------------------------------------------


def interrupt_of(state):
    """The interrupt of a commit; None if there is none."""
    try:
        state.commit()
    except HostsUpdatedInterrupt as interrupt:
        return interrupt
    return None


def test_a_commit_saves_and_then_interrupts(launcher):
    calls = []
    state = Recorded(calls)
    assert interrupt_of(state) is None
    state.on_hosts_updated(100, HostUpdateResult.added)
    assert interrupt_of(state).skip_sync is False
    assert calls == ["save", "save"]
    assert interrupt_of(state) is None, "each report interrupts once"


def test_only_newer_reports_count(launcher):
    state = Recorded([])
    state.on_hosts_updated(100, HostUpdateResult.removed)
    assert interrupt_of(state).skip_sync is True
    state.on_hosts_updated(100, HostUpdateResult.added)
    state.on_hosts_updated(99, HostUpdateResult.added)
    assert interrupt_of(state) is None
    state.on_hosts_updated(101, HostUpdateResult.removed)
    state.on_hosts_updated(102, HostUpdateResult.added)
    assert interrupt_of(state).skip_sync is False, "hosts were removed and added"


def test_rank_0_decides(launcher):
    state = elastic.ObjectState(bcast_object=lambda obj: (5, 7, HostUpdateResult.removed), get_rank=lambda: 1)
    state.on_hosts_updated(100, HostUpdateResult.added)
    assert interrupt_of(state).skip_sync is True
    deaf = elastic.ObjectState(bcast_object=lambda obj: (5, 5, HostUpdateResult.no_update), epoch=1)
    deaf.on_hosts_updated(100, HostUpdateResult.added)
    assert interrupt_of(deaf) is None and deaf.epoch == 1


def test_a_reset_forgets_reports(launcher):
    state = Recorded([])
    state.on_hosts_updated(100, HostUpdateResult.added)
    state.on_reset()
    assert interrupt_of(state) is None


# --- the notification service ----------------------------------------------------------------------------------------


@pytest.fixture
def service():
    """(Service, list of its reports)"""
    reports = []
    made = notifications.Service(lambda timestamp, res: reports.append((timestamp, res)))
    yield made, reports
    made.close()


def test_the_description_has_plain_data_only(service, monkeypatch):
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", "lo")
    data = base64.b64decode(service[0].description(), validate=True)
    assert pickle.loads(data) == ({"lo": [("127.0.0.1", service[0].port)]}, service[0].key)
    allowed = {"PROTO", "FRAME", "EMPTY_DICT", "MEMOIZE", "SHORT_BINUNICODE", "EMPTY_LIST", "BININT", "BININT1",
               "BININT2", "TUPLE2", "APPEND", "SETITEM", "SHORT_BINBYTES", "STOP"}
    assert {opcode.name for opcode, _, _ in pickletools.genops(data)} <= allowed
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", "no_such_interface")
    addresses, _ = pickle.loads(base64.b64decode(service[0].description()))
    assert addresses["lo"] == [("127.0.0.1", service[0].port)]


def test_reports_reach_the_listener(service):
    made, reports = service
    answer = notify("127.0.0.1", made.port, made.key, 4711, 3)
    assert reports == [(4711, 3)]
    names = [argument for opcode, argument, _ in pickletools.genops(answer) if opcode.name == "GLOBAL"]
    assert names == ["horovod.runner.common.util.network AckResponse"]


@pytest.fixture
def worker(monkeypatch):
    """A module as Horovod's horovod.runner.elastic.worker, with the two classes that its driver pickles."""
    name = "horovod.runner.elastic.worker"
    for i in range(1, 5):
        parent = ".".join(name.split(".")[:i])
        monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    module = sys.modules[name]
    module.HostsUpdatedRequest = type("HostsUpdatedRequest", (), {"__module__": name})
    changes = {"no_update": 0, "removed": 1, "added": 2, "mixed": 3}
    module.HostUpdateResult = enum.IntFlag("HostUpdateResult", changes, module=name)
    return module


@pytest.mark.parametrize("change", [1, 2, 3])
@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_flags_are_read_as_this_python_pickles_them(service, worker, change, protocol):
    made, reports = service
    request = worker.HostsUpdatedRequest()
    request.timestamp, request.res = 9, worker.HostUpdateResult(change)
    assert ask("127.0.0.1", made.port, made.key, pickle.dumps(request, protocol=protocol))
    assert reports == [(9, change)]


def test_a_ping_names_the_service(service):
    made, _ = service
    answer = ask("127.0.0.1", made.port, made.key, b"\x80\x02chorovod.runner.common.util.network\nPingRequest\n)\x81.")
    words = [argument for _, argument, _ in pickletools.genops(answer)]
    assert "horovod.runner.common.util.network PingResponse" in words
    assert "worker notification service" in words and "127.0.0.1" in words


def test_a_wrong_request_ends_its_connection_only(service, tmp_path):
    made, reports = service
    mark = tmp_path / "executed"
    evil = b"cposix\nsystem\n(Vtouch " + str(mark).encode() + b"\ntR."
    other = b"cbuiltins\ngetattr\n(chorovod.runner.elastic.worker\nHostUpdateResult\nV__class__\ntR."
    for _ in range(10):  # together more connections than the service has at once
        assert ask("127.0.0.1", made.port, b"another key", pickle.dumps(5)) == b""
        assert ask("127.0.0.1", made.port, made.key, evil) == b""
        assert ask("127.0.0.1", made.port, made.key, other) == b""
        assert ask("127.0.0.1", made.port, made.key, b"not a pickle") == b""
        assert ask("127.0.0.1", made.port, made.key, pickle.dumps({"no": "request"})) == b""
        for head in (b"", b"short", bytes(32) + struct.pack("=i", -1), bytes(32) + struct.pack("=i", 1 << 30)):
            with socket.create_connection(("127.0.0.1", made.port)) as connection:
                connection.sendall(head)
    assert not mark.exists()
    notify("127.0.0.1", made.port, made.key, 1, 2)
    assert reports == [(1, 2)]


def test_a_slow_peer_does_not_hold_the_service(service, monkeypatch):
    made, reports = service
    monkeypatch.setattr(notifications, "_CONNECTION_SECONDS", 0.5)
    slow = [socket.create_connection(("127.0.0.1", made.port)) for _ in range(notifications._MAX_CONNECTIONS)]
    for connection in slow:
        connection.sendall(bytes(32) + struct.pack("=i", 1 << 15))
    try:
        is_done = threading.Event()

        def drip():  # each byte comes long before the limit of a single read
            while not is_done.wait(0.1):
                for connection in slow:
                    with contextlib.suppress(OSError):
                        connection.send(b"x", socket.MSG_NOSIGNAL)

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            begun = time.monotonic()
            notify("127.0.0.1", made.port, made.key, 7, 3)  # waits for a free place
        finally:
            is_done.set()
            dripping.join()
        assert reports == [(7, 3)] and time.monotonic() - begun < 20
    finally:
        for connection in slow:
            connection.close()


def test_the_process_announces_itself_once_for_each_slot(launcher, monkeypatch):
    class Listener:
        """Keeps its reports."""

        reports = []

        def on_hosts_updated(self, timestamp, res):
            """Keeps the report."""
            self.reports.append((timestamp, res))

    with notifications.notifications.listening(Listener()):
        addresses, key = pickle.loads(base64.b64decode(launcher.addresses.pop("h0")))
        notify(*addresses["lo"][0], key, 12, 1)
        notifications.notifications.publish()
        assert not launcher.addresses
        monkeypatch.setenv("HOROVOD_LOCAL_RANK", "1")
        notifications.notifications.publish()
        assert launcher.addresses
    notify(*addresses["lo"][0], key, 13, 1)
    assert Listener.reports == [(12, 1)]
    notifications.notifications._service.close()


# --- the next world --------------------------------------------------------------------------------------------------


def test_the_first_numbers_are_those_of_the_environment(launcher):
    assert next_world.source().next() == (0, 2, 0, 1, 0, 2, None)
    assert next_world.source() is next_world.source()


def test_without_a_launcher_a_job_is_not_elastic(launcher, monkeypatch):
    for name, value in (("HOROVOD_ELASTIC", "0"), ("HOROVOD_ELASTIC", "no"), ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "")):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert not next_world.is_elastic() and next_world.source() is None


@pytest.mark.parametrize("answer", [b"", None, b"1,2", b"a,b,c,d,e,f", b"2,2,0,1,0,2", b"0,2,1,1,0,2", b"0,2,0,1,0,2,3"])
def test_other_answers_are_errors(answer):
    with pytest.raises(ConnectionError, match="the launcher answered"):
        next_world._parse(answer, None)


def test_a_place_of_another_world_is_not_found(launcher):
    source = next_world.source()
    two = source.next()
    source.publish(two._replace(size=3), b"of three")
    assert source.find(two) == b""
    source.publish(two, b"of two")
    assert source.find(two) == source.find(two._replace(generation=8)) == b"of two"
    source.publish(two._replace(generation=7), b"of 7")
    assert source.find(two) == source.find(two._replace(generation=7)) == b"of 7"
    assert source.find(two._replace(generation=8)) == b""


def test_only_the_end_of_its_own_world_counts(launcher, monkeypatch):
    monkeypatch.setattr(next_world, "_OVER_SECONDS", 0)
    source = next_world.source()
    unknown = source.next()
    for value, generation, is_over in ((None, 3, False), (b"2", 3, False), (b"3", 3, True), (b"", 3, True),
                                       (b"3", None, True)):
        with launcher.changed:
            launcher.keys = {} if value is None else {"/muster.elastic/over": value}
        source._is_over = False
        assert source.is_over(unknown._replace(generation=generation)) is is_over


@pytest.mark.parametrize("rank, generation, reported",
                         [("0", "2", b"2"), ("0", "0", None), ("1", "2", None), ("0", None, None), ("0", "x", None)])
def test_rank_0_reports_the_first_collective_of_a_later_generation(launcher, monkeypatch, rank, generation, reported):
    monkeypatch.setenv("MUSTER_RANK", rank)
    if generation is None:
        monkeypatch.delenv("MUSTER_GENERATION", raising=False)
    else:
        monkeypatch.setenv("MUSTER_GENERATION", generation)
    next_world.report_first_collective()
    assert launcher.keys.get("/muster.elastic/first_collective") == reported


def test_a_lost_report_of_a_first_collective_is_no_error(monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", str(closed.getsockname()[1]))
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1")
    monkeypatch.setenv("MUSTER_RANK", "0")
    monkeypatch.setenv("MUSTER_GENERATION", "2")
    next_world.report_first_collective()


def test_a_report_of_a_first_collective_does_not_wait_for_its_answer(monkeypatch):
    monkeypatch.setattr(job_store, "_SHORT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and never answers
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", str(silent.getsockname()[1]))
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1")
        monkeypatch.setenv("MUSTER_RANK", "0")
        monkeypatch.setenv("MUSTER_GENERATION", "2")
        next_world.report_first_collective()
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", "no port")
    next_world.report_first_collective()


def test_encryption_is_refused(launcher, monkeypatch):
    monkeypatch.setenv("MUSTER_ENCRYPT", "1")
    with pytest.raises(ValueError, match="MUSTER_ENCRYPT=1 is not possible in an elastic job"):
        world.init()
    assert not world.is_initialized()


# --- the job's store -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost_at", ["joining", "formed"])
def test_a_world_whose_store_is_lost_is_left_for_the_next(monkeypatch, lost_at):
    """The host of the store, which is rank 0's, may be lost while a world forms."""
    made, left = [], []

    class Source(next_world.WorldSource):
        def next(self):
            return next_world.Numbers(0, 1, 0, 1, 0, 1, len(made))

        def formed(self, numbers):
            if lost_at == "formed" and numbers.generation == 0:
                raise ConnectionError("the store does not answer")

    class World:
        def __init__(self, _ranks, _timeout, _source, numbers):
            made.append(numbers)
            self.numbers = numbers
            if lost_at == "joining" and len(made) == 1:
                raise ConnectionError("the store does not answer")

        def leave(self):
            left.append(self.numbers)

    monkeypatch.setattr(world, "_World", World)
    joined = world._elastic_world(Source(), None, 0)
    assert joined.numbers == made[1] and len(made) == 2
    assert left == (made[:1] if lost_at == "formed" else [])


def test_the_store_is_asked_three_times(monkeypatch):
    monkeypatch.setattr(job_store, "_PAUSE_SECONDS", 0)
    statuses = [500, 503, 200, 500, 500, 500, 404]

    class Handler(http.server.BaseHTTPRequestHandler):
        """Answers with the next status."""

        def do_GET(self):
            """Answers."""
            self.send_response(statuses.pop(0))
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            """Writes nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    store = job_store.JobStore(*server.server_address)
    assert store.get("/a/b") == b"ok"
    with pytest.raises(ConnectionError, match=r"did not answer GET /a/b in 3 tries \(status 500\)"):
        store.get("/a/b")
    assert store.get("/a/b") is None
    server.shutdown()
    server.server_close()
    with pytest.raises(ConnectionError, match="ConnectionRefusedError"):
        store.put("/a/b", b"")
