"""`muster top` on a terminal: keys, sizes, a launcherd that goes and comes, and what the terminal is left with."""

import re
import termios

import pytest
from conftest import BIN_DIR
from console import Shell, Watched
from launcherd_user import Launcherd
from vt_screen import VtScreen

WAITS = "echo up $MUSTER_RANK; exec sleep 1000"
XTERM = {"TERM": "xterm-256color"}
EVIL = "exec sleep 1000 # \x1b]0;evil\x07"


@pytest.fixture
def launcherd(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster)
    yield daemon
    daemon.close()


class Screen:
    """muster top, and what its terminal shows."""

    def __init__(self, launcherd, *args, env=None):
        self.watched = launcherd.watch("top", "--interval", "200ms", *args, terminal=True, env=env or XTERM)
        self.size = (40, 200)
        self.seen_before = 0

    def resize(self, lines, columns):
        self.seen_before = len(self.watched.out.bytes)
        self.size = (lines, columns)
        self.watched.resize(lines, columns)

    def picture(self, data):
        screen = VtScreen(*self.size)
        screen.feed(data[self.seen_before:])
        return screen.text()

    def wait_for(self, *patterns, without=()):
        """Until the screen has them all, and none of the others. Returns its text."""
        text = ""

        def is_there(data):
            nonlocal text
            text = self.picture(data)
            return all(re.search(p, text) for p in patterns) and not any(re.search(p, text) for p in without)

        try:
            self.watched.out.wait_until(is_there)
        except AssertionError:
            raise AssertionError(f"{patterns} without {without}:\n{self.picture(self.watched.out.bytes)}") from None
        return text

    def keys(self, text):
        self.watched.type(text)


def test_jobs_and_hosts_and_ranks(launcherd):
    job = launcherd.submit("-np", "4", "--name", "night", "sh", "-c", WAITS)
    waiting = launcherd.submit("-np", "8", "true")
    screen = Screen(launcherd)
    screen.wait_for("1 running, 1 waiting  4/8 slots on 4 hosts", rf"{job}  RUNNING +4 ",
                    rf"{waiting}  QUEUED .* needs 8 slots, 4 are free", r" jobs 1-2 of 2, by state", r" hosts 1-4 of 4",
                    r"n1 +up +2/2", r"cpu +memory", r"\[\|* *\d+%\]")
    assert not screen.watched.modes()[3] & termios.ECHO
    screen.keys("/night\r")
    screen.wait_for("jobs 1-1 of 1, by state, filter 'night'", without=[waiting])
    screen.keys("\r")
    text = screen.wait_for(rf"job {job}: RUNNING", "rank +host +pid", *[rf"{rank} +n\d +\d+ .*running" for rank in range(4)])
    assert "name: night" in text and "sleep 1000" in text, text
    screen.keys("\x1b")
    screen.wait_for("filter 'night'")
    screen.keys("\x1b")
    screen.wait_for(waiting)
    screen.keys("\t\x1bOB\r")  # the second host
    screen.wait_for("host n2: agent up, 2/2 slots used, 2 ranks", rf"{job}  RUNNING", without=[waiting])
    screen.keys("\x7f?")
    screen.wait_for("go to the other table")
    screen.keys("x")
    screen.resize(10, 40)
    screen.wait_for("1 running, 1 waiting", job, "QUEUED", "n2 ")
    screen.resize(30, 120)
    screen.wait_for(rf"{waiting}  QUEUED .* needs 8 slots, 4 are free", r"n4 +")
    launcherd.asked("kill", job)
    screen.wait_for("0/8 slots on 4 hosts", "no jobs")
    screen.keys("a")
    screen.wait_for(r"jobs \(all\) 1-2 of 2", rf"{job}  KILLED 143", rf"{waiting}  SUCCEEDED")
    screen.keys("q")
    ended = screen.watched.command.wait(20)
    assert ended == 0 and "\x1b[?1049l" in screen.watched.out.text[-200:]  # the user's own screen is back
    assert screen.watched.modes()[3] & termios.ECHO and screen.watched.modes()[3] & termios.ICANON
    screen.watched.end()


def test_a_launcherd_that_goes_and_comes(launcherd):
    screen = Screen(launcherd, env=XTERM | {"NO_COLOR": "1"})
    screen.wait_for("hosts 1-4 of 4")
    launcherd.die()
    screen.wait_for("asking again", "hosts 1-4 of 4")  # with what was known last
    launcherd.come_back()
    screen.wait_for("hosts 1-4 of 4", without=["asking again"])
    evil = launcherd.submit("-np", "1", "sh", "-c", EVIL)
    screen.wait_for(rf"{evil}  RUNNING .*\\x1b\]0;evil\\x07")
    launcherd.asked("kill", evil)
    screen.watched.signal(15)
    assert screen.watched.command.wait(20) == 0
    out = screen.watched.end().stdout
    assert "\x1b]0;evil" not in out and "\x1b[?1049l" in out[-200:], out[-400:]
    assert not re.search(r"\x1b\[3[0-7]m", out)  # NO_COLOR


def test_a_pause_gives_the_terminal_back(launcherd, hvdrun, cluster):
    shell = Shell(hvdrun, cluster)

    def wait_for(text, begin):
        """Until what came after the first `begin` bytes shows the text. Returns the number of bytes then."""
        def is_there(data):
            screen = VtScreen(40, 200)
            screen.feed(data[begin:])
            return text in screen.text()
        shell.out.wait_until(is_there)
        return len(shell.out.bytes)

    shell.type(f"TERM=xterm-256color {BIN_DIR}/muster top\n")
    at = wait_for("hosts 1-4 of 4", 0)
    shell.type("\x1a")
    at = wait_for("Stopped", at)
    assert shell.out.bytes.count(b"\x1b[?1049l") == 1  # the shell's own screen
    shell.type("fg\n")
    at = wait_for("hosts 1-4 of 4", at)
    shell.type("q")
    shell.out.wait_until(lambda data: data.count(b"\x1b[?1049l") == 2 and data.endswith(b"prompt> "))
    assert shell.close().rc == 0


def test_a_terminal_that_cannot_show_it(hvdrun, cluster):
    for term in ("no-such-terminal", "dumb"):
        ended = Watched(hvdrun, cluster, argv=[BIN_DIR / "muster", "top"], terminal=True, env={"TERM": term, "NO_COLOR": "1"}).end()
        assert ended.rc == 2, ended
        assert f"muster top: TERM={term}: " in ended.stdout and "--once" in ended.stdout, ended
