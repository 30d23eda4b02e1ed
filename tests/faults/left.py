"""What faults have left on test hosts, beyond what was there before: processes, session folders, shared memory."""

from cluster import testing


class Left:
    """Taken before a test. look() is what is there now and was not; settle() waits until that is nothing."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._leftovers = testing.Leftovers(cluster)
        self._memory = set(self._segments())

    def _segments(self):
        for host in self._cluster.hosts:
            if self._cluster.running(host):
                for entry in self._cluster.path(host, "/dev/shm").glob("muster-*"):
                    yield host, f"/dev/shm/{entry.name}"

    def look(self):
        """One line for each thing."""
        lines = [f"{host}: {testing.inside(process)}" for host, process in self._leftovers.processes()]
        lines += [f"{host}: {path}" for host, path in self._leftovers.folders()]
        return lines + [f"{host}: {path}" for host, path in self._segments() if (host, path) not in self._memory]

    def settle(self, seconds):
        """What is left after so many seconds at most."""
        testing.eventually(lambda: not self.look(), seconds)
        return self.look()
