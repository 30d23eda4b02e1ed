"""Reports failed ranks of an elastic job to libmuster.

The launcher knows that a host is lost when the host's lease ends. Without this report, the operations of the other ranks
wait until the kernel gives up the connections to the silent host, 30 s after its last answer.

    watch = FailureWatch(source, numbers, report)
    watch.stop()  # before the world is left
"""

import threading

_LOOK_SECONDS = 0.5  # the host's own agent answers


class FailureWatch:
    """Asks `source` for the failed ranks of the world of `numbers`, in a thread of its own, until stop().

    report(rank, cause) is called once for each failed rank, never after stop() has returned."""

    def __init__(self, source, numbers, report):
        self._source = source
        self._numbers = numbers
        self._report = report
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="muster failures", daemon=True).start()

    def stop(self):
        """Ends the watch. Does not wait for the thread, which may wait for an answer."""
        self._stopped.set()
        with self._lock:
            pass  # a report that has begun ends first

    def _run(self):
        reported = set()
        while not self._stopped.wait(_LOOK_SECONDS):
            try:
                failed = self._source.failed_ranks(self._numbers)
            except ConnectionError:
                continue  # the agent is busy, or ends with this process
            with self._lock:
                if self._stopped.is_set():
                    return
                for rank in failed.keys() - reported:
                    self._report(rank, failed[rank])
            reported |= failed.keys()
