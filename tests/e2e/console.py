"""A running hvdrun as its user sees it: what it has written so far, on pipes or on a terminal of the host.

    job = Watched(hvdrun, cluster, ["-np", "4", "-H", "n1:2,n2:2", "sleep", "infinity"], terminal=True)
    job.out.wait_for("ready", count=4)
    job.type("\\x03")
    assert job.end().rc == 130
"""

import fcntl
import os
import re
import select
import struct
import termios
import threading
import time

from conftest import Result

PYTHON = "/usr/bin/python3"
PATIENCE = 40.0  # for what comes at once on an idle machine


class Console:
    """Collects all that comes from a descriptor, which it owns, until its end."""

    def __init__(self, fd):
        self._fd = fd
        self._bytes = b""
        self._changed = threading.Condition()
        self._is_open = True
        self._stop, self._stop_end = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while True:
            is_stopped = self._stop in select.select([self._fd, self._stop], [], [])[0]
            try:
                data = b"" if is_stopped else os.read(self._fd, 65536)
            except OSError:  # a terminal that nobody holds any more
                data = b""
            with self._changed:
                self._bytes += data
                self._is_open = bool(data)
                self._changed.notify_all()
            if not data:
                return

    @property
    def bytes(self):
        with self._changed:
            return self._bytes

    @property
    def text(self):
        return self.bytes.decode(errors="replace")

    def wait_for(self, pattern, count=1, timeout=PATIENCE):
        """The first `count` matches, as soon as they are there."""
        def found():
            return list(re.finditer(pattern, self._bytes.decode(errors="replace")))

        with self._changed:
            self._changed.wait_for(lambda: len(found()) >= count or not self._is_open, timeout)
            matches = found()
            seen = self._bytes.decode(errors="replace")
            why = f"within {timeout} s" if self._is_open else "until its other end was closed"
        assert len(matches) >= count, f"{pattern!r} came {len(matches)} times of {count} {why}:\n{seen}"
        return matches[:count]

    def wait_until(self, is_enough, timeout=PATIENCE):
        """Until is_enough(bytes so far) is true; it is asked after each change."""
        with self._changed:
            self._changed.wait_for(lambda: is_enough(self._bytes) or not self._is_open, timeout)
            assert is_enough(self._bytes), self._bytes[-4000:].decode(errors="replace")

    def wait_end(self, timeout=PATIENCE):
        self._thread.join(timeout)
        assert not self._thread.is_alive(), f"somebody still holds its other end:\n{self.text}"
        self.close()
        return self.bytes

    def close(self):
        """Reads no further."""
        if self._fd >= 0:
            os.write(self._stop_end, b"!")
            self._thread.join()
            for fd in (self._fd, self._stop, self._stop_end):
                os.close(fd)
            self._fd = -1


class Watched:
    """hvdrun, or with argv another program that calls it, whose output can be looked at while it runs.

    terminal: it gets a controlling terminal for stdin, stdout and stderr; out is then err. Equal lines of hvdrun's ranks
    are not folded there unless folds."""

    def __init__(self, hvdrun, cluster, args=(), *, argv=None, terminal=False, folds=False, host="head",
                 user="alice", **options):
        self._terminal = None
        if terminal:
            self._terminal, line = cluster.open_pty(host)
            fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
            ends = [line]
            options |= {"stdin": line, "stdout": line, "stderr": line, "controlling_tty": True}
            if not folds:
                options["env"] = {"MUSTER_FOLD": "off"} | options.get("env", {})
        else:
            out, out_end = os.pipe()
            err, err_end = os.pipe()
            ends = [out_end, err_end]
            options |= {"stdout": out_end, "stderr": err_end}
        self.began = time.monotonic()
        try:
            self.command = hvdrun.start(args, user, host, on=cluster, argv=argv, **options)
        finally:
            for end in ends:
                os.close(end)
        self.out = Console(os.dup(self._terminal) if terminal else out)
        self.err = self.out if terminal else Console(err)

    def type(self, text):
        """Keys on its terminal."""
        os.write(self._terminal, text.encode())

    def resize(self, lines, columns):
        """Its terminal has another size from now on."""
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def modes(self):
        """The terminal's own modes, as tcgetattr(3)."""
        return termios.tcgetattr(self._terminal)

    def hang_up(self):
        """The terminal is gone, as when its window is closed."""
        self.out.close()
        os.close(self._terminal)
        self._terminal = None

    def signal(self, number):
        self.command.send_signal(number)

    def ended(self):
        return self.command.ended()

    def end(self, timeout=PATIENCE):
        """Waits for its end, and that nobody holds its output any longer."""
        rc = self.command.wait(timeout)
        elapsed = time.monotonic() - self.began
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None
        out = self.out.wait_end()
        return Result(rc, out, out if self.err is self.out else self.err.wait_end(), elapsed)


class Shell:
    """An interactive shell of alice with job control on a terminal of head."""

    def __init__(self, hvdrun, cluster):
        self.job = Watched(hvdrun, cluster, argv=["bash", "--norc", "-i"], terminal=True, env={"PS1": "prompt> "})
        self.out = self.job.out
        self.out.wait_for("prompt> ")

    def type(self, text):
        self.job.type(text)

    def close(self):
        self.type("exit\n")
        return self.job.end()


def notices(result):
    """The launcher's own lines in order, without their prefix; also those that a terminal wrote over."""
    lines = re.split(r"\r\x1b\[K|[\r\n]+", result.stderr)
    return [line.removeprefix("hvdrun: ") for line in lines if line.startswith("hvdrun: ")]


def last_line(result):
    """The launcher's last line."""
    lines = notices(result)
    assert lines, result
    return lines[-1]
