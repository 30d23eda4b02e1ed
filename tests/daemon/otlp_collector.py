"""A collector of OpenTelemetry for tests: it decodes each request, and prints what it got as lines of JSON.

With `tools/peers otlp` the messages are those of PyPI's opentelemetry-proto, else those of proto/wire/otlp.proto.

    otlp_collector.py MESSAGES [--certificate FILE --key FILE]

MESSAGES is the folder of otlp_pb2.py, for when the first are missing. The first line has the port and the decoder. Lines on
stdin answer one request each: `503 Retry-After:1`, `silent`. Without such a line the answer is 200.
"""
import argparse
import http.server
import json
import queue
import ssl
import sys
import threading

parser = argparse.ArgumentParser()
parser.add_argument("messages")
parser.add_argument("--certificate")
parser.add_argument("--key")
arguments = parser.parse_args()
try:
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
    DECODER = "opentelemetry-proto"
except ImportError:
    sys.path.insert(0, arguments.messages)
    import otlp_pb2 as messages
    DECODER = "proto/wire/otlp.proto"

answers = queue.Queue()
over = threading.Event()
printing = threading.Lock()


def say(**fields):
    with printing:
        print(json.dumps(fields), flush=True)


def value_of(value):
    return getattr(value, value.WhichOneof("value"))


def attributes_of(pairs):
    return {pair.key: value_of(pair.value) for pair in pairs}


def unknown_of(message):
    """Whether bytes of the message have no field in the decoder's contract."""
    again = type(message)()
    again.CopyFrom(message)
    again.DiscardUnknownFields()
    return again.ByteSize() != message.ByteSize()


def span_of(span, resource):
    return {"trace": span.trace_id.hex(), "span": span.span_id.hex(), "parent": span.parent_span_id.hex(),
            "name": span.name, "begin": span.start_time_unix_nano, "end": span.end_time_unix_nano, "kind": span.kind,
            "state": span.trace_state, "flags": span.flags, "attributes": attributes_of(span.attributes),
            "status": span.status.code, "message": span.status.message, "resource": attributes_of(resource.attributes),
            "events": [{"name": event.name, "time": event.time_unix_nano, "attributes": attributes_of(event.attributes)}
                       for event in span.events]}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = messages.ExportTraceServiceRequest()
        request.ParseFromString(body)
        try:
            answer = answers.get_nowait()
        except queue.Empty:
            answer = "200"
        spans = [span_of(span, resource.resource) for resource in request.resource_spans
                 for scope in resource.scope_spans for span in scope.spans]
        say(path=self.path, headers=dict(self.headers), answer=answer, unknown=unknown_of(request), spans=spans)
        if answer == "silent":
            over.wait()
            return
        status, *headers = answer.split()
        self.send_response(int(status))
        for header in headers:
            self.send_header(*header.split(":"))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
if arguments.certificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(arguments.certificate, arguments.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
say(port=server.server_address[1], decoder=DECODER)
threading.Thread(target=server.serve_forever, daemon=True).start()
for line in sys.stdin:
    answers.put(line.strip())
over.set()
