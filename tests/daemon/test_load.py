"""How busy hosts are, and what jobs write: seen by a client while a job runs."""
import os

# A rank that computes without an end, and one that writes 100 KB a second.
BUSY = ["sh", "-c", "while :; do :; done"]
TALKS = ["sh", "-c", 'while :; do printf "%01000d\\n" 0; sleep 0.01; done']


def host_of(api):
    (host,) = api.api.ListHosts(api.stubs.launcher.ListHostsRequest(), timeout=api.PATIENCE).hosts
    return host


def host_with(api, is_so):
    """Until the host is so; the limit of the test's time is that of the loop."""
    host = host_of(api)
    while not is_so(host):
        host = host_of(api)
    return host


def test_of_a_host_without_an_agent_nothing_is_known(api):
    host = host_of(api)
    assert not host.HasField("load") and not host.HasField("output_bytes_per_second")
    assert (host.ranks, host.output_bytes) == (0, 0)


def test_a_busy_rank_is_seen(api):
    cpus = os.cpu_count()
    job = api.submit(BUSY, size=2)
    busy = 80 * min(2, cpus) // cpus
    host = host_with(api, lambda host: host.load.cpu_percent >= busy)
    assert host.load.cpu_percent <= 100
    assert 0 < host.load.memory_used_mib < host.memory_mib
    assert host.ranks == 2 and host.HasField("output_bytes_per_second")
    api.kill(job, at_once=True)
    api.wait(job)
    assert host_of(api).ranks == 0


def test_what_ranks_write_is_counted(api):
    job = api.submit(TALKS)
    host = host_with(api, lambda host: host.output_bytes_per_second > 0)
    assert host.output_bytes > 1000
    assert api.get(job).output_bytes_per_second > 0
    api.kill(job, at_once=True)
    assert not api.wait(job).HasField("output_bytes_per_second")
    host_with(api, lambda host: host.output_bytes_per_second == 0)
    assert host_of(api).output_bytes >= len(api.output(job)) > 1000
