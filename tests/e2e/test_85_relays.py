"""With more hosts than --fanout some agents are relays for others. What is true of a job then, and when relays fail."""

import os
import re
import signal

import pytest
from cluster import testing
from console import Watched
from launcherd_user import Launcherd

HOSTS = 6
ALL = ",".join(f"n{i}:2" for i in range(1, HOSTS + 1))
FANOUT = ["--fanout", "2"]  # of six hosts n1 and n4 are relays: for n2 and n3, and for n5 and n6
LINES = 300
COUNTS = f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); sleep 0.02; done"


@pytest.fixture
def hosts(make_cluster):
    return make_cluster(HOSTS)


def check_lines(text, ranks):
    lines = {rank: [] for rank in ranks}
    for rank, line in re.findall(r"^\[(\d+)\]<stdout>:(.*)$", text, re.M):
        lines[int(rank)].append(line)
    expected = [f"line {i}" for i in range(LINES)]
    for rank, got in lines.items():
        assert got == expected, (rank, len(got), got[-3:])


def parents(text):
    return dict(re.findall(r"(n\d+): connects through (n\d+)", text))


def agents(hosts, name):
    """The pids of alice's agents there. Wardens and nurseries are forks of theirs, with names of their own."""
    return [process.pid for process in hosts.processes(name)
            if "--stdio" in process.argv and not process.comm.startswith("muster-")]


class TestOfHvdrun:
    def test_output_exit_codes_and_input_pass_relays(self, hvdrun, hosts, no_leftovers):
        result = hvdrun([*FANOUT, "--verbose", "-np", "12", "-H", ALL, "sh", "-c", COUNTS], on=hosts)
        assert result.rc == 0, result
        assert parents(result.stderr) == {"n2": "n1", "n3": "n1", "n5": "n4", "n6": "n4"}, result
        check_lines(result.stdout, range(12))
        result = hvdrun([*FANOUT, "-np", "12", "-H", ALL, "sh", "-c", "[ $MUSTER_RANK != 5 ] || exit 7; sleep 60"], on=hosts)
        assert result.rc == 7, result
        assert "exit code 7 is that of rank 5 on n3" in result.stderr, result

    def test_a_few_hosts_need_no_relay(self, hvdrun, hosts, no_leftovers):
        result = hvdrun(["--verbose", "-np", "12", "-H", ALL, "true"], on=hosts)
        assert result.rc == 0 and parents(result.stderr) == {}, result

    def test_ctrl_c_ends_all(self, hvdrun, hosts, no_leftovers):
        job = Watched(hvdrun, hosts, [*FANOUT, "-np", "12", "-H", ALL, "sh", "-c", "echo up; sleep 1000"])
        job.out.wait_for("up", count=12)
        job.signal(signal.SIGINT)
        assert job.end().rc == 130

    def test_kill_of_hvdrun_leaves_nothing(self, hvdrun, hosts, no_leftovers):
        job = Watched(hvdrun, hosts, [*FANOUT, "-np", "12", "-H", ALL, "sh", "-c", "echo up; sleep 1000"])
        job.out.wait_for("up", count=12)
        job.signal(signal.SIGKILL)
        job.end()

    def test_the_host_of_a_killed_relay_is_named_and_no_other(self, hvdrun, hosts, no_leftovers):
        job = Watched(hvdrun, hosts, [*FANOUT, "-np", "12", "-H", ALL, "sh", "-c", "echo up; sleep 1000"])
        job.out.wait_for("up", count=12)
        (relay,) = agents(hosts, "n4")
        os.kill(relay, signal.SIGKILL)
        result = job.end()
        assert result.rc == 125, result
        assert re.search(r"\bn4\b", result.stderr), result
        assert not re.search(r"\bn[1256]: .*(lost|ended|gone)", result.stderr), result

    def test_a_host_that_is_cut_from_its_relay_only_goes_on(self, hvdrun, hosts, no_leftovers):
        job = Watched(hvdrun, hosts, [*FANOUT, "-np", "12", "-H", ALL, "sh", "-c", COUNTS])
        job.out.wait_for("line 10\n", count=12)
        relay = hosts.address("n4")
        hosts.drop("n5", packets=f"ip saddr {relay}", direction="in")
        hosts.drop("n5", packets=f"ip daddr {relay}", direction="out")
        result = job.end()
        assert result.rc == 0, result
        check_lines(result.stdout, range(12))

    def test_a_stopped_relay_holds_nobody_back(self, hvdrun, hosts, no_leftovers):
        job = Watched(hvdrun, hosts, [*FANOUT, "-np", "12", "-H", ALL, "sh", "-c", COUNTS])
        job.out.wait_for("line 10\n", count=12)
        (relay,) = agents(hosts, "n4")
        os.kill(relay, signal.SIGSTOP)
        try:
            job.out.wait_for(f"line {LINES - 1}\n", count=10)  # those of n4 itself wait
        finally:
            os.kill(relay, signal.SIGCONT)
        result = job.end()
        assert result.rc == 0, result
        check_lines(result.stdout, range(12))

    def test_a_full_disk_on_a_relay_stops_no_child(self, hvdrun, hosts, no_leftovers):
        hosts.run("n4", "root", ["sh", "-c", "mount -t tmpfs -o size=4m,mode=1777 small /tmp"], check=True)
        fill = ["sh", "-c", "head -c 8m /dev/zero > /tmp/full || true"]
        try:
            job = Watched(hvdrun, hosts, [*FANOUT, "-np", "12", "-H", ALL, "sh", "-c", COUNTS])
            job.out.wait_for("line 10\n", count=12)
            hosts.run("n4", "root", fill, check=True)
            result = job.end()
            assert result.rc == 0, result
            check_lines(result.stdout, range(12))
        finally:
            hosts.run("n4", "root", ["umount", "/tmp"], check=True)

    def test_a_relay_that_does_not_start_is_replaced(self, hvdrun, hosts, no_leftovers):
        result = hvdrun([*FANOUT, "--verbose", "--start-timeout", "20", "-np", "4", "--spares", "n4:2", "-H",
                         "nosuchhost:2,n1:2,n2:2,n3:2,n5:2,n6:2", "true"], on=hosts)
        assert "nosuchhost" in result.stderr, result


class TestOfLauncherd:
    @pytest.fixture
    def launcherd(self, hvdrun, hosts, no_leftovers):
        daemon = Launcherd(hvdrun, hosts, "--verbose", *FANOUT, hosts=ALL)
        daemon.asked("wait", daemon.submit("-np", "12", "true"))  # an agent on each host
        yield daemon
        daemon.close()

    def children(self, launcherd):
        found = parents(launcherd.watched.err.text)
        assert len(found) == 4, launcherd.watched.err.text
        return found

    def begin(self, launcherd, names):
        """Starts a job with two ranks on each of these hosts. Returns it and its output once each rank has written."""
        ranks = 2 * len(names)
        job = launcherd.submit("-np", str(ranks), "-H", ",".join(f"{name}:2" for name in names), "sh", "-c", COUNTS)
        watched = launcherd.watch("logs", "-f", job)
        watched.out.wait_for("line 10\n", count=ranks)
        return job, watched

    def check_end(self, launcherd, job, watched, ranks):
        assert launcherd.asked("wait", job) == ""
        check_lines(launcherd.asked("logs", job), range(ranks))
        watched.end()

    @pytest.mark.parametrize("at_once", [1, 2])
    def test_jobs_below_a_killed_relay_go_on(self, launcherd, hosts, at_once):
        found = self.children(launcherd)
        relays = sorted(set(found.values()))[:at_once]
        below = sorted(child for child, relay in found.items() if relay in relays)
        job, watched = self.begin(launcherd, below)
        for relay in relays:
            for pid in agents(hosts, relay):
                os.kill(pid, signal.SIGKILL)
        self.check_end(launcherd, job, watched, 2 * len(below))

    def test_a_relay_that_is_cut_off_holds_nobody_back(self, launcherd, hosts):
        relay = self.children(launcherd)["n5"]
        job, watched = self.begin(launcherd, ["n5", "n6"])
        hosts.cut(relay, "drop")
        self.check_end(launcherd, job, watched, 4)
        hosts.heal(relay)
        launcherd.wait_for_agents()

    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
    def test_jobs_outlive_launcherd(self, launcherd, hosts, how):
        job = launcherd.submit("-np", "12", "sh", "-c", COUNTS)
        watched = launcherd.watch("logs", "-f", job)
        watched.out.wait_for("line 10\n", count=12)
        launcherd.watched.signal(how)
        launcherd.watched.end()
        launcherd.come_back()
        launcherd.wait_for_agents()
        assert launcherd.asked("wait", job) == ""
        check_lines(launcherd.asked("logs", job), range(12))
        watched.end()

    def test_launcherd_and_a_relay_die_together(self, launcherd, hosts):
        relay = self.children(launcherd)["n5"]
        job, watched = self.begin(launcherd, ["n5", "n6"])
        for pid in agents(hosts, relay):
            os.kill(pid, signal.SIGKILL)
        launcherd.die()
        launcherd.come_back()
        self.check_end(launcherd, job, watched, 4)

    def test_kill_of_a_job_reaches_all(self, launcherd, hosts):
        job = launcherd.submit("-np", "12", "sh", "-c", "echo up; sleep 1000")
        watched = launcherd.watch("logs", "-f", job)
        watched.out.wait_for("up", count=12)
        launcherd.asked("kill", job)
        launcherd.asked("wait", job, code=143)
        watched.end()
        assert testing.strays(hosts, job) == []


class TestOf64Hosts:
    def test_each_rank_runs_and_its_lines_arrive(self, hvdrun, make_cluster, no_leftovers):
        hosts = make_cluster(64)
        listed = ",".join(f"n{i}" for i in range(1, 65))
        result = hvdrun(["--fanout", "16", "--verbose", "--start-timeout", "120", "-np", "64", "-H", listed, "sh", "-c",
                         "echo $MUSTER_RANK on $(hostname); exit 0"], on=hosts, timeout=240)
        assert result.rc == 0, result
        found = parents(result.stderr)
        assert len(found) == 56 and len(set(found.values())) == 8, found
        lines = re.findall(r"^\[(\d+)\]<stdout>:(\d+) on n(\d+)$", result.stdout, re.M)
        assert sorted(map(int, (rank for rank, _, _ in lines))) == list(range(64))
        assert all(int(rank) == int(said) == int(host) - 1 for rank, said, host in lines)
