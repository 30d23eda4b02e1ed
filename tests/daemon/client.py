"""A client of launcher.proto in Python, made from the proto files when the tests run, as any scheduler would."""
import importlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACTS = ["muster/v1/job.proto", "muster/v1/agent.proto", "muster/v1/cleanup.proto",
             "muster/v1/launcher.proto", "wire/health.proto", "wire/rpc_status.proto"]


def why_not():
    """Why there can be no client here; None: there can."""
    if importlib.util.find_spec("grpc") is None:
        return "daemon: no client: install python3-grpcio"
    if shutil.which("protoc") is None or shutil.which("grpc_python_plugin") is None:
        return "daemon: no client: install protobuf-compiler and protobuf-compiler-grpc"
    return None


class Stubs:
    """The generated modules."""

    def __init__(self, directory):
        plugin = shutil.which("grpc_python_plugin")
        subprocess.run(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={directory}", f"--grpc_out={directory}",
                        f"--plugin=protoc-gen-grpc={plugin}", *CONTRACTS], check=True)
        sys.path.insert(0, str(directory))
        self.launcher = importlib.import_module("muster.v1.launcher_pb2")
        self.service = importlib.import_module("muster.v1.launcher_pb2_grpc")
        self.job = importlib.import_module("muster.v1.job_pb2")
        self.health = importlib.import_module("wire.health_pb2")
        self.health_service = importlib.import_module("wire.health_pb2_grpc")
        self.rpc_status = importlib.import_module("wire.rpc_status_pb2")


class Client:
    """Calls of one launcherd, with a limit of time on each."""

    PATIENCE = 60

    def __init__(self, stubs, channel):
        self.stubs = stubs
        self.channel = channel
        self.api = stubs.service.LauncherStub(channel)

    def request(self, command, environment=None, **fields):
        """A SubmitRequest; fields of the spec by their names, those of the request with `request_` before them.  Words
        of the command, and names and values of variables, may be bytes."""
        top = {name[len("request_"):]: fields.pop(name) for name in list(fields) if name.startswith("request_")}
        fields = {"working_directory": b"/tmp", **fields}
        spec = self.stubs.launcher.JobSpec(command=map(os.fsencode, command), **fields)
        request = self.stubs.launcher.SubmitRequest(spec=spec, **top)
        for name, value in {"PATH": "/usr/bin:/bin", **(environment or {})}.items():
            request.environment.add(name=os.fsencode(name), value=os.fsencode(value))
        return request

    def submit(self, command, **fields):
        return self.send(self.request(command, **fields))

    def send(self, request):
        return self.api.Submit(request, timeout=self.PATIENCE).job_id

    def watch(self, job, from_sequence=0):
        request = self.stubs.launcher.WatchRequest(job=job, from_sequence=from_sequence)
        return self.api.Watch(request, timeout=self.PATIENCE)

    def until(self, job, state):
        """Waits for the state; the events up to it."""
        events = []
        for event in self.watch(job):
            events.append(event)
            if self.state_of(event) == state:
                return events
        raise AssertionError(f"{job} did not become {state}: {[self.state_of(event) for event in events]}")

    def state_of(self, event):
        if event.HasField("job_starting"):
            return "STARTING"
        if event.HasField("job_stopping"):
            return "STOPPING"
        if not event.HasField("job_state_changed"):
            return None
        return self.stubs.job.JobState.Name(event.job_state_changed.state).removeprefix("JOB_STATE_")

    def wait(self, job):
        """The job as it has ended; checks that the numbers of its events have no gap."""
        numbers = [event.sequence for event in self.watch(job)]
        assert numbers == list(range(1, len(numbers) + 1)), numbers
        return self.get(job)

    def get(self, job, **fields):
        return self.api.GetJob(self.stubs.launcher.GetJobRequest(job=job, **fields), timeout=self.PATIENCE)

    def state(self, job):
        return self.stubs.job.JobState.Name(self.get(job).state).removeprefix("JOB_STATE_")

    def kill(self, job, at_once=False):
        self.api.Kill(self.stubs.launcher.KillRequest(job=job, at_once=at_once), timeout=self.PATIENCE)

    def output(self, job, **fields):
        """What its ranks wrote, in the order in which it came."""
        request = self.stubs.launcher.LogsRequest(job=job, **fields)
        return b"".join(chunk.data for chunk in self.api.Logs(request, timeout=self.PATIENCE))
