"""Asks the HTTP port of a launcherd, as a user's program would."""
import http.client
import json
import re

PATIENCE = 60


class HttpUser:
    """Requests to /api/v1, with the token of the launcherd if it has one."""

    def __init__(self, daemon):
        line = daemon.line_with("http://")
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", line).group(1))
        token = daemon.state / "http-token"
        self.token = token.read_text().strip() if token.exists() else None

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def raw(self, method, path, body=None, headers=None, token=None):
        """(status, headers, text); a body that is no bytes becomes JSON."""
        headers = dict(headers or {})
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = self.connection()
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        answer = (response.status, response.headers, response.read().decode())
        connection.close()
        return answer

    def get(self, path):
        status, _, text = self.raw("GET", f"/api/v1/{path}")
        return status, json.loads(text)

    def post(self, path, body=None):
        status, _, text = self.raw("POST", f"/api/v1/{path}", {} if body is None else body, token=self.token)
        return status, json.loads(text)

    def submit(self, *command, **fields):
        """The id of the new job; fields of the spec by their names."""
        spec = {"command": list(command), "working_directory": "/tmp", **fields}
        status, answer = self.post("jobs", {"spec": spec, "environment": [{"name": "PATH", "value": "/usr/bin:/bin"}]})
        assert status == 200, answer
        return answer["job_id"]

    def stream(self, path, **headers):
        return Stream(self.connection(), f"/api/v1/{path}", headers)


class Stream:
    """A stream of server-sent events."""

    def __init__(self, connection, path, headers):
        self.connection = connection
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        self.response = connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def next(self):
        """(id, name, data) of the next event; None: the connection was cut."""
        fields = {}
        while line := self.response.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name.rstrip(":")] = value
        return (fields["id"], fields["event"], json.loads(fields["data"])) if fields else None

    def rest(self):
        """All events up to the end, which is the last one; without it the stream was cut."""
        events = []
        while event := self.next():
            events.append(event)
        return events

    def lines(self):
        return [json.loads(line) for line in self.response.read().decode().splitlines()]
