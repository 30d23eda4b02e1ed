"""Jobs as traces of OpenTelemetry, sent to a collector that decodes them (otlp_collector.py)."""
import concurrent.futures
import importlib
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time

import pytest
from conftest import BIN, PATIENCE
import client

PEER = client.ROOT / "build/release/peers/otlp/bin/python"
TOKEN = "s3cret-token"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OK, INTERNAL, ERROR = 0, 1, 2
LONGEST = 1024  # bytes of an attribute


class Collector:
    """The collector, and all that it got."""

    def __init__(self, messages, *arguments):
        python = PEER if PEER.exists() else sys.executable
        command = [python, pathlib.Path(__file__).with_name("otlp_collector.py"), messages, *arguments]
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        first = json.loads(self.process.stdout.readline())
        self.port, self.decoder = first["port"], first["decoder"]
        self.lines = queue.Queue()
        self.requests = []
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def answer_next(self, *answers):
        for answer in answers:
            self.process.stdin.write(answer + "\n")
        self.process.stdin.flush()

    def variables(self, **more):
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
                "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{TOKEN}", **more}

    def next_request(self):
        request = self.lines.get(timeout=PATIENCE)
        assert not request["unknown"] and request["path"] == "/v1/traces", request
        assert request["headers"]["authorization"] == f"Bearer {TOKEN}", request["headers"]
        assert request["headers"]["Content-Type"] == "application/x-protobuf", request["headers"]
        self.requests.append(request)
        return request

    def spans(self):
        return [span for request in self.requests if request["answer"] == "200" for span in request["spans"]]

    def trace_of(self, job):
        """The spans of a job that has ended, by their names; checks what all traces have in common."""
        while not any(is_root_of(span, job) for span in self.spans()):
            self.next_request()
        root = next(span for span in self.spans() if is_root_of(span, job))
        within = [span for span in self.spans() if span["attributes"]["muster.job.id"] == job and span is not root]
        check_trace(root, within)
        return root, within

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0
        self.thread.join()
        self.process.stdout.close()


def is_root_of(span, job):
    return span["name"] == "job" and span["attributes"]["muster.job.id"] == job


def check_trace(root, within):
    ids = {span["span"] for span in [root, *within]}
    assert len(ids) == len(within) + 1, within
    for span in [root, *within]:
        assert span["trace"] == root["trace"] and len(span["trace"]) == 32 and len(span["span"]) == 16, span
        assert span["parent"] == root["span"] or span is root, span
        assert root["begin"] <= span["begin"] <= span["end"] <= root["end"], span
        assert span["kind"] == INTERNAL and span["flags"] == 1, span
        texts = [span["name"], span["message"], *map(str, span["attributes"].values())]
        assert len(span["attributes"]) <= 32 and all(len(text.encode()) <= LONGEST for text in texts), span
        assert all(root["begin"] <= event["time"] <= root["end"] for event in span["events"]), span


def named(spans, name):
    return [span for span in spans if span["name"] == name]


def one(spans, name):
    found, = named(spans, name)
    return found


@pytest.fixture(scope="session")
def messages(tmp_path_factory):
    """The folder of otlp_pb2.py. It is needed where OpenTelemetry's own messages cannot be fetched."""
    if not PEER.exists():
        subprocess.run([client.ROOT / "tools/peers", "otlp"], capture_output=True, timeout=120, check=False)
    folder = tmp_path_factory.mktemp("otlp")
    subprocess.run(["protoc", f"-I{client.ROOT / 'proto/wire'}", f"--python_out={folder}", "otlp.proto"], check=True)
    return folder


@pytest.fixture
def collector(messages):
    collectors = []

    def start(*arguments):
        collectors.append(Collector(messages, *arguments))
        return collectors[-1]

    yield start
    for each in collectors:
        each.end()


def hvdrun(environment, *words, timeout=PATIENCE):
    return subprocess.run([BIN / "hvdrun", *words], env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=timeout, stdin=subprocess.DEVNULL)


def rank_lines(text):
    """Rank -> its line of output."""
    return {int(rank): line for rank, line in re.findall(r"^\[(\d+)\]<stdout>:(.*)$", text, re.M)}


def command_lines():
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            yield (process / "cmdline").read_bytes()
        except OSError:
            continue


def test_a_job_of_launcherd_is_one_trace(launcherd, collector):
    receiver = collector()
    daemon = launcherd(environment=receiver.variables(OTEL_RESOURCE_ATTRIBUTES="team=a%20b"))
    api = daemon.client()
    job = api.submit(["sh", "-c", "echo $MUSTER_RANK $TRACEPARENT; exit $((MUSTER_RANK * 3))"], size=2,
                     request_name="night")
    api.wait(job)
    root, within = receiver.trace_of(job)
    assert root["parent"] == "" and root["status"] == ERROR and root["message"] == "rank 1 on localhost: exit code 3"
    assert root["attributes"]["muster.exit_code"] == 3 and root["attributes"]["muster.job.name"] == "night"
    assert root["resource"]["service.name"] == "launcherd" and root["resource"]["team"] == "a b"
    for phase in ("job queued", "job starting", "job running", "host log-in", "host up"):
        assert one(within, phase)["status"] == OK
    failed = one(within, "rank 1")
    assert (failed["status"], failed["message"]) == (ERROR, "exit code 3")
    assert failed["attributes"]["muster.rank"] == 1 and failed["attributes"]["process.pid"] > 0
    assert one(within, "job queued")["begin"] == root["begin"]
    assert one(within, "host log-in")["end"] <= failed["begin"]
    for line in api.output(job).decode().splitlines():
        rank, parent = line.split()
        assert parent == f"00-{root['trace']}-{one(within, f'rank {rank}')['span']}-01"
    assert TOKEN not in "".join(daemon.lines.queue) and not any(TOKEN.encode() in line for line in command_lines())


def test_the_submitter_may_have_a_span(launcherd, collector):
    receiver = collector()
    daemon = launcherd(environment=receiver.variables())
    environment = {**os.environ, "TRACEPARENT": PARENT, "TRACESTATE": "vendor=1"}
    submit = [BIN / "muster", "submit", "--launcher", f"unix:{daemon.socket}", "-np", "1", "--", "sh", "-c",
              "echo $TRACEPARENT $TRACESTATE"]
    result = subprocess.run(submit, env=environment, capture_output=True, text=True, timeout=PATIENCE,
                            stdin=subprocess.DEVNULL)
    job = result.stdout.strip()
    api = daemon.client()
    api.wait(job)
    root, within = receiver.trace_of(job)
    assert root["trace"] == PARENT[3:35] and root["parent"] == PARENT[36:52] and root["state"] == "vendor=1"
    output = api.output(job).decode().split()
    assert output == [f"00-{root['trace']}-{one(within, 'rank 0')['span']}-01", "vendor=1"], output


def test_submit_names_a_wrong_parent(launcherd):
    daemon = launcherd()
    result = subprocess.run([BIN / "muster", "submit", "--launcher", f"unix:{daemon.socket}", "-np", "1", "true"],
                            env={**os.environ, "TRACEPARENT": "00-x"}, capture_output=True, text=True, timeout=PATIENCE,
                            stdin=subprocess.DEVNULL)
    assert result.returncode == 0 and "muster submit: no span is the parent of the job: TRACEPARENT: " in result.stderr
    daemon.client().wait(result.stdout.strip())


def test_a_wrong_parent_is_ignored(launcherd, collector):
    receiver = collector()
    daemon = launcherd(environment=receiver.variables())
    api = daemon.client()
    job = api.submit(["sh", "-c", "echo $TRACEPARENT[$TRACESTATE]"],
                     environment={"TRACEPARENT": "00-s3cret", "TRACESTATE": "a=b"})
    api.wait(job)
    root, within = receiver.trace_of(job)
    assert root["parent"] == ""
    assert api.output(job).decode().strip() == f"00-{root['trace']}-{one(within, 'rank 0')['span']}-01[]"
    line = daemon.line_with("TRACEPARENT")
    assert f"job {job}" in line and "s3cret" not in line, line


def test_each_generation_has_spans_of_its_own(launcherd, collector):
    receiver = collector()
    daemon = launcherd(environment=receiver.variables())
    api = daemon.client()
    job = api.submit(["sh", "-c", "echo $TRACEPARENT; exit $((1 - MUSTER_GENERATION))"], max_restarts=1)
    api.wait(job)
    root, within = receiver.trace_of(job)
    ranks = sorted(named(within, "rank 0"), key=lambda span: span["begin"])
    assert [rank["attributes"]["muster.generation"] for rank in ranks] == [0, 1]
    assert [rank["status"] for rank in ranks] == [ERROR, OK] and root["status"] == OK
    assert "generation 1" in [event["name"] for event in root["events"]]
    assert api.output(job).decode().split() == [f"00-{root['trace']}-{rank['span']}-01" for rank in ranks]


def test_elements_of_an_array(launcherd, collector):
    receiver = collector()
    daemon = launcherd(environment=receiver.variables())
    api = daemon.client()
    request = api.request(["sh", "-c", "exit $MUSTER_ARRAY_INDEX"], environment={"TRACEPARENT": PARENT})
    request.array.elements.add(first=0, last=1)
    array = api.send(request)
    api.wait(array)
    root, _ = receiver.trace_of(array)
    elements = [span for span in receiver.spans() if span["attributes"].get("muster.array.id") == array]
    assert {span["attributes"]["muster.array.index"]: span["status"] for span in elements} == {0: OK, 1: ERROR}
    assert {span["parent"] for span in [root, *elements]} == {PARENT[36:52]}


def test_the_next_launcherd_goes_on_in_the_same_trace(launcherd, collector, tmp_path):
    receiver = collector()
    daemon = launcherd(environment=receiver.variables())
    api = daemon.client()
    go = tmp_path / "go"
    job = api.submit(["sh", "-c", f"echo $TRACEPARENT; until test -e {go}; do sleep 0.05; done; exit 5"])
    api.until(job, "RUNNING")
    while not named(receiver.spans(), "job starting"):
        receiver.next_request()
    daemon.end("KILL")
    daemon = launcherd(environment=receiver.variables())
    go.touch()
    api = daemon.client()
    api.wait(job)
    root, within = receiver.trace_of(job)
    assert sorted(span["name"] for span in within if span["name"] != "job stopping") == [
        "host log-in", "host up", "job queued", "job running", "job starting", "rank 0"]
    rank = one(within, "rank 0")
    assert (rank["status"], rank["message"]) == (ERROR, "exit code 5")
    assert one(within, "job running")["begin"] == one(within, "job starting")["end"]
    assert api.output(job).decode().strip() == f"00-{root['trace']}-{rank['span']}-01"


def test_an_element_stays_in_its_trace_over_a_restart(launcherd, collector, tmp_path):
    receiver = collector()
    daemon = launcherd(environment=receiver.variables())
    api = daemon.client()
    go = tmp_path / "go"
    wait = f"until test -e {go}; do sleep 0.05; done"
    request = api.request(["sh", "-c", f"echo $TRACEPARENT; {wait}"], environment={"TRACEPARENT": PARENT})
    request.array.elements.add(first=0, last=0)
    array = api.send(request)
    elements = set()
    while not elements:
        receiver.next_request()
        elements = {span["attributes"]["muster.job.id"] for span in named(receiver.spans(), "job starting")} - {array}
    element, = elements
    daemon.end("KILL")
    daemon = launcherd(environment=receiver.variables())
    go.touch()
    api = daemon.client()
    api.wait(array)
    root, within = receiver.trace_of(element)
    assert (root["trace"], root["parent"]) == (PARENT[3:35], PARENT[36:52])
    assert api.output(element).decode().strip() == f"00-{root['trace']}-{one(within, 'rank 0')['span']}-01"


def test_a_busy_collector_gets_everything_later(launcherd, collector):
    receiver = collector()
    receiver.answer_next("503 Retry-After:1", "429")
    daemon = launcherd(environment=receiver.variables())
    api = daemon.client()
    job = api.submit(["true"])
    api.wait(job)
    receiver.trace_of(job)
    assert [request["answer"] for request in receiver.requests[:2]] == ["503 Retry-After:1", "429"]
    assert receiver.requests[0]["spans"] == receiver.requests[2]["spans"]


@pytest.mark.parametrize("kind", ["down", "silent"])
def test_a_missing_collector_delays_no_job(launcherd, collector, kind):
    receiver = collector()
    variables = receiver.variables()
    if kind == "down":
        variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
    else:
        receiver.answer_next(*["silent"] * 50)
    daemon = launcherd(environment=variables)
    api = daemon.client()
    begin = time.monotonic()
    for _ in range(3):
        job = api.submit(["true"])
        assert api.wait(job).exit_code == 0
    assert time.monotonic() - begin < 10  # the limit of one request
    assert daemon.end() == 0
    line = daemon.line_with("of traces did not reach http://127.0.0.1:")
    assert TOKEN not in line
    assert not [left for left in daemon.lines.queue if left and "of traces" in left]


def test_wrong_variables_are_named(launcherd):
    daemon = launcherd(waits=False, environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
                                                 "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})
    assert "http/protobuf" in daemon.line_with("OTEL_EXPORTER_OTLP_PROTOCOL=http/json")
    daemon.line_with("serving")
    api = daemon.client()
    job = api.submit(["sh", "-c", "echo [$TRACEPARENT]"])
    api.wait(job)
    assert api.output(job).decode().strip() == "[]"


class GrpcCollector:
    """A collector by gRPC. It answers each request with the next of `codes`, then with OK."""

    def __init__(self, messages, *codes):
        grpc = pytest.importorskip("grpc", reason="python3-grpcio is not installed")
        sys.path.insert(0, str(messages))
        otlp = importlib.import_module("otlp_pb2")
        self.codes = [getattr(grpc.StatusCode, code) for code in codes]
        self.requests = queue.Queue()
        export = grpc.unary_unary_rpc_method_handler(
            self.export, request_deserializer=otlp.ExportTraceServiceRequest.FromString,
            response_serializer=lambda _: b"")
        service = "opentelemetry.proto.collector.trace.v1.TraceService"
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor())
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {"Export": export})])
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def export(self, request, context):
        self.requests.put((request, dict(context.invocation_metadata())))
        if self.codes:
            context.abort(self.codes.pop(0), "not now")
        return object()

    def variables(self):
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{TOKEN}"}

    def next_names(self):
        request, metadata = self.requests.get(timeout=PATIENCE)
        assert metadata["authorization"] == f"Bearer {TOKEN}"
        return [span.name for span in request.resource_spans[0].scope_spans[0].spans]


@pytest.fixture
def grpc_collector(messages):
    started = []

    def start(*codes):
        started.append(GrpcCollector(messages, *codes))
        return started[-1]

    yield start
    for each in started:
        each.server.stop(None).wait()


def test_by_grpc(launcherd, grpc_collector):
    receiver = grpc_collector("RESOURCE_EXHAUSTED")
    daemon = launcherd(environment=receiver.variables())
    api = daemon.client()
    api.wait(api.submit(["true"]))
    names = receiver.next_names()
    assert names == receiver.next_names()  # sent again
    while "job" not in names:
        names += receiver.next_names()
    assert daemon.end() == 0 and not [line for line in daemon.lines.queue if line and "of traces" in line]


def test_hvdrun_by_grpc(grpc_collector):
    receiver = grpc_collector()
    result = hvdrun(receiver.variables(), "-np", "2", "true")
    assert result.returncode == 0 and not result.stderr, result
    assert {"job", "rank 0", "rank 1"} <= set(receiver.next_names())
    receiver = grpc_collector("UNAUTHENTICATED")
    result = hvdrun(receiver.variables(), "-np", "1", "true")
    assert "check OTEL_EXPORTER_OTLP_HEADERS" in result.stderr and TOKEN not in result.stderr, result
    gone = {**receiver.variables(), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    begin = time.monotonic()
    result = hvdrun(gone, "-np", "1", "true")
    assert result.returncode == 0 and time.monotonic() - begin < 10, result
    assert result.stderr.count("of traces did not reach http://127.0.0.1:1: ") == 1, result


def test_https(launcherd, collector, tmp_path):
    certificate, key = tmp_path / "own.pem", tmp_path / "own.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "2", "-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                    certificate], check=True, capture_output=True)
    receiver = collector("--certificate", certificate, "--key", key)
    variables = receiver.variables(OTEL_EXPORTER_OTLP_ENDPOINT=f"https://127.0.0.1:{receiver.port}")
    result = hvdrun(variables, "-np", "1", "true")
    assert result.returncode == 0 and "its certificate is not trusted" in result.stderr, result
    assert receiver.lines.empty()
    result = hvdrun({**variables, "OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificate)}, "-np", "1", "true")
    assert result.returncode == 0 and not result.stderr, result
    assert one(receiver.next_request()["spans"], "job")["status"] == OK


def test_hvdrun_by_itself(collector):
    receiver = collector()
    result = hvdrun(receiver.variables(TRACEPARENT=PARENT, TRACESTATE="a=b", OTEL_SERVICE_NAME="train"), "-np", "2", "sh",
                    "-c", "echo $TRACEPARENT $TRACESTATE; sleep $((1 - MUSTER_RANK)); exit $((MUSTER_RANK * 7))")
    assert result.returncode == 7, result
    request = receiver.next_request()
    root = one(request["spans"], "job")
    within = [span for span in request["spans"] if span is not root]
    check_trace(root, within)
    assert (root["trace"], root["parent"], root["state"]) == (PARENT[3:35], PARENT[36:52], "a=b")
    assert root["status"] == ERROR and root["resource"]["service.name"] == "train"
    assert one(within, "rank 1")["message"] == "exit code 7" and one(within, "rank 0")["status"] == OK
    assert {"job starting", "job running", "host log-in", "host up"} <= {span["name"] for span in within}
    for rank, line in rank_lines(result.stdout).items():
        assert line == f"00-{root['trace']}-{one(within, f'rank {rank}')['span']}-01 a=b"
    assert TOKEN not in result.stderr


def test_hvdrun_without_a_sampled_parent_sends_nothing(collector):
    receiver = collector()
    result = hvdrun(receiver.variables(TRACEPARENT=PARENT[:-1] + "0"), "-np", "1", "sh", "-c", "echo $TRACEPARENT")
    line = rank_lines(result.stdout)[0]
    assert line.startswith(PARENT[:36]) and line.endswith("-00") and receiver.lines.empty()


def test_hvdrun_without_a_collector_leaves_the_callers_span():
    result = hvdrun({"TRACEPARENT": PARENT, "TRACESTATE": "a=b"}, "-np", "1", "sh", "-c", "echo $TRACEPARENT $TRACESTATE")
    assert rank_lines(result.stdout)[0] == f"{PARENT} a=b" and not result.stderr


@pytest.mark.parametrize("kind", ["down", "silent", "busy"])
def test_hvdrun_ends_in_time(collector, kind):
    receiver = collector()
    variables = receiver.variables()
    if kind == "down":
        variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
    else:
        receiver.answer_next(*["silent" if kind == "silent" else "503 Retry-After:100"] * 10)
    begin = time.monotonic()
    result = hvdrun(variables, "-np", "1", "true")
    assert result.returncode == 0 and time.monotonic() - begin < 10, result
    assert result.stderr.count("of traces did not reach http://127.0.0.1:") == 1 and TOKEN not in result.stderr, result


def test_hvdrun_names_wrong_variables(collector):
    receiver = collector()
    result = hvdrun(receiver.variables(TRACEPARENT="00-x", OTEL_EXPORTER_OTLP_TIMEOUT="soon"), "-np", "1", "true")
    assert result.returncode == 0, result
    assert "TRACEPARENT: too short" in result.stderr and "OTEL_EXPORTER_OTLP_TIMEOUT=soon: " in result.stderr, result
    result = hvdrun({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}, "-np", "1", "true")
    assert result.returncode == 0 and "OTEL_EXPORTER_OTLP_ENDPOINT: " in result.stderr, result


def test_the_decoder_is_that_of_opentelemetry(collector):
    decoder = collector().decoder
    if not PEER.exists():
        pytest.skip("tools/peers otlp cannot fetch OpenTelemetry's messages: the decoder is proto/wire/otlp.proto")
    assert decoder == "opentelemetry-proto"
