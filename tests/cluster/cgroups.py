"""One cgroup (version 2) per test host, where this machine lets us make one."""

import os
import select
import time

_DELEGATE = "/sys/kernel/cgroup/delegate"


def root():
    """The mount point of cgroup2 if we may make groups in it, else None.  Pure and hybrid machines."""
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields = line.split()
            if fields[fields.index("-") + 1] == "cgroup2" and fields[3] == "/" and os.access(fields[4], os.W_OK):
                probe = f"{fields[4]}/muster-test-probe-{os.getpid()}"
                try:
                    os.mkdir(probe)
                    os.rmdir(probe)
                    return fields[4]
                except OSError:
                    continue
    return None


def path(name, host):
    """The group of a host or None.  "sshd" in it holds sshd, all sessions and all that `run` starts."""
    top = root()
    return top and f"{top}/muster-test-{name}-{host}"


def make(group, owner=None):
    """group and group/sshd; with owner (uid, gid) the latter is delegated as systemd's Delegate=yes does it."""
    inner = f"{group}/sshd"
    os.makedirs(inner, exist_ok=True)
    if owner:
        os.chown(inner, *owner)
        with open(_DELEGATE) as file:
            for name in file.read().split():
                if os.path.exists(f"{inner}/{name}"):
                    os.chown(f"{inner}/{name}", *owner)


def remove(group, deadline):
    """Kills what is left in it (nothing, as a rule) and removes it with all groups below; True when gone."""
    if not os.path.isdir(group):
        return True
    kill = f"{group}/cgroup.kill"
    if os.path.exists(kill):
        with open(kill, "w") as file:
            file.write("1")
    while True:
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                os.rmdir(folder)
            return True
        except OSError:
            if time.monotonic() > deadline:
                return False
        _wait_for_change(group)


def _wait_for_change(group):
    """Until cgroup.events changes, at most 20 ms (an event between the look and the wait must not hang us)."""
    try:
        with open(f"{group}/cgroup.events") as file:
            file.read()
            poll = select.poll()
            poll.register(file, select.POLLPRI)
            poll.poll(20)
    except FileNotFoundError:
        pass
