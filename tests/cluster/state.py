"""What is written about a cluster (ROOT/NAME/state.json), and how it is removed.

Everything a cluster consists of lives in namespaces that end with one process, the cluster's init.  Outside are
only its folder below ROOT and its cgroups; destroy() removes both, also for a cluster whose making failed.
"""

import json
import os
import re
import select
import signal
import time

from . import cgroups, kernel

ROOT = "/run/muster-test"
INIT_ARGV0 = "muster-test-init"
SWITCH = "switch"  # the name of the cluster's own init among those of its hosts


class ClusterError(Exception):
    """One sentence: what could not be done, and why."""


def folder(name):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", name):
        raise ClusterError(f"cluster: {name!r} is no cluster name: letters, digits, - and _")
    return f"{ROOT}/{name}"


def files(name):
    """Mount point of the cluster's own files, empty outside of its mount namespaces."""
    return folder(name) + "/fs"


def claim(name):
    """Makes the cluster's folder; it is an error if there is one."""
    while True:
        try:
            return os.makedirs(files(name))
        except FileExistsError:
            raise ClusterError(f"cluster: {name} exists; `cluster down --name {name}` removes it") from None
        except FileNotFoundError:
            continue  # another cluster's end removed ROOT between two of our steps


def load(name):
    try:
        with open(folder(name) + "/state.json") as file:
            return json.load(file)
    except FileNotFoundError:
        raise ClusterError(f"cluster: no cluster {name!r}; `cluster list` shows those that exist") from None


def save(state):
    path = folder(state["name"]) + "/state.json"
    with open(path + ".new", "w") as file:
        json.dump(state, file, indent=1)
    os.rename(path + ".new", path)


def names():
    try:
        return sorted(os.listdir(ROOT))
    except FileNotFoundError:
        return []


def start_time(pid):
    """With the pid it names one process for ever; None if there is no such process (or only its zombie)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def identity(pid):
    return {"pid": pid, "start": start_time(pid)}


def alive(who):
    return bool(who) and who["start"] is not None and start_time(who["pid"]) == who["start"]


def kill_and_wait(who, deadline):
    """SIGKILL to the process that `who` identifies, and waits for its end; True when it is gone."""
    try:
        fd = kernel.pidfd_open(who["pid"])
    except ProcessLookupError:
        return True
    try:
        if not alive(who):
            return True
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
    finally:
        os.close(fd)


def _inits(name):
    """Our init processes of this cluster, found by their exact arguments (the state may not name them yet)."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                argv = file.read().decode(errors="replace").split("\0")
            owner = os.stat(f"/proc/{pid}").st_uid
        except (FileNotFoundError, ProcessLookupError):
            continue
        if owner == 0 and argv[0] == INIT_ARGV0 and len(argv) > 5 and argv[4] == name:
            found.append((argv[5] != SWITCH, identity(int(pid))))
    return [who for _, who in sorted(found, key=lambda item: item[0])]


def destroy(name, timeout=10.0):
    """Removes the cluster, whatever is left of it; nothing to do is success."""
    deadline = time.monotonic() + timeout
    top = folder(name)
    stuck = [str(who["pid"]) for who in _inits(name) if not kill_and_wait(who, deadline)]
    group_root = cgroups.root()
    if group_root:
        prefix = f"muster-test-{name}-"
        for entry in os.listdir(group_root):
            # A host name has no dash, so that cluster "a" does not take the groups of cluster "a-b".
            if entry.startswith(prefix) and "-" not in entry[len(prefix):]:
                if not cgroups.remove(f"{group_root}/{entry}", deadline):
                    stuck.append(f"{group_root}/{entry}")
    if stuck:
        raise ClusterError(f"cluster: {name} could not be removed: {', '.join(stuck)} did not go within {timeout:g} s")
    if os.path.isdir(top):
        for entry in os.listdir(top):
            path = f"{top}/{entry}"
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
        os.rmdir(top)
    try:
        os.rmdir(ROOT)
    except OSError:
        pass  # other clusters


def sweep():
    """Removes clusters whose owner (a test run) has ended without doing so."""
    for name in names():
        try:
            state = load(name)
        except (ClusterError, ValueError):
            continue
        if state["owner"] and not alive(state["owner"]):
            destroy(name)


def destroy_group(group):
    """The cgroup of a dead host."""
    if group and not cgroups.remove(group, time.monotonic() + 5):
        raise ClusterError(f"cluster: {group} could not be removed within 5 s")
