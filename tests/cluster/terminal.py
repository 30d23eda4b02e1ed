"""`cluster run` from a terminal: the command gets a terminal of the host, and the bytes of ours."""

import fcntl
import os
import select
import signal
import sys
import termios
import tty


def _copy_size(controller):
    fcntl.ioctl(controller, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))


def _relay(controller):
    """Until the last process on the host's terminal has closed it."""
    sources = [controller, 0]
    while True:
        for fd in select.select(sources, [], [])[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                data = b""
            if fd == controller and not data:
                return
            if not data:
                sources.remove(0)
            os.write(1 if fd == controller else controller, data)


def run(cluster, host, user, argv, env, cwd):
    """Popen's returncode of the command."""
    controller, slave = cluster.open_pty(host)
    before = termios.tcgetattr(0)
    try:
        _copy_size(controller)
        signal.signal(signal.SIGWINCH, lambda *_: _copy_size(controller))
        command = cluster.start(host, user, argv, env={"TERM": os.environ.get("TERM", "dumb")} | env, cwd=cwd,
                                stdin=slave, stdout=slave, stderr=slave, controlling_tty=True)
        os.close(slave)
        tty.setraw(0)
        _relay(controller)
        return command.wait()
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.close(controller)
        sys.stdout.flush()
