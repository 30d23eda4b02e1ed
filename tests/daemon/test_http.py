"""/api/v1: the calls of launcher.proto over HTTP, asked by http.client and by curl."""
import http.client
import json
import pathlib
import shutil
import socket
import subprocess
import time

import client
import http_user
import pytest
from conftest import BIN

VALIDATOR = client.ROOT / "build/release/peers/openapi/bin/python"
WRITES = ["jobs", "jobs/{job}/kill", "jobs/{job}/signal", "jobs/{job}/resize", "jobs/{job}/hold", "jobs/{job}/release",
          "jobs/{job}/update", "jobs/{job}/rerun", "cleanup", "hosts/localhost/drain", "hosts/localhost/resume"]
READS = ["jobs/{job}", "jobs/{job}/elements", "jobs/{job}/events", "jobs/{job}/logs", "jobs/{job}/stacks", "jobs/{job}/hang"]


@pytest.fixture
def serve(launcherd):
    """serve(arguments…): (launcherd, HttpUser)"""
    def start(*arguments):
        daemon = launcherd(*arguments, waits=False)
        return daemon, http_user.HttpUser(daemon)
    return start


@pytest.fixture
def writable(serve):
    return serve("--http", "127.0.0.1:0", "--http-write")


def test_a_job_from_its_submission_to_its_end(writable):
    _, user = writable
    job = user.submit("sh", "-c", "echo \"rank $MUSTER_RANK é\"; exec sleep 1000", size=2)
    watch = user.stream(f"jobs/{job}/events")
    while (event := watch.next())[2].get("job_state_changed", {}).get("state") != "JOB_STATE_RUNNING":
        assert event is not None
    output = user.stream(f"jobs/{job}/logs?follow=1&ranks=1")
    assert output.next()[2]["text"] == "rank 1 é\n"
    status, listed = user.get("jobs?states=running")
    assert status == 200 and [each["id"] for each in listed["jobs"]] == [job]
    assert user.get(f"jobs/{job[:5]}")[1]["ranks"][1]["rank"] == 1
    assert user.post(f"jobs/{job}/kill", {"at_once": True}) == (200, {})
    events = watch.rest()
    assert events[-1] == ("", "end", {}) and "job_ended" in events[-2][2]
    rest = output.rest()
    assert rest[-1][1] == "end" and all("data" not in chunk for _, _, chunk in rest)
    assert user.get(f"jobs/{job}")[1]["state"] == "JOB_STATE_KILLED"
    again = user.stream(f"jobs/{job}/events", Last_Event_ID=events[-3][0]).rest()
    assert [each[0] for each in again] == [events[-2][0], ""]
    lines = user.stream(f"jobs/{job}/events", Accept="application/x-ndjson").lines()
    assert [line["sequence"] for line in lines[:-1]] == [str(n + 1) for n in range(len(lines) - 1)]
    assert lines[-1] == {"end": {}}


def test_curl_submits_and_waits(writable):
    daemon, user = writable
    if shutil.which("curl") is None:
        pytest.skip("install curl")
    header = daemon.state / "curl-header"
    header.write_text(f"Authorization: Bearer {user.token}\n")
    large = "x" * (2 << 20)  # curl asks for 100-continue before it sends as much
    body = {"spec": {"command": ["true"], "working_directory": "/"}, "name": "large", "labels": [{"name": large}]}
    url = f"http://127.0.0.1:{user.port}/api/v1/"

    def curl(path, content):
        result = subprocess.run(["curl", "-s", "-H", f"@{header}", "-H", "Content-Type: application/json",
                                 "--data-binary", "@-", url + path], input=json.dumps(content).encode(),
                                capture_output=True, timeout=http_user.PATIENCE, check=True)
        return json.loads(result.stdout)

    assert curl("jobs", body)["field"] == "labels.name"  # it was read whole, and the name is too long
    body["labels"] = []
    job = curl("jobs", body)["job_id"]
    events = subprocess.run(["curl", "-sN", f"{url}jobs/{job}/events"], capture_output=True, text=True,
                            timeout=http_user.PATIENCE, check=True).stdout
    assert events.endswith("id: \nevent: end\ndata: {}\n\n"), events


def test_all_other_calls(writable):
    _, user = writable
    job = user.submit("sleep", "1000", size=1)
    watch = user.stream(f"jobs/{job}/events")
    while watch.next()[2].get("job_state_changed", {}).get("state") != "JOB_STATE_RUNNING":
        pass
    assert user.post(f"jobs/{job}/signal", {"signal": 18}) == (200, {})
    assert user.stream(f"jobs/{job}/stacks").rest()[-1][1] == "end"
    assert user.get(f"jobs/{job}/hang")[0] == 200
    assert user.get(f"history?job={job}")[0] == 200
    assert user.get("capabilities")[1]["features"].count("http-write") == 1
    assert user.get("hosts")[1]["hosts"][0]["used_slots"] == 1
    assert user.post("hosts/localhost/drain", {"reason": "a fan"})[1]["reason"] == "a fan"
    assert not user.post("hosts/localhost/resume")[1]["drained"]
    waiting = user.submit("true", size=4)
    assert user.post(f"jobs/{waiting}/hold") == (200, {})
    assert user.get(f"jobs/{waiting}")[1]["held"] is True
    assert user.post(f"jobs/{waiting}/update", {"priority": 7}) == (200, {})
    assert user.get(f"jobs/{waiting}")[1]["priority"] == 7
    assert user.post(f"jobs/{waiting}/release") == (200, {})
    status, array = user.post("jobs", {"spec": {"command": ["true"], "working_directory": "/"}, "held": True,
                                       "array": {"elements": [{"first": 3, "last": 9}]}})
    assert status == 200, array
    elements = user.get(f"jobs/{array['job_id']}/elements")[1]["elements"]
    assert [(each["first"], each["last"]) for each in elements] == [(3, 9)], elements
    status, again = user.post(f"jobs/{waiting}/rerun", {"request_id": "once"})
    assert status == 200 and user.post(f"jobs/{waiting}/rerun", {"request_id": "once"})[1] == again
    status, wrong = user.post(f"jobs/{job}/resize", {"size": 2})
    assert (status, wrong["code"]) == (409, "FAILED_PRECONDITION")
    status, headers, text = user.raw("POST", "/api/v1/cleanup", {"dry_run": True}, {"Accept": "application/x-ndjson"},
                                     user.token)
    assert status == 200 and headers["Content-Type"] == "application/x-ndjson"
    assert json.loads(text.splitlines()[0])["host"] == "localhost" and text.endswith('{"end":{}}\n'), text


def test_reading_needs_no_token_and_writing_does(writable, tmp_path):
    _, user = writable
    job = user.submit("sleep", "1000")
    assert user.raw("GET", f"/api/v1/jobs/{job}")[0] == 200
    other = "0" * 64
    assert other != user.token
    for path in WRITES:
        path = f"/api/v1/{path.format(job=job)}"
        for token in (None, other, user.token[:-1], user.token.upper() + "x"):
            status, headers, text = user.raw("POST", path, {}, token=token)
            assert status == 401 and json.loads(text)["code"] == "UNAUTHENTICATED", (path, text)
            assert headers["WWW-Authenticate"].startswith("Bearer") and user.token not in text
        status, _, text = user.raw("POST", path, {}, {"Origin": "http://evil.example"}, user.token)
        assert status == 403 and json.loads(text)["code"] == "PERMISSION_DENIED", text
    assert user.get(f"jobs/{job}")[1]["state"] in ("JOB_STATE_QUEUED", "JOB_STATE_STARTING", "JOB_STATE_RUNNING")
    assert len(user.get("jobs?all=1")[1]["jobs"]) == 1


def test_without_http_write_nothing_is_written(serve):
    _, user = serve("--http", "127.0.0.1:0")
    assert user.token is None
    assert user.get("jobs") == (200, {"jobs": [], "next_page_token": "", "total": "0"})
    for path in WRITES:
        status, _, text = user.raw("POST", f"/api/v1/{path.format(job='aaaaaaaa')}", {}, token="0" * 64)
        assert status == 403 and "without --http-write" in json.loads(text)["message"], text


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_token_that_others_can_read_is_refused(launcherd, tmp_path, mode):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    token = state / "http-token"
    token.write_text("0" * 64 + "\n")
    token.chmod(mode)
    daemon = launcherd("--http", "127.0.0.1:0", "--http-write", waits=False)
    assert "http-token must be a file that only its owner may read" in daemon.line_with("http-token")
    assert daemon.process.wait(timeout=http_user.PATIENCE) != 0


@pytest.mark.parametrize(("path", "body", "field"), [
    ("jobs", [], "body"), ("jobs", b"{", "body"), ("jobs", {"spec": {"command": [7]}}, "spec.command[0]"),
    ("jobs", {"spec": {"size": "many"}}, "spec.size"), ("jobs", {"spec": {"sise": 1}}, "spec.sise"),
    ("jobs", {"spec": {"command": ["true"], "working_directory": "/tmp", "size": -1}}, "spec.size"),
    ("jobs", {"spec": {"command": ["true"], "working_directory": "/", "hosts": [{"name": "-o"}]}}, "spec.hosts.name"),
    ("jobs", {"spec": {"on_exit": "never"}}, "spec.on_exit"), ("jobs", {"retention": 5}, "retention"),
    ("jobs/{job}/kill", {"at_once": "yes"}, "at_once"), ("jobs/{job}/kill", {"job": "other"}, "job"),
    ("jobs/{job}/signal", {"signal": "HUP"}, "signal"), ("jobs/{job}/resize", {"size": 1.5}, "size"),
    ("jobs/{job}/hold", {"why": "x"}, "why"), ("jobs/{job}/release", {"job": ""}, None),
    ("jobs/{job}/rerun", {"request_id": 3}, "request_id"), ("jobs/{job}/update", {"priority": "high"}, "priority"), ("cleanup", {"hosts": "n1"}, "hosts"),
    ("hosts/localhost/drain", {"reason": 1}, "reason"), ("hosts/localhost/resume", {"hosts": "x"}, "hosts")])
def test_bad_bodies(writable, path, body, field):
    _, user = writable
    status, _, text = user.raw("POST", f"/api/v1/{path.format(job='aaaaaaaa')}", body, token=user.token)
    answer = json.loads(text)
    if field is None:  # nothing is wrong with the body, but there is no such job
        assert (status, answer["code"]) == (404, "NOT_FOUND")
    else:
        assert (status, answer["code"], answer["field"]) == (400, "INVALID_ARGUMENT", field), answer
    assert user.get("jobs?all=1")[1]["jobs"] == []


@pytest.mark.parametrize(("path", "status", "field"), [
    ("jobs?all=maybe", 400, "all"), ("jobs?page_size=x", 400, "page_size"), ("jobs?states=sad", 400, "states[0]"),
    ("jobs?token=secret", 400, "token"), ("jobs/zzzzzzzz", 404, None), ("jobs/zzzzzzzz/events", 404, None),
    ("jobs/zzzzzzzz/logs", 404, None), ("jobs/zzzzzzzz/stacks", 404, None), ("jobs/zzzzzzzz/hang", 404, None),
    ("jobs/aaaaaaaa/events?from_sequence=-1", 400, "from_sequence"), ("jobs/aaaaaaaa/logs?ranks=-1", 400, "ranks"),
    ("jobs/aaaaaaaa/logs?since=noon", 400, "since"), ("jobs/aaaaaaaa/elements?page_size=x", 400, "page_size"), ("history?since=1", 400, "since"), ("nothing", 404, None),
    ("hosts?brief=1", 400, "brief"), ("capabilities?x=1", 400, "x"), ("jobs/aaaaaaaa/stacks?native=2", 400, "native")])
def test_bad_arguments(writable, path, status, field):
    _, user = writable
    got, answer = user.get(path)
    assert (got, answer.get("field")) == (status, field), answer


def test_methods_and_bodies_that_no_path_takes(writable):
    _, user = writable
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        status, headers, _ = user.raw(method, "/api/v1/jobs", token=user.token)
        assert (status, headers["Allow"]) == (405, "POST, GET")
    assert user.raw("GET", "/api/v1/jobs", b"{}")[0] == 413
    status, _, text = user.raw("POST", "/api/v1/jobs", b"a=b", {"Content-Type": "text/plain"}, user.token)
    assert status == 415 and "application/json" in text
    assert user.raw("POST", "/api/v1/jobs", b" " * (5 << 20), token=user.token)[0] == 413
    assert user.raw("POST", "/api/v1/jobs", b"[" * 100_000, token=user.token)[0] == 400
    assert user.raw("POST", "/api/v1/jobs?name=x", b"{}", token=user.token)[0] == 400
    assert user.raw("GET", "/api/v1/jobs", headers={"Host": "evil.example"})[0] == 421
    assert user.get("capabilities")[0] == 200


def test_silent_bodies_keep_nobody_out(writable):
    _, user = writable
    head = (f"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {user.token}\r\n"
            "Content-Length: 1000\r\n\r\n{").encode()
    waiting = [socket.create_connection(("127.0.0.1", user.port), timeout=http_user.PATIENCE) for _ in range(50)]
    for peer in waiting:
        peer.sendall(head)
    assert user.get("capabilities")[0] == 200
    assert user.get("jobs?all=1")[1]["jobs"] == []
    for peer in waiting:
        peer.close()


def test_more_connections_than_allowed_are_closed(writable):
    _, user = writable
    silent = [socket.create_connection(("127.0.0.1", user.port), timeout=http_user.PATIENCE) for _ in range(128)]
    with socket.create_connection(("127.0.0.1", user.port), timeout=http_user.PATIENCE) as late:
        assert late.recv(1) == b""
    for peer in silent:
        peer.close()
    ends = time.monotonic() + http_user.PATIENCE
    while True:  # launcherd sees the ends of those connections when it can
        try:
            assert user.get("capabilities")[0] == 200
            break
        except (ConnectionError, http.client.HTTPException):
            assert time.monotonic() < ends


def test_a_watch_goes_on_after_a_restart_of_launcherd(launcherd):
    daemon = launcherd("--http", "127.0.0.1:0", "--http-write", waits=False)
    user = http_user.HttpUser(daemon)
    job = user.submit("sleep", "1000")
    watch = user.stream(f"jobs/{job}/events")
    seen = []
    while not seen or seen[-1][2].get("job_state_changed", {}).get("state") != "JOB_STATE_RUNNING":
        seen.append(watch.next())
    assert daemon.end() == 0
    seen += watch.rest()
    assert "end" not in [name for _, name, _ in seen]  # cut: so its client comes back
    again = http_user.HttpUser(launcherd("--http", "127.0.0.1:0", "--http-write", waits=False))
    assert again.token == user.token
    watch = again.stream(f"jobs/{job}/events", Last_Event_ID=seen[-1][0])
    assert again.post(f"jobs/{job}/kill", {"at_once": True})[0] == 200
    seen += watch.rest()
    assert seen.pop() == ("", "end", {})
    assert [int(number) for number, _, _ in seen] == list(range(1, len(seen) + 1))


def test_the_token_is_in_no_log_no_process_list_and_no_url(writable, tmp_path):
    daemon, user = writable
    job = user.submit("true")
    user.stream(f"jobs/{job}/events").rest()
    assert user.raw("POST", "/api/v1/jobs", b"{", token=user.token)[0] == 400
    assert user.raw("POST", f"/api/v1/jobs/{job}/kill?token={user.token}", {}, token=user.token)[0] == 400
    texts = [user.raw("GET", path)[2] for path in ("/", "/page.js", "/metrics", "/api/v1/capabilities",
                                                   "/api/v1/openapi.json", f"/api/v1/jobs/{job}")]
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                texts.append((process / name).read_bytes().decode(errors="replace"))
            except OSError:
                continue  # it has ended, or belongs to another user
    files = [path for path in daemon.state.rglob("*") if path.is_file() and path.name != "http-token"]
    assert files
    texts += [path.read_bytes().decode(errors="replace") for path in files]
    daemon.end()
    while (line := daemon.lines.get()) is not None:
        texts.append(line)
    assert not [text for text in texts if user.token in text]


def test_the_openapi_document_is_the_installed_one(writable):
    _, user = writable
    status, _, served = user.raw("GET", "/api/v1/openapi.json")
    written = subprocess.run([BIN / "launcherd", "--openapi"], capture_output=True, text=True, check=True).stdout
    assert status == 200 and served == written
    document = json.loads(served)
    paths = {path: set(methods) for path, methods in document["paths"].items()}
    assert paths["/jobs"] == {"get", "post"} and len(document["paths"]) >= 18
    for path in (*WRITES, *READS):
        assert path.replace("localhost", "{host}") in {known[1:] for known in paths}, path


@pytest.fixture
def validator():
    """A Python with openapi-spec-validator. A machine that cannot fetch it skips the test."""
    if not VALIDATOR.exists():
        fetched = subprocess.run([client.ROOT / "tools/peers", "openapi"], capture_output=True, text=True, timeout=120)
        if fetched.returncode or not VALIDATOR.exists():
            pytest.skip(f"tools/peers openapi: {fetched.stderr.strip()[-200:]}")
    return VALIDATOR


def test_a_validator_accepts_the_openapi_document(validator, tmp_path):
    document = tmp_path / "openapi.json"
    with document.open("wb") as out:
        subprocess.run([BIN / "launcherd", "--openapi"], stdout=out, check=True)
    judged = subprocess.run([validator, "-m", "openapi_spec_validator", "--schema", "3.1", document], capture_output=True,
                            text=True, timeout=http_user.PATIENCE)
    assert judged.returncode == 0 and "OK" in judged.stdout, judged
    document.write_text(document.read_text().replace('"openapi":"3.1.0"', '"openapi":3', 1))
    assert subprocess.run([validator, "-m", "openapi_spec_validator", document], capture_output=True,
                          timeout=http_user.PATIENCE).returncode != 0
