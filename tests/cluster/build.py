"""Makes the namespaces of a cluster and of its hosts.  A program of its own, because it changes namespaces:
stdin: the state as JSON, with "boot": the hosts to start; on success the state is saved, otherwise one line on stderr.
"""

import json
import os
import select
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from cluster import cgroups, image, kernel, network, state as store  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SSHD_DEADLINE_S = 20.0


def become_init(name, host, owner_fd=None):
    argv = [store.INIT_ARGV0, "-I", "-S", f"{HERE}/init.py", name, host]
    if owner_fd is not None:
        os.set_inheritable(owner_fd, True)
        argv.append(str(owner_fd))
    os.chdir("/")
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.execve("/usr/bin/python3", argv, {"PATH": image.PATH, "LANG": "C.UTF-8"})


def in_child(report, host, body):
    """Forks; body() runs in the child and does not return, or its failure is reported."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
            os._exit(0)
        except BaseException as error:  # the child must never return into its parent's code
            tell(report, host, str(error))
            os._exit(1)
    return pid


def tell(report, host, error=None):
    report.send(json.dumps({"host": host, "error": error}).encode())


def hear(listen):
    """(host, pid) of the next init that is ready; the kernel translates the pid to our namespace."""
    data, control, _, _ = listen.recvmsg(65536, socket.CMSG_SPACE(12))
    message = json.loads(data)
    if message["error"]:
        raise store.ClusterError(f"host {message['host']}: {message['error']}")
    return message["host"], struct.unpack("3i", control[0][2][:12])[0]


def start_switch(state, report):
    owner_fd = kernel.pidfd_open(state["owner"]["pid"]) if state["owner"] else None

    def switch():
        kernel.unshare(kernel.HOST_NAMESPACES)
        image.make_cluster(state)
        network.set_sysctls(network.SWITCH_SYSCTLS)
        kernel.sethostname(store.SWITCH)
        tell(report, store.SWITCH)
        become_init(state["name"], store.SWITCH, owner_fd)

    def between():
        kernel.unshare(kernel.CLONE_NEWPID)
        in_child(report, store.SWITCH, switch)

    os.waitpid(in_child(report, store.SWITCH, between), 0)


def start_host(state, host, report):
    """host's init becomes a child of the switch's, in the switch's process namespace: it ends with it."""
    group = state["hosts"][host]["cgroup"]
    switch_fd = kernel.pidfd_open(state["init"]["pid"])

    def init():
        image.make_host(state, host)
        network.set_sysctls(network.HOST_SYSCTLS)
        kernel.sethostname(host)
        image.start_sshd(state, host)
        tell(report, host)
        become_init(state["name"], host)

    def inside_switch():
        kernel.setns(switch_fd, kernel.HOST_NAMESPACES)
        kernel.unshare(kernel.HOST_NAMESPACES | kernel.CLONE_NEWPID | (kernel.CLONE_NEWCGROUP if group else 0))
        in_child(report, host, init)

    def between():
        if group:
            with open(f"{group}/cgroup.procs", "w") as file:
                file.write("0")
        kernel.setns(switch_fd, kernel.CLONE_NEWPID)
        os.waitpid(in_child(report, host, inside_switch), 0)

    pid = in_child(report, host, between)
    os.close(switch_fd)
    return pid


def wait_for_sshd(state, host):
    """Until sshd greets at the host's address; this process moves into the host's network for it."""
    deadline = time.monotonic() + SSHD_DEADLINE_S
    pid = state["hosts"][host]["init"]["pid"]
    with open(f"/proc/{pid}/ns/net") as file:
        kernel.setns(file.fileno(), kernel.CLONE_NEWNET)
    problem = "no answer"
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((state["hosts"][host]["v4"], 22), timeout=2) as connection:
                if connection.recv(64).startswith(b"SSH-2.0"):
                    return
                problem = "no greeting"
        except OSError as error:
            problem = str(error)
        select.select([], [], [], 0.002)  # refused until it listens
    log = f"/proc/{pid}/root/var/log/sshd.log"
    said = open(log).read().strip() if os.path.exists(log) else ""
    raise store.ClusterError(f"host {host}: sshd does not answer: {problem}; {said}")


def build(state):
    listen, report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listen.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    listen.settimeout(60)
    for host in state["boot"]:
        group = cgroups.path(state["name"], host)
        state["hosts"][host]["cgroup"] = group
        if group:
            account = state["accounts"]["alice"]
            cgroups.make(group, (account["uid"], account["gid"]) if state["hosts"][host]["delegate"] else None)
    if not state["init"]:
        start_switch(state, report)
        state["init"] = store.identity(hear(listen)[1])
        store.save(state)
        network.make_switch(state["init"]["pid"])
    helpers = [start_host(state, host, report) for host in state["boot"]]
    for _ in state["boot"]:
        host, pid = hear(listen)
        state["hosts"][host]["init"] = store.identity(pid)
    for helper in helpers:
        os.waitpid(helper, 0)
    network.make_links(state["init"]["pid"], {host: state["hosts"][host]["init"]["pid"] for host in state["boot"]},
                       state["hosts"])
    booted, state["boot"] = state["boot"], []
    store.save(state)
    for host in booted:
        wait_for_sshd(state, host)


if __name__ == "__main__":
    os.umask(0o022)
    try:
        build(json.load(sys.stdin))
    except (OSError, store.ClusterError) as problem:
        sys.exit(str(problem))
