"""Commands in test hosts, and all processes of a test host."""

import errno
import fcntl
import json
import os
import select
import signal
import subprocess
from dataclasses import dataclass, field

from . import image, kernel

_ENTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "enter.py")
_NS_GET_PARENT = 0xB702


class Command(subprocess.Popen):
    """A command in a test host: Popen, but signals go to the command itself, whose pid (in this machine's
    numbering) is `real_pid`; `pid` is a helper that ends as the command ends and holds none of its pipes."""

    def __init__(self, state, host, user, argv, *, env=None, cwd=None, controlling_tty=False, clean_env=None, **popen):
        account = state["accounts"][user]
        settings = state["hosts"].get(host)
        cgroup = settings and settings["cgroup"]
        init = settings["init"] if settings else state["init"]
        spec = {
            "init": init["pid"], "cgroups": [f"{cgroup}/sshd/cgroup.procs"] if cgroup else [],
            "uid": account["uid"], "gid": account["gid"], "groups": [account["gid"]],
            "cwd": cwd or account["home"], "argv": [os.fspath(word) for word in argv],
            "env": (login_environment(user, account) if clean_env is None else dict(clean_env)) | (env or {}),
            "controlling_tty": controlling_tty, "die_with_parent": True,
        }
        self._pidfd = -1
        self.real_pid = None
        spec_fd = os.memfd_create("spec")
        os.write(spec_fd, json.dumps(spec).encode())
        os.lseek(spec_fd, 0, os.SEEK_SET)
        status_read, status_write = os.pipe()
        try:
            super().__init__(["/usr/bin/python3", "-I", "-S", _ENTER, str(spec_fd), str(status_write)],
                             pass_fds=(spec_fd, status_write), **popen)
        except BaseException:
            os.close(status_read)
            raise
        finally:
            os.close(spec_fd)
            os.close(status_write)
        self.args = spec["argv"]
        self._started(status_read, spec["argv"][0])

    def _started(self, status_read, name):
        with os.fdopen(status_read) as file:
            pid_line, error = file.readline(), ""
            if pid_line.startswith("error"):
                error = pid_line
            elif pid_line:
                self.real_pid = int(pid_line)
                try:
                    self._pidfd = kernel.pidfd_open(self.real_pid)
                except ProcessLookupError:
                    pass  # it has ended already
                error = file.read()  # until exec
        if error or not pid_line:
            self.wait()
            raise OSError(errno.ENOEXEC, f"run {name}: {error.removeprefix('error ').strip() or 'helper failed'}")

    def send_signal(self, number):
        try:
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            pass

    def ended(self):
        """Whether the command itself has ended; poll() follows a moment later, when the helper has seen it."""
        if self._pidfd < 0:
            return True
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def __del__(self):
        if getattr(self, "_pidfd", -1) >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        super().__del__()


def login_environment(user, account):
    path = image.PATH if account["uid"] == 0 else "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
    return {"HOME": account["home"], "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "PATH": path,
            "LANG": "C.UTF-8", "MAIL": f"/var/mail/{user}"}


def open_pty(init_pid):
    """(controller, terminal) fds of a new terminal of the host with this init."""
    controller = os.open(f"/proc/{init_pid}/root/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(controller, 0x40045431, b"\0\0\0\0")  # TIOCSPTLCK: unlock
        terminal = fcntl.ioctl(controller, 0x5441, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)  # TIOCGPTPEER
    except OSError:
        os.close(controller)
        raise
    return controller, terminal


@dataclass(frozen=True)
class Process:
    """One process of a test host as it was when looked at."""
    pid: int  # in this machine's numbering: what os.kill wants
    inner_pid: int  # as the host's own ps shows it
    ppid: int
    uid: int
    start: int  # clock ticks; with pid it names one process for ever
    state: str
    comm: str
    argv: tuple
    environ: dict = field(repr=False)

    @property
    def key(self):
        return self.pid, self.start


def _parent_namespace(fd):
    try:
        return fcntl.ioctl(fd, _NS_GET_PARENT)
    except OSError:
        return -1


class _Membership:
    """Which host a process belongs to: that of its process namespace, or of the nearest one above it."""

    def __init__(self, hosts):
        """hosts: {inode of the host's process namespace: host}."""
        self.known = dict(hosts)

    def __call__(self, pid):
        path = f"/proc/{pid}/ns/pid"
        try:
            inode = os.stat(path).st_ino
            if inode not in self.known:
                self.known[inode] = self._climb(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except PermissionError:  # of either, because a process may become so in between
            if _depth(pid) == 0:
                return None  # a process of the machine itself, closed even to root
            raise
        return self.known[inode]

    def _climb(self, fd):
        while fd >= 0:
            host = self.known.get(os.fstat(fd).st_ino)
            parent = -1 if host is not None else _parent_namespace(fd)
            os.close(fd)
            if host is not None:
                return host
            fd = parent
        return None


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _look(pid, depth):
    raw = _read(f"/proc/{pid}/stat").decode(errors="replace")
    comm, rest = raw[raw.index("(") + 1:raw.rindex(")")], raw[raw.rindex(")") + 2:].split()
    status = _read(f"/proc/{pid}/status").decode(errors="replace")
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
    uid = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1]
    argv = _read(f"/proc/{pid}/cmdline").decode(errors="replace").rstrip("\0").split("\0")
    try:
        pairs = [entry.partition("=") for entry in _read(f"/proc/{pid}/environ").decode(errors="replace").split("\0")]
    except OSError:
        pairs = []  # a zombie has none
    return Process(pid=pid, inner_pid=int(numbers[min(depth, len(numbers) - 1)]), ppid=int(rest[1]), uid=int(uid),
                   start=int(rest[19]), state=rest[0], comm=comm, argv=tuple(argv),
                   environ={name: value for name, _, value in pairs if name})


def _depth(pid):
    """How many process namespaces below this machine's own."""
    status = _read(f"/proc/{pid}/status").decode(errors="replace")
    return len(next(line for line in status.splitlines() if line.startswith("NSpid:")).split()) - 2


def of_hosts(inits):
    """{host: [Process]} for inits, {host: pid of its init}, in one look at /proc.  Processes in process namespaces
    below a host's are its own too; its init is not listed.  A host that is dead has none."""
    found, namespaces, depth = {host: [] for host in inits}, {}, 0
    for host, pid in inits.items():
        try:
            namespaces[os.stat(f"/proc/{pid}/ns/pid").st_ino] = host
            depth = _depth(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    host_of, seen, missed = _Membership(namespaces), set(inits.values()), True
    while missed:  # it may have started another one, which is in no earlier list, and then ended
        new, missed = set(map(int, filter(str.isdigit, os.listdir("/proc")))) - seen, False
        seen |= new
        for pid in sorted(new):
            try:
                host = host_of(pid)
                if host is not None:
                    found[host].append(_look(pid, depth))
                    missed = missed or not (found[host][-1].argv[0] and found[host][-1].environ)  # it ends
            except (FileNotFoundError, ProcessLookupError):
                missed = True  # ended meanwhile
    return found
