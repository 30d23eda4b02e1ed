#!/usr/bin/python3
"""A rank with the four kinds of children that launchers leave behind.

    stray_tree.py TOKEN [SECONDS]

TOKEN is in the argv of all five processes, their name (comm) tells them apart. The rank is called stray-rank as soon
as all children are there. SIGUSR1 ends it with 0, SIGUSR2 with 3; a rank with an odd number ignores SIGTERM. None
outlives SECONDS. Used by tests/e2e/test_03_strays.py and bench/strays.
"""
import os
import signal
import sys

KINDS = ("setsid", "daemon", "deaf", "moved")


def live_on(kind, ready):
    with open("/proc/self/comm", "w") as comm:
        comm.write("stray-" + kind)
    os.write(ready, b"!")
    os.close(ready)
    while True:
        signal.pause()


def ignore_ends():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def close_stdio():
    for fd in range(3):
        os.close(fd)


def become(kind):
    """What the child does before it lives on; those that fork leave only the last one."""
    if kind == "setsid":  # holds stdout
        os.setsid()
    elif kind == "daemon":
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        close_stdio()
    elif kind == "deaf":  # of the rank's own session and group, holds stdout
        ignore_ends()
    elif kind == "moved":  # in a session whose leader has ended, and in a group of its own
        os.setsid()
        if os.fork():
            os._exit(0)
        os.setpgid(0, 0)
        ignore_ends()
        close_stdio()


def main():
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 180
    signal.alarm(seconds)
    read_end, ready = os.pipe()
    for kind in KINDS:
        if os.fork() == 0:
            os.close(read_end)
            become(kind)
            signal.alarm(seconds)
            live_on(kind, ready)
    got = b""
    while len(got) < len(KINDS):
        got += os.read(read_end, len(KINDS))
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
    signal.signal(signal.SIGUSR2, lambda *_: os._exit(3))
    if int(os.environ.get("RANK", "0")) % 2:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    live_on("rank", ready)


main()
