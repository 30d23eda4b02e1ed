"""Fixtures of the tests of the test hosts themselves."""

import contextlib
import subprocess

import pytest

import cluster as cluster_module
from cluster import testing

# Listens on PORT; answers each connection's bytes with the same bytes.
_ECHO = """
import socket, sys, threading
def serve(c):
    with c:
        while data := c.recv(65536):
            c.sendall(data)
s = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


@pytest.fixture(scope="session")
def clusters():
    if cluster_module.unavailable() is None:
        cluster_module.sweep()
    made = testing.Clusters()
    yield made
    made.down()


@pytest.fixture
def cluster(clusters):
    """n1..n4 and head, restored after the test."""
    yield clusters.get(4)
    clusters.restore()


@pytest.fixture
def small(clusters):
    """small(**shape): n1, n2 and head of that shape."""
    return lambda **shape: clusters.get(2, **shape)


@pytest.fixture
def python(cluster):
    """python(host, text, *arguments) runs a Python text on a host, as alice, and returns what it printed."""
    def call(host, text, *arguments, on=cluster, timeout=30.0):
        argv = ["/usr/bin/python3", "-I", "-S", "-c", text, *map(str, arguments)]
        result = on.run(host, "alice", argv, timeout=timeout)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()
    return call


@pytest.fixture
def service(cluster):
    """service(host, text, *arguments) starts a Python text that prints a line when it is ready; ends with the test."""
    with contextlib.ExitStack() as stack:
        def start(host, text=_ECHO, *arguments, on=cluster):
            argv = ["/usr/bin/python3", "-I", "-S", "-u", "-c", text, *map(str, arguments)]
            command = on.start(host, "alice", argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(command)
            stack.callback(command.kill)
            assert command.stdout.readline() == "ready\n"
            return command
        yield start


@pytest.fixture
def echo(service):
    """echo(host, port): a TCP echo server."""
    return lambda host, port=5000, **options: service(host, _ECHO, port, **options)
