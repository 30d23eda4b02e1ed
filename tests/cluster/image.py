"""What a test host sees: its files.  Mounts only, in mount namespaces that were made for it."""

import os
import subprocess

from . import kernel, network, state as store, users

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Own and empty on every host; what must be seen below them is bound back (state["expose"]).
PRIVATE = ("/tmp", "/run", "/dev/shm", "/var/tmp", "/var/log", "/home", "/root")
SSHD_CONFIG = """\
# Debian 12's sshd_config without its comments; one host key.
HostKey /etc/ssh/ssh_host_ed25519_key
KbdInteractiveAuthentication no
UsePAM yes
X11Forwarding yes
PrintMotd no
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
# Debian's values where it keeps sshd's own defaults.
StrictModes yes
MaxStartups 10:30:100
PermitRootLogin prohibit-password
"""
SSH_CONFIG = "Host *\n    SendEnv LANG LC_*\n    HashKnownHosts yes\n    GSSAPIAuthentication yes\n"


def is_private(path):
    return any(_below(path, top) for top in PRIVATE)


def _write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def make_cluster(state):
    """In the switch's fresh mount namespace, which the hosts' are copies of: the machine read-only, and our files."""
    base = store.files(state["name"])
    kernel.mount(None, "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    # A host's mount table must not show the machine's views beside its own.
    for view in ("/sys", "/dev/pts", "/dev/shm"):
        kernel.detach_all(view)
    kernel.make_tree_readonly("/")
    _fresh_proc()
    kernel.tmpfs(base, 0o755)
    _make_etc(state, base)
    users.make_keys(f"{base}/keys", [*state["hosts"], *state["accounts"]])
    for index, path in enumerate(state["expose"]):
        os.makedirs(f"{base}/expose/{index}")
        kernel.bind(path, f"{base}/expose/{index}")
    for host, settings in state["hosts"].items():
        _write(f"{base}/hosts/{host}/hosts", network.hosts_file(host, state["hosts"]))
        _write(f"{base}/hosts/{host}/hostname", host + "\n")
        _make_home(state, base, host, settings)


def _make_etc(state, base):
    subprocess.run(["cp", "-a", "/etc", f"{base}/etc"], check=True)
    users.add_accounts(f"{base}/etc", state["accounts"])
    for entry in os.listdir(f"{base}/etc/ssh"):
        path = f"{base}/etc/ssh/{entry}"
        if entry.startswith("ssh_host_"):
            os.unlink(path)
    _write(f"{base}/etc/ssh/sshd_config", SSHD_CONFIG)
    _write(f"{base}/etc/ssh/ssh_config", SSH_CONFIG)
    # An unknown name is answered at once, as by a name server that works.
    with open(f"{base}/etc/nsswitch.conf") as file:
        lines = [line for line in file if not line.startswith("hosts:")]
    _write(f"{base}/etc/nsswitch.conf", "".join(lines) + "hosts: files\n")
    for name in ("hosts", "hostname", "ssh/ssh_host_ed25519_key", "ssh/ssh_host_ed25519_key.pub"):
        _write(f"{base}/etc/{name}", "")  # mount points


def _home_source(base, host, settings):
    return f"{base}/homes/{'shared' if settings['home'] == 'shared' else host}"


def _make_home(state, base, host, settings):
    kind = settings["home"]
    home = _home_source(base, host, settings)
    if os.path.isdir(home):
        return  # shared, and made for an earlier host
    os.makedirs(home)
    kernel.tmpfs(home, 0o755, users.HOME_TMPFS[kind])
    for path in state["expose"]:
        if _below(path, "/home"):
            os.makedirs(home + path.removeprefix("/home"), exist_ok=True)
    known = users.known_hosts(f"{base}/keys", state["hosts"]) if kind == "shared" or host == "head" else None
    for user in users.USERS:
        users.fill_home(f"{home}/{user}", user, state["accounts"][user], f"{base}/keys", known)
    if kind == "full":
        users.fill_up(f"{home}/alice/filler", state["accounts"]["alice"])
    if kind == "noexec":
        kernel.mount(None, home, flags=kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_NOSUID | kernel.MS_NODEV |
                     kernel.MS_NOEXEC)


def make_host(state, host):
    """In the host's fresh mount namespace, as its process 1."""
    base = store.files(state["name"])
    own = f"{base}/hosts/{host}"
    kernel.bind(f"{base}/etc", "/etc")
    kernel.bind(f"{own}/hosts", "/etc/hosts")
    kernel.bind(f"{own}/hostname", "/etc/hostname")
    for suffix in ("", ".pub"):
        kernel.bind(f"{base}/keys/{host}{suffix}", f"/etc/ssh/ssh_host_ed25519_key{suffix}")
    for target, mode in (("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/dev/shm", 0o1777), ("/var/log", 0o755),
                         ("/root", 0o700)):
        kernel.tmpfs(target, mode)
    for name in ("lastlog", "wtmp", "btmp"):
        _write(f"/var/log/{name}", "")
    users.fill_home("/root", "root", state["accounts"]["root"], f"{base}/keys",
                    users.known_hosts(f"{base}/keys", state["hosts"]) if host == "head" else None)
    if any(_below(path, "/root") for path in state["expose"]):
        os.chmod("/root", 0o711)
    kernel.bind(_home_source(base, host, state["hosts"][host]), "/home")
    _bind_exposed(state, base, [path for path in state["expose"] if not _below(path, "/run")])
    _make_run(state, base)
    _make_kernel_views(state, host)


def _below(path, top):
    return os.path.commonpath([path, top]) == top


def _bind_exposed(state, base, paths):
    for path in paths:
        os.makedirs(path, exist_ok=True)
        kernel.bind(f"{base}/expose/{state['expose'].index(path)}", path, readonly=True)


def _make_run(state, base):
    """/run last, because our own files lie below it; what a host needs of them is bound by now."""
    held = os.open(base, os.O_PATH)
    kernel.mount("tmpfs", "/run", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
    for name, mode in (("sshd", 0o755), ("lock", 0o1777), ("user", 0o755)):
        os.mkdir(f"/run/{name}")
        os.chmod(f"/run/{name}", mode)
    _write("/run/utmp", "")
    _bind_exposed(state, f"/proc/self/fd/{held}", [path for path in state["expose"] if _below(path, "/run")])
    kernel.detach(f"/proc/self/fd/{held}")  # the host's mount table shows nothing of the other hosts
    os.close(held)


def _fresh_proc():
    kernel.detach_all("/proc")
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


def _make_kernel_views(state, host):
    """/proc, /sys, terminals and cgroups of this host's namespaces."""
    _fresh_proc()
    kernel.mount("devpts", "/dev/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC,
                 "newinstance,gid=5,mode=620,ptmxmode=666")
    kernel.mount("sysfs", "/sys", "sysfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    group = state["hosts"][host]["cgroup"]
    if group:
        # As on this machine: a pure version 2 machine has it at the top, a hybrid one in "unified".
        if os.path.dirname(group) == "/sys/fs/cgroup":
            kernel.mount("cgroup2", "/sys/fs/cgroup", "cgroup2", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        else:
            kernel.tmpfs("/sys/fs/cgroup", 0o755)
            os.mkdir("/sys/fs/cgroup/unified")
            kernel.mount("cgroup2", "/sys/fs/cgroup/unified", "cgroup2",
                         kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


def start_sshd(state, host):
    """sshd as a child of process 1, in its own group; it detaches itself."""
    if os.fork() != 0:
        return
    try:
        group = state["hosts"][host]["cgroup"]
        if group:
            top = "/sys/fs/cgroup" + ("" if os.path.dirname(group) == "/sys/fs/cgroup" else "/unified")
            with open(f"{top}/sshd/cgroup.procs", "w") as file:
                file.write("0")
        os.chdir("/")
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.execve("/usr/sbin/sshd", SSHD_ARGV, {"PATH": PATH})
    finally:
        os._exit(127)


SSHD_ARGV = ["/usr/sbin/sshd", "-E", "/var/log/sshd.log"]
