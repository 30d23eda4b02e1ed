"""Parts of muster.client without a launcherd: addresses, messages, errors, what is repeated, what importing it loads."""

import asyncio
import concurrent.futures
import os
import subprocess
import sys
import threading

import pytest

grpc = pytest.importorskip("grpc", reason="python3-grpcio is not installed")
pytest.importorskip("google.protobuf", reason="python3-protobuf is not installed")

from muster.client import (Address, AsyncClient, Client, InvalidArgument, JobSpec, JobState, MusterError,  # noqa: E402
                           Unavailable, WantedHost, errors, find_address, job_request, parse_host)
from muster.client.address import parse_address  # noqa: E402
from muster.client.retry import Attempts  # noqa: E402
from muster.v1 import launcher_pb2, launcher_pb2_grpc  # noqa: E402

QUICK = dict(retry_for=5, connect_for=5, timeout=20)


def test_importing_it_loads_neither_libmuster_nor_numpy():
    script = """
import sys, muster.v1.launcher_pb2, muster.client
assert not {"muster._library", "numpy", "muster.numpy"} & set(sys.modules)
import muster
print(muster.__version__, "muster._library" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0.1.0 True\n"), done
    done = subprocess.run([sys.executable, "-c", "import muster; muster.nothing"], capture_output=True, text=True, check=False)
    assert "module 'muster' has no attribute 'nothing'" in done.stderr


@pytest.mark.parametrize(("missing", "says"), [
    ("grpc", "pip install 'muster[client]'"), ("google.protobuf", "python3-protobuf"),
    ("muster.v1.launcher_pb2", "grpc_python_plugin")])
def test_what_is_missing_is_named(missing, says):
    script = f"import sys; sys.modules[{missing!r}] = None; import muster.client"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and says in done.stderr.splitlines()[-1], done


@pytest.mark.parametrize("text", ["unix:/run/x.sock", "head:7400", "10.0.0.1:1", "[::1]:65535", "a-b.c_d:80"])
def test_addresses(text):
    assert str(parse_address(text)) == text


@pytest.mark.parametrize("text", ["", "head", "head:0", "head:65536", "head:-1", "head:7400x", ":7400", "unix:x", "unix:",
                                  "-x:1", "a b:1", "http://head:1", "[::1:1", "head:07400", "unix:/a\0b"])
def test_no_addresses(text):
    with pytest.raises(InvalidArgument, match="is not a launcher address") as error:
        parse_address(text)
    assert error.value.field == "launcher"


def test_where_the_address_comes_from():
    variables = {"MUSTER_LAUNCHER": "head:1", "MUSTER_TLS_CERT": "c", "MUSTER_TLS_KEY": "k", "MUSTER_TLS_CA": "a"}
    found = find_address(environment=variables)
    assert (found.endpoint, found.tls.certificate, found.tls.key, found.tls.authority) == ("head:1", "c", "k", "a")
    assert find_address("unix:/x", environment=variables) == Address(path="/x")
    with pytest.raises(Unavailable, match="MUSTER_LAUNCHER"):
        find_address(environment={"MUSTER_LAUNCHER": "", "XDG_RUNTIME_DIR": "/nonexistent", "MUSTER_TMPDIR": "/nonexistent"})


@pytest.mark.parametrize(("text", "wanted"), [
    ("n1", WantedHost(name="n1")), ("n1:4", WantedHost(name="n1", slots=4)), ("ann@n1:4", WantedHost(name="n1", slots=4, user="ann")),
    ("[fe80::1]:2", WantedHost(name="fe80::1", slots=2))])
def test_hosts(text, wanted):
    assert parse_host(text) == wanted


@pytest.mark.parametrize("text", ["", "-x", "n1:", "n1:x", "n1:9999999", "a@b@c", "n1 n2", "n1,n2", "fe80::1"])
def test_no_hosts(text):
    with pytest.raises(InvalidArgument):
        parse_host(text)


def test_a_request_leaves_the_callers_messages_as_they_are():
    spec = JobSpec(size=4, bind_to="core")
    request = job_request(["a", b"\xff"], spec=spec, size=2, timeout=1.25, hosts=["n1:2", WantedHost(name="n2")], name=None)
    assert (request.spec.size, request.spec.bind_to, spec.size, list(request.spec.command)) == (2, "core", 4, [b"a", b"\xff"])
    assert (request.spec.timeout.seconds, request.spec.timeout.nanos) == (1, 250_000_000)
    assert [host.name for host in request.spec.hosts] == ["n1", "n2"] and request.name == ""
    assert request.spec.working_directory == os.fsencode(os.getcwd())


def test_states():
    assert [state.name for state in JobState if state.is_final] == ["SUCCEEDED", "FAILED", "KILLED", "LOST"]
    assert JobState(launcher_pb2.Job(state=3).state) is JobState.RUNNING
    assert JobState(77) is JobState.UNSPECIFIED  # of a newer launcher


def packed(number, data):
    """A field of bytes, for messages of fewer than 128 bytes."""
    return bytes([number << 3 | 2, len(data)]) + data


def test_fields_of_errors():
    violation = packed(1, packed(1, b"spec.size") + packed(2, b"too many"))
    any_of = packed(1, b"type.googleapis.com/google.rpc.BadRequest") + packed(2, violation)
    assert errors.field_of_details(b"\x08\x03" + packed(2, b"x") + packed(3, any_of)) == "spec.size"
    assert errors.field_of_details(packed(3, packed(1, b"type.googleapis.com/google.rpc.ErrorInfo"))) is None


def test_details_that_are_no_message_name_no_field():
    whole = packed(3, packed(1, b"x/google.rpc.BadRequest") + packed(2, packed(1, packed(1, b"spec.size"))))
    for end in range(len(whole)):
        assert errors.field_of_details(whole[:end]) is None
    for data in (b"\xff" * 20, b"\x1b", b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", bytes(range(256))):
        assert errors.field_of_details(data) is None


def test_pauses_grow_and_end(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    attempts, failure = Attempts(None), Unavailable("gone")
    pauses = []
    with pytest.raises(Unavailable, match=r"gone \(asked again for"):
        while True:
            pauses.append(attempts.pause_after(failure, 10))
            now[0] += pauses[-1]
    assert 8.7 < sum(pauses) <= 10 and 0.07 < pauses[0] < 0.13 and max(pauses) < 1.26
    attempts.succeeded()
    assert attempts.pause_after(failure, 10) < 0.13
    with pytest.raises(InvalidArgument):
        attempts.pause_after(InvalidArgument("no"), 10)
    late = Attempts(0.01)
    assert late.remaining() == pytest.approx(0.01)
    with pytest.raises(Unavailable):
        late.pause_after(failure, 10)


class Flaky(launcher_pb2_grpc.LauncherServicer):
    """A launcher that cuts the first calls of some names after it has taken them up."""

    def __init__(self, cuts, code):
        self.cuts, self.code, self.seen, self.lock = dict(cuts), code, [], threading.Lock()

    def answer(self, name, request, context, answer):
        with self.lock:
            self.seen.append((name, request))
            self.cuts[name] = self.cuts.get(name, 0) - 1
            is_cut = self.cuts[name] >= 0
        if is_cut:
            context.abort(self.code, "Socket closed")
        return answer

    def Submit(self, request, context):
        return self.answer("Submit", request, context, launcher_pb2.SubmitResponse(job_id="aaaaaaaa"))

    def Rerun(self, request, context):
        return self.answer("Rerun", request, context, launcher_pb2.SubmitResponse(job_id="bbbbbbbb"))

    def Kill(self, request, context):
        return self.answer("Kill", request, context, launcher_pb2.KillResponse())

    def Signal(self, request, context):
        return self.answer("Signal", request, context, launcher_pb2.SignalResponse())

    def GetCapabilities(self, request, context):
        return self.answer("GetCapabilities", request, context, launcher_pb2.Capabilities(pid=1))

    def names(self):
        return [name for name, _ in self.seen]


@pytest.fixture
def serve(tmp_path):
    """serve(cuts, code) -> the launcher; listens at tmp_path/s."""
    servers = []

    def start(cuts, code=grpc.StatusCode.UNAVAILABLE):
        launcher = Flaky(cuts, code)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        launcher_pb2_grpc.add_LauncherServicer_to_server(launcher, server)
        server.add_insecure_port(f"unix:{tmp_path}/s")
        server.start()
        servers.append(server)
        return launcher

    yield start
    for server in servers:
        server.stop(None).wait()


class Sync:
    """Calls of a Client, or below of an AsyncClient, by their names."""

    def __init__(self, place, **options):
        self.place, self.options = place, {**QUICK, **options}

    def call(self, name, *arguments, **keywords):
        with Client(self.place, **self.options) as client:
            return getattr(client, name)(*arguments, **keywords)


class Async(Sync):
    def call(self, name, *arguments, **keywords):
        async def main():
            async with AsyncClient(self.place, **self.options) as client:
                return await getattr(client, name)(*arguments, **keywords)

        return asyncio.run(main())


@pytest.fixture(params=[Sync, Async])
def kind(request):
    return request.param


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
def test_a_submission_that_was_cut_is_the_same_when_it_is_repeated(serve, tmp_path, kind, code):
    launcher = serve({"Submit": 2, "Rerun": 1}, code)
    client = kind(f"unix:{tmp_path}/s")
    assert client.call("submit", ["true"]) == "aaaaaaaa"
    assert client.call("rerun", "aaaaaaaa") == "bbbbbbbb"
    assert launcher.names() == ["Submit"] * 3 + ["Rerun"] * 2
    requests = [request for _, request in launcher.seen]
    assert requests[0].request_id and requests[0] == requests[1] == requests[2]
    assert requests[3].request_id and requests[3] == requests[4]


def test_many_submissions_that_were_cut_are_repeated(serve, tmp_path, kind):
    launcher = serve({"Submit": 5})
    results = kind(f"unix:{tmp_path}/s").call("submit_many", [job_request(["true"]) for _ in range(10)], window=4)
    assert results == ["aaaaaaaa"] * 10
    assert len({request.request_id for _, request in launcher.seen}) == 10 and len(launcher.seen) == 15


@pytest.mark.parametrize(("name", "call", "arguments"), [("kill", "Kill", ["aaaaaaaa"]), ("signal", "Signal", ["aaaaaaaa", 10])])
def test_what_must_not_arrive_twice_is_not_repeated(serve, tmp_path, kind, name, call, arguments):
    launcher = serve({call: 1})
    with pytest.raises(Unavailable, match=f"was lost during {call}, which it may have done or not: look at the job"):
        kind(f"unix:{tmp_path}/s").call(name, *arguments)
    assert launcher.names() == ["GetCapabilities", call]


def test_a_connection_that_is_cut_before_is_no_doubt(serve, tmp_path, kind):
    launcher = serve({"GetCapabilities": 2})
    kind(f"unix:{tmp_path}/s").call("kill", "aaaaaaaa")
    assert launcher.names() == ["GetCapabilities"] * 3 + ["Kill"]


def test_killing_at_once_may_be_repeated(serve, tmp_path, kind):
    launcher = serve({"Kill": 2})
    kind(f"unix:{tmp_path}/s").call("kill", "aaaaaaaa", at_once=True)
    assert launcher.names() == ["Kill"] * 3


def test_repeating_ends(serve, tmp_path, kind):
    launcher = serve({"Submit": 1000})
    with pytest.raises(Unavailable, match="Socket closed.*asked again for"):
        kind(f"unix:{tmp_path}/s", retry_for=1).call("submit", ["true"])
    assert 3 <= len(launcher.seen) <= 6


@pytest.mark.parametrize("code", ["INTERNAL", "RESOURCE_EXHAUSTED", "DATA_LOSS", "UNAUTHENTICATED", "UNKNOWN"])
def test_other_errors_are_raised_at_once(serve, tmp_path, kind, code):
    launcher = serve({"Submit": 1}, grpc.StatusCode[code])
    with pytest.raises(MusterError, match="Socket closed") as error:
        kind(f"unix:{tmp_path}/s").call("submit", ["true"])
    assert error.value.code == code and len(launcher.seen) == 1


def test_a_call_that_the_launcher_does_not_know(serve, tmp_path, kind):
    serve({})
    with pytest.raises(MusterError) as error:
        kind(f"unix:{tmp_path}/s").call("hosts")
    assert error.value.code == "UNIMPLEMENTED"
