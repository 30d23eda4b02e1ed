"""A client of the job's key-value store, which Horovod's workers use over HTTP (HOROVOD_GLOO_RENDEZVOUS_ADDR, _PORT).

Thread-safe. Each request has its own connection, as Horovod's requests do.
"""

import contextlib
import http.client
import socket
import time

_TRIES = 3
_PAUSE_SECONDS = 0.5
_CONNECT_SECONDS = 30
_SHORT_SECONDS = 2
# A request may wait for hours. These options find out if the host of the store has gone meanwhile.
_KEEP_ALIVE = ((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10), (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
               (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))


class JobStore:
    """`address` and `port` are those of the store."""

    def __init__(self, address, port):
        self._address = address
        self._port = port

    def get(self, path):
        """Returns the answer to GET `path`, as bytes. None if the key does not exist. The store may let it wait.
        ConnectionError: the store did not answer, or refused, in three tries."""
        return self._request("GET", path)[0]

    def get_with_generation(self, path):
        """Does the same as get(). Returns the answer and the number in its header Muster-Generation, or None."""
        answer, generation = self._request("GET", path)
        return answer, int(generation) if generation is not None and generation.isdecimal() else None

    def put(self, path, value):
        """Stores `value`, as bytes. ConnectionError: as for get()."""
        self._request("PUT", path, value)

    def try_put(self, path, value):
        """Stores `value`, as bytes, in one try of at most two seconds. Ignores all errors."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            self._try("PUT", path, value, timeout=_SHORT_SECONDS)

    def delete(self, path):
        """Sends DELETE `path`. ConnectionError: as for get()."""
        self._request("DELETE", path)

    def _request(self, verb, path, body=None):
        for left in reversed(range(_TRIES)):
            try:
                status, *answer = self._try(verb, path, body)
            except (OSError, http.client.HTTPException) as problem:
                failure = f"{type(problem).__name__}: {problem}"
            else:
                if status == 200:
                    return answer
                if status == 404:
                    return None, None
                failure = f"status {status}"
            if left:
                time.sleep(_PAUSE_SECONDS)  # the pause of Horovod's client
        raise ConnectionError(f"the store of this job at {self._address}:{self._port} did not answer {verb} {path} in "
                              f"{_TRIES} tries ({failure}): has the launcher ended?")

    def _try(self, verb, path, body, timeout=None):
        connection = http.client.HTTPConnection(self._address, self._port, timeout=timeout or _CONNECT_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(timeout)
            for level, option, value in _KEEP_ALIVE:
                connection.sock.setsockopt(level, option, value)
            # Horovod's client sends the length of the body with every request, too.
            connection.request(verb, path, body=body, headers={"Content-Length": str(len(body or b""))})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheader("Muster-Generation")
        finally:
            connection.close()
