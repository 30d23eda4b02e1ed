"""What a launcherd is asked that makes no sense: an error each time, and it serves on."""
import random

import grpc
import pytest

UNARY = ["Submit", "GetJob", "ListJobs", "ListElements", "UpdateJob", "Kill", "Signal", "ListHosts", "DrainHost", "ResumeHost", "GetCapabilities"]
STREAMS = ["Watch", "Logs", "Stacks", "Cleanup"]
REFUSALS = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION,
            grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.INTERNAL, grpc.StatusCode.RESOURCE_EXHAUSTED}


def ask(api, call, content):
    """The status of a call with these bytes."""
    path = f"/muster.v1.Launcher/{call}"
    try:
        if call in UNARY:
            api.channel.unary_unary(path)(content, timeout=api.PATIENCE)
        else:
            list(api.channel.unary_stream(path)(content, timeout=api.PATIENCE))
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def is_alive(api):
    return api.api.GetCapabilities(api.stubs.launcher.GetCapabilitiesRequest(), timeout=api.PATIENCE).pid > 0


@pytest.mark.parametrize("call", UNARY + STREAMS)
def test_random_bytes(api, call):
    chance = random.Random(call)
    for _ in range(100):
        content = bytes(chance.randrange(256) for _ in range(chance.randrange(64)))
        # UNIMPLEMENTED is what gRPC itself says of bytes that are no message.
        assert ask(api, call, content) in REFUSALS | {grpc.StatusCode.OK, grpc.StatusCode.UNIMPLEMENTED}
    assert is_alive(api)


@pytest.mark.parametrize("call", ["GetJob", "ListElements", "UpdateJob", "Kill", "Signal", "Watch", "Logs", "Stacks"])
@pytest.mark.parametrize("job", ["", "aaaaaaaa", "zzz", "A" * 8, "a" * 100_000, "../..", "%s%n", "a' OR 1=1",
                                 "aaaaaaaa[0]", "[0]", "a[-1]"])
def test_no_such_job(api, call, job):
    message = getattr(api.stubs.launcher, f"{call}Request")(job=job)
    assert ask(api, call, message.SerializeToString()) in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)
    assert is_alive(api)


def test_too_large_a_message(api):
    request = api.request(["x" * (5 << 20)])
    assert ask(api, "Submit", request.SerializeToString()) == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert is_alive(api)


@pytest.mark.parametrize(("field", "fields"), [
    ("spec.size", {"size": 5}), ("spec.size", {"size": -1}), ("spec.hosts", {"hosts": [{"name": "elsewhere"}]}),
    ("spec.hosts.name", {"hosts": [{"name": "-oProxyCommand=x"}]}), ("spec.umask", {"umask": 0o7777}),
    ("spec.bind_to", {"bind_to": "everything"}), ("labels", {"request_labels": [{"name": "a"}] * 65}),
    ("request_id", {"request_request_id": "x" * 129}), ("environment", {"environment": {"A=B": "x"}})])
def test_a_refusal_names_the_field(api, field, fields):
    with pytest.raises(grpc.RpcError) as error:
        api.submit(["true"], **fields)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.details().startswith(f"{field}: ")
    trailers = dict(error.value.trailing_metadata())
    status = api.stubs.rpc_status.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.message == error.value.details()
    reason = api.stubs.rpc_status.ErrorInfo()
    violations = api.stubs.rpc_status.BadRequest()
    assert status.details[0].Unpack(reason) and status.details[1].Unpack(violations)
    assert (reason.reason, reason.domain) == ("INVALID_ARGUMENT", "muster")
    assert violations.field_violations[0].field == field


@pytest.mark.parametrize("number", [0, -1, 9, 65, 1 << 30])
def test_no_such_signal(api, number):
    job = api.submit(["sleep", "1000"])
    api.until(job, "RUNNING")
    message = api.stubs.launcher.SignalRequest(job=job, signal=number)
    assert ask(api, "Signal", message.SerializeToString()) == grpc.StatusCode.INVALID_ARGUMENT
    api.kill(job, at_once=True)


def test_numbers_out_of_range(api):
    job = api.submit(["true"])
    api.wait(job)
    launcher = api.stubs.launcher
    assert len(api.get(job, first_rank=-5, max_ranks=1 << 30).ranks) == 1
    assert not api.get(job, first_rank=1 << 30).ranks
    for call, message in [("ListJobs", launcher.ListJobsRequest(page_size=-1)),
                          ("ListJobs", launcher.ListJobsRequest(page_token="junk")),
                          ("Logs", launcher.LogsRequest(job=job, ranks=[-1])),
                          ("Logs", launcher.LogsRequest(job=job, from_position=1 << 60)),
                          ("Logs", launcher.LogsRequest(job=job, tail_lines=-1)),
                          ("Logs", launcher.LogsRequest(job=job, since={"seconds": 1 << 60})),
                          ("DrainHost", launcher.DrainHostRequest(host="n9")),
                          ("DrainHost", launcher.DrainHostRequest(host="localhost", reason="x" * 2000)),
                          ("ResumeHost", launcher.ResumeHostRequest(host="")),
                          ("Cleanup", launcher.CleanupRequest(hosts=["n9"])),
                          ("Cleanup", launcher.CleanupRequest(job="../x"))]:
        assert ask(api, call, message.SerializeToString()) in REFUSALS, (call, message)
    assert is_alive(api)
