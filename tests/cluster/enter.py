"""Runs one command inside a test host; the process between subprocess.Popen and the command.

argv: SPEC_FD STATUS_FD.  SPEC_FD holds JSON (so that the environment is in no command line).  STATUS_FD gets
"<outer pid>" and, when the command could not be started, "error <why>"; its end means that exec is done.
Ends as the command ends: with its exit code, or by its signal.
"""

import json
import os
import resource
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel  # noqa: E402


def become(spec):
    """In the child: the host's namespaces, a session of its own, the user, and the command."""
    for procs in spec["cgroups"]:
        with open(procs, "w") as file:
            file.write("0")
    kernel.setns(spec["init_pidfd"], kernel.HOST_NAMESPACES | (kernel.CLONE_NEWCGROUP if spec["cgroups"] else 0))
    os.close(spec["init_pidfd"])
    os.setsid()
    if spec["controlling_tty"]:
        import fcntl
        import termios
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if spec["uid"] != 0:
        os.setgroups(spec["groups"])
        os.setgid(spec["gid"])
        os.setuid(spec["uid"])
    if spec["die_with_parent"]:
        kernel.die_with_parent(signal.SIGKILL)
    os.chdir(spec["cwd"])
    for number in spec["default_signals"]:
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(spec["argv"][0], spec["argv"], spec["env"])


def main():
    spec_fd, status_fd = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(status_fd, False)
    with os.fdopen(spec_fd) as file:
        spec = json.load(file)
    spec["init_pidfd"] = kernel.pidfd_open(spec["init"])
    spec["default_signals"] = [int(s) for s in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT)]
    try:
        kernel.setns(spec["init_pidfd"], kernel.CLONE_NEWPID)
        child = os.fork()
    except OSError as error:
        os.write(status_fd, f"error {error}\n".encode())
        os._exit(125)
    if child == 0:
        try:
            become(spec)
        except OSError as error:
            os.write(status_fd, f"error {spec['argv'][0]}: {error}\n".encode())
        os._exit(127)
    os.write(status_fd, f"{child}\n".encode())
    os.close(status_fd)
    # Only the command may hold the caller's pipes open.
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


main()
