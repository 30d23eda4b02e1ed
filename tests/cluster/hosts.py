"""Cluster: the test hosts as tests and the command line see them."""

import json
import os
import pathlib
import shutil
import subprocess
import time

from . import faults, image, network, processes, state as store, users

REPOSITORY = str(pathlib.Path(__file__).resolve().parents[2])
_BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "build.py")
HOMES = ("own", "shared", "noexec", "full")
_TOOLS = ("ip", "tc", "nft", "nsenter", "ssh-keygen", "/usr/sbin/sshd", "/usr/bin/python3")
_PROBE = """
import os, sys
sys.path.insert(0, sys.argv[1])
import kernel
kernel.unshare(kernel.HOST_NAMESPACES | kernel.CLONE_NEWPID)
kernel.mount(None, "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
kernel.tmpfs("/tmp", 0o1777)
kernel.mount("sysfs", "/sys", "sysfs")
"""


def unavailable():
    """Why this machine cannot make test hosts, in one line; None if it can."""
    if os.geteuid() != 0:
        return "cluster: cannot make test hosts: needs root"
    missing = [tool for tool in _TOOLS if not shutil.which(tool)]
    if missing:
        return (f"cluster: cannot make test hosts: {', '.join(missing)} missing; "
                "apt install openssh-server openssh-client iproute2 nftables util-linux")
    probe = subprocess.run(["/usr/bin/python3", "-I", "-c", _PROBE, os.path.dirname(_BUILD)], capture_output=True,
                           text=True)
    if probe.returncode != 0:
        return f"cluster: cannot make test hosts: {probe.stderr.strip().splitlines()[-1]}"
    return None


class Cluster(faults.Faults):
    """A handle on a cluster that exists; Cluster.up() makes one.  Any number of handles, one thread at a time."""

    def __init__(self, name):
        self.name = name
        self.state = store.load(name)
        self.faulted = set()
        self._relays = {}

    @classmethod
    def up(cls, name, hosts=4, *, names=(), domain="", home="own", homes=None, delegate=False, expose=(), owned=True,
           same_nics=False):
        """Makes hosts n1..nN and head.

        names: those of the hosts, at most 15 characters each, instead of n1..nN.  domain: each host is also known as
        name.domain.  home: own | shared (one home for all) | noexec | full (alice's has no byte left); homes={"n2": "full"} for
        single hosts.  delegate: True or a list of hosts whose cgroup alice may divide.  expose: folders that must
        be seen on the hosts even below /tmp, /run, /home, /root (the repository always is).  owned: the cluster
        ends with this process at the latest.  same_nics: the NICs of all hosts have the same two names, which
        horovodrun needs; otherwise the names differ from host to host.
        """
        names = [*(names or [f"n{index}" for index in range(1, hosts + 1)]), "head"]
        settings = network.plan(name, names, domain, same_nics)
        delegated = names if delegate is True else list(delegate or ())
        for host, own in settings.items():
            own |= {"home": (homes or {}).get(host, home), "delegate": host in delegated, "init": None, "cgroup": None}
            if own["home"] not in HOMES:
                raise store.ClusterError(f"cluster: home {own['home']!r} is none of {', '.join(HOMES)}")
        unknown = (set(homes or ()) | set(delegated)) - set(names)
        if unknown:
            raise store.ClusterError(f"cluster: no such host: {', '.join(sorted(unknown))}")
        state = {"name": name, "owner": store.identity(os.getpid()) if owned else None, "init": None,
                 "hosts": settings, "accounts": users.choose_accounts(), "boot": names,
                 "expose": _exposed([REPOSITORY, *expose])}
        store.claim(name)
        try:
            store.save(state)
            _build(state)
        except BaseException:
            store.destroy(name)
            raise
        return cls(name)

    def down(self, timeout=10.0):
        """Removes everything; a second time is fine."""
        store.destroy(self.name, timeout)
        for relay in self._relays.values():
            relay.stdout.close()
            relay.wait()
        self._relays = {}

    def boot(self, host):
        """Starts a host that was killed; its home is as it was, its /tmp, /run and /root are new."""
        if store.alive(self.state["hosts"][host]["init"]):
            raise store.ClusterError(f"cluster: host {host} is running")
        store.destroy_group(self.state["hosts"][host]["cgroup"])
        network.remove_links(self.switch_pid, self.state["hosts"][host])
        _build(self.state | {"boot": [host]})
        self.state = store.load(self.name)

    def restore(self):
        """Undoes what a test did to hosts and links through this handle."""
        for host in self.hosts:
            if not self.running(host):
                self.boot(host)
            elif host in self.faulted:
                self.heal(host)
        self.faulted.clear()

    @property
    def hosts(self):
        """Names of the hosts, head last."""
        return list(self.state["hosts"])

    @property
    def nodes(self):
        """Names of the hosts without head."""
        return [host for host in self.hosts if host != "head"]

    @property
    def switch_pid(self):
        return self.state["init"]["pid"]

    def pid(self, host):
        """Process 1 of the host, in this machine's numbering."""
        if host == store.SWITCH:
            return self.switch_pid
        if host not in self.state["hosts"]:
            raise store.ClusterError(f"cluster: no host {host!r}; there are {', '.join(self.hosts)}")
        who = self.state["hosts"][host]["init"]
        if not store.alive(who):
            raise store.ClusterError(f"cluster: host {host} is not running")
        return who["pid"]

    def running(self, host):
        return store.alive(self.state["hosts"][host]["init"])

    def address(self, host, version=4):
        return self.state["hosts"][host][f"v{version}"]

    def uid(self, user):
        return self.state["accounts"][user]["uid"]

    def path(self, host, path):
        """A file of the host, for this process (root) to read and write."""
        return pathlib.Path(f"/proc/{self.pid(host)}/root/{path.lstrip('/')}")

    def start(self, host, user, argv, **options):
        """processes.Command: Popen's options, env= (added to a login's environment), cwd=, controlling_tty=."""
        self.pid(host)  # a sentence of ours when it is not running
        return processes.Command(self.state, host, user, argv, **options)

    def run(self, host, user, argv, *, timeout=60.0, check=False, input=None, **options):
        """Runs to the end: subprocess.CompletedProcess with text; TimeoutExpired after killing the command."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
        options.setdefault("stdin", subprocess.DEVNULL if input is None else subprocess.PIPE)
        with self.start(host, user, argv, **options) as command:
            try:
                out, err = command.communicate(input, timeout)
            except subprocess.TimeoutExpired:
                command.kill()
                raise
            except BaseException:
                command.kill()
                raise
        result = subprocess.CompletedProcess(list(argv), command.returncode, out, err)
        if check:
            result.check_returncode()
        return result

    def open_pty(self, host):
        """(controller, terminal) fds of a terminal on host; start(..., stdin=terminal, controlling_tty=True)."""
        return processes.open_pty(self.pid(host))

    def processes(self, host):
        """[processes.Process] of the host, nested process namespaces included; none for a dead host."""
        return self.all_processes([host])[host]

    def all_processes(self, hosts=None):
        """{host: [processes.Process]} of all hosts in one look; none for a dead host."""
        inits = {host: self.state["init"] if host == store.SWITCH else self.state["hosts"][host]["init"]
                 for host in hosts or self.hosts}
        found = processes.of_hosts({host: who["pid"] for host, who in inits.items() if store.alive(who)})
        return {host: found.get(host, []) for host in inits}

    def known_hosts(self, known, user="alice", host="head"):
        """Fills (True) or empties (False) the known_hosts file of a user."""
        text = ""
        if known:
            keys = f"/proc/{self.switch_pid}/root{store.files(self.name)}/keys"
            text = users.known_hosts(keys, self.state["hosts"])
        self.path(host, self.state["accounts"][user]["home"] + "/.ssh/known_hosts").write_text(text)

    def stop_sshd(self, host):
        """Ends sshd of the host: no new connections; sessions stay."""
        pidfile = self.path(host, "/run/sshd.pid")
        inner = int(pidfile.read_text())
        for process in self.processes(host):
            if process.inner_pid == inner and process.comm == "sshd":
                store.kill_and_wait({"pid": process.pid, "start": process.start}, time.monotonic() + 5)
                pidfile.unlink()

    def start_sshd(self, host, *arguments):
        """Starts sshd, with further arguments ("-p", "2222", "-o", "PidFile=/run/sshd-2222.pid")."""
        self.run(host, "root", [*_SSHD, *arguments], cwd="/", check=True)
        port = arguments[arguments.index("-p") + 1] if "-p" in arguments else "22"
        self.run(host, "root", ["/usr/bin/python3", "-I", "-S", "-c", _WAIT_FOR_BANNER, port], cwd="/", check=True)


_SSHD = ["/usr/sbin/sshd", "-E", "/var/log/sshd.log"]
_WAIT_FOR_BANNER = """
import select, socket, sys, time
end = time.monotonic() + 10
while True:
    try:
        with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5) as s:
            sys.exit(0 if s.recv(4) == b"SSH-" else 1)
    except ConnectionRefusedError:
        if time.monotonic() > end:
            raise
        select.select([], [], [], 0.002)
"""


def _exposed(paths):
    """Of the folders, those that the hosts' own mounts would hide; the outermost only."""
    found = []
    for path in sorted({os.path.realpath(path) for path in paths}):
        hidden = image.is_private(path) and os.path.isdir(path)
        if hidden and not any(os.path.commonpath([path, outer]) == outer for outer in found):
            found.append(path)
    return found


def _build(state):
    built = subprocess.run(["/usr/bin/python3", "-I", _BUILD], input=json.dumps(state), text=True, capture_output=True)
    if built.returncode != 0:
        raise store.ClusterError(f"cluster: {state['name']} not made: {built.stderr.strip()}")
