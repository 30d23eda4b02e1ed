#!/usr/bin/python3
"""The rank of bench/stacks: it computes, and measures its own delays.

    stacks_rank.py FILE

It prints "up", and goes on until FILE exists. Then it prints one JSON line: a list of periods [end, gap, stopped, wait, length]. `end` is
CLOCK_MONOTONIC. `gap` is the longest time between two turns of its loop. `wait` is its time in the queue of a CPU.
`stopped` is the rest of the time in which it did not run, because another process had stopped it. All in seconds."""

import json
import os
import sys
import time

PERIOD = 0.02


def queue_time(fd):
    """How long this thread was ready, but another one had its CPU."""
    return int(os.pread(fd, 100, 0).split()[1]) / 1e9


def main():
    periods = []
    fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    print("up", flush=True)
    begin, cpu, queued = time.monotonic(), time.thread_time(), queue_time(fd)
    last, gap = begin, 0.0
    while True:
        now = time.monotonic()
        gap = max(gap, now - last)
        last = now
        if now - begin < PERIOD:
            continue
        cpu_now, queued_now = time.thread_time(), queue_time(fd)
        wait = queued_now - queued
        periods.append([now, gap, now - begin - (cpu_now - cpu) - wait, wait, now - begin])
        if os.path.exists(sys.argv[1]):
            break
        begin, cpu, queued, gap = now, cpu_now, queued_now, 0.0
    print(json.dumps(periods), flush=True)


main()
