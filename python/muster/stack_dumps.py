"""Lets the agent ask this process for its Python stack by a signal.

The agent reads stacks from the memory of a process. Some hosts forbid that: with a strict kernel.yama.ptrace_scope, or
in some containers. Then a process can help by faulthandler, whose handler runs at any point of the program.

The file stack-PID in the session's directory tells the agent the signal, and gets the stacks.
"""

import faulthandler
import os
import signal

_pid = None  # of the process that has enabled it


def enable():
    """Returns True if the agent can ask from now on, and False without a launcher. May be called again, and after a
    fork. OSError: the file cannot be written. RuntimeError: the program uses all real-time signals."""
    global _pid
    directory = os.environ.get("MUSTER_SESSION_DIR")
    if not directory:
        return False
    if _pid == os.getpid():
        return True
    number = _free_signal()
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    # faulthandler keeps the number of the descriptor, so it stays open.
    file = os.open(os.path.join(directory, f"stack-{os.getpid()}"), flags, 0o600)
    faulthandler.register(number, file=file, all_threads=False)
    os.write(file, b"muster stack 1 %d %d\n" % (number, _start_time()))
    _pid = os.getpid()
    return True


def _free_signal():
    """Returns a real-time signal that the program does not handle."""
    for number in range(signal.SIGRTMAX - 2, signal.SIGRTMIN, -1):
        if signal.getsignal(number) == signal.SIG_DFL:
            return number
    raise RuntimeError("muster.enable_stack_dumps(): the program handles all real-time signals itself")


def _start_time():
    """Returns the kernel's start time of this process, which tells it from a later one with the same pid."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as stat:
        return int(stat.read().rpartition(")")[2].split()[19])
