"""Process 1 of a test host: starts nothing, reaps what is orphaned, and takes the host with it when killed.

argv: NAME HOST [OWNER_PIDFD].  With an owner (the cluster's own init of a test run) it ends when the owner
has ended, so that a test run that was killed leaves no cluster.
"""

import os
import select
import signal
import sys


def main():
    owner = int(sys.argv[3]) if len(sys.argv) > 3 else -1
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(wake_read, select.POLLIN)
    if owner >= 0:
        poll.register(owner, select.POLLIN)
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            pass
        for fd, _ in poll.poll():
            if fd == owner:
                return
            os.read(wake_read, 4096)


main()
