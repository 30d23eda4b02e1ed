"""muster doctor and hvdrun --dry-run --probe: what is wrong with hosts, each in its row with the fix, and nothing is left."""

import contextlib
import json
import os
import re

import pytest
from conftest import BIN_DIR
from console import PYTHON, Watched

HOME = "/home/alice"
CHECKS = ["name", "ssh", "back-connection", "link", "clock", "limit NOFILE", "limit MEMLOCK", "limit NPROC", "threads", "disk",
          "home", "/dev/shm", "kernel", "containment", "logind", "cores", "gpus", "nics", "python", "torch"]


@pytest.fixture
def doctor(hvdrun):
    """doctor("-H", "n1") -> Result"""
    return lambda *args, **options: hvdrun([], argv=["muster", "doctor", *args], **options)


def examined(result):
    """{host: {check: (state, seen, advice)}} of a --json run"""
    hosts = [json.loads(line) for line in result.stdout.splitlines()]
    return {host["host"]: {check["name"]: (check["state"].removeprefix("CHECK_STATE_"), check["seen"], check["advice"])
                           for check in host["checks"]} for host in hosts}


@contextlib.contextmanager
def replaced(cluster, host, path, text, mode=0o600):
    """A file of alice's with this text (None: not there), and afterwards as it was."""
    def write(content):
        file = cluster.path(host, path)
        if content is None:
            file.unlink(missing_ok=True)
            return
        file.write_bytes(content)
        os.chown(file, cluster.uid("alice"), cluster.uid("alice"))
        file.chmod(mode)

    file = cluster.path(host, path)
    before = file.read_bytes() if file.exists() else None
    write(None if text is None else text.encode())
    try:
        yield
    finally:
        write(before)


def test_all_is_well(doctor, no_leftovers):
    result = doctor("-H", "n1,n2:4,n1:2")
    assert result.rc == 0, result
    assert result.stdout.startswith("n1\n") and "\nn2\n" in result.stdout, result
    assert result.stdout.count("\n  name ") == 2, result
    for check in CHECKS:
        assert len(re.findall(rf"^  {re.escape(check)} +(ok|warn) +\S", result.stdout, re.M)) == 2, (check, result)
    assert re.search(r"^  peers +ok    reaches n1 at 10\.", result.stdout, re.M), result
    assert "hosts differ" not in result.stdout, result
    assert re.search(r"^2 hosts: \d ok", result.stdout, re.M), result


def test_json_says_the_same(doctor, no_leftovers):
    result = doctor("-H", "n1,n2", "--json")
    assert result.rc == 0, result
    hosts = examined(result)
    assert list(hosts) == ["n1", "n2"]
    assert [name for name in hosts["n1"] if name != "limit pids"] == CHECKS
    assert "peers" in hosts["n2"]
    for checks in hosts.values():
        assert all(bool(advice) == (state != "OK") for state, _, advice in checks.values()), checks
        assert checks["link"][1].startswith("dial: ")
        assert re.fullmatch(r"3\.\d+\.\d+, /usr/bin/python3", checks["python"][1]), checks["python"]
        assert re.match(r"1\.13|not installed", checks["torch"][1]), checks["torch"]


def test_this_host_when_none_is_named(doctor, no_leftovers):
    result = doctor()
    assert result.rc == 0 and result.stdout.startswith("localhost\n"), result
    assert "not needed for this host" in result.stdout and "1 host: " in result.stdout, result


def test_hosts_of_a_schedulers_job(doctor, no_leftovers):
    result = doctor("--json", env={"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)"})
    assert result.rc == 0 and list(examined(result)) == ["n1", "n2"], result


def test_each_class_of_failure_beside_hosts_that_answer(doctor, cluster, no_leftovers):
    known = cluster.path("head", f"{HOME}/.ssh/known_hosts").read_text()
    key_of = {line.split()[0].split(",")[0]: line.split()[1:] for line in known.splitlines()}
    changed = "\n".join(f"{line.split()[0]} {' '.join(key_of['n1'])}" if re.match(r"n3\b", line) else line
                        for line in known.splitlines()) + "\n"
    cluster.stop_sshd("n1")
    try:
        with replaced(cluster, "n2", f"{HOME}/.ssh/authorized_keys", None), \
                replaced(cluster, "head", f"{HOME}/.ssh/known_hosts", changed):
            result = doctor("-H", "nosuch,n1,n2,n3,n4", "--json")
            table = doctor("-H", "nosuch,n1,n2,n3,n4")
    finally:
        cluster.start_sshd("n1")
    assert result.rc == table.rc == 1, result
    hosts = examined(result)
    assert list(hosts) == ["nosuch", "n1", "n2", "n3", "n4"]
    state, seen, advice = hosts["nosuch"]["name"]
    assert state == "FAIL" and "cannot resolve" in seen and "/etc/hosts" in advice
    assert "ssh" not in hosts["nosuch"]
    for host, begins, fix in (("n1", "connection refused: ", "start sshd"), ("n2", "log-in refused: ", "ssh-copy-id"),
                              ("n3", "host key changed: ", "ssh-keygen -R 'n3'")):
        state, seen, advice = hosts[host]["ssh"]
        assert state == "FAIL" and seen.startswith(begins) and fix in advice, hosts[host]
        assert "kernel" not in hosts[host]
    assert hosts["n4"]["ssh"][0] == "OK" and "peers" not in hosts["n4"]
    assert re.search(r"^  ssh +FAIL  log-in refused: .*\n +-> install your key there", table.stdout, re.M), table
    assert "5 hosts: " in table.stdout and "4 with failures (nosuch,n[1-3])" in table.stdout, table


def test_a_host_that_does_not_answer(doctor, cluster, no_leftovers):
    cluster.cut("n2", "drop")
    result = doctor("-H", "n1,n2", "--start-timeout", "5", "--json")
    hosts = examined(result)
    assert result.rc == 1, result
    state, seen, advice = hosts["n2"]["ssh"]
    assert state == "FAIL" and seen.startswith("no answer: ") and "--start-timeout" in advice
    assert hosts["n1"]["ssh"][0] == "OK"


def test_nothing_can_be_asked(doctor, no_leftovers):
    result = doctor("-H", "nosuch,nobody")
    assert result.rc == 125 and result.stdout.count("FAIL  cannot resolve the name") == 2, result


def test_a_firewall_before_the_launcher(doctor, cluster, no_leftovers):
    cluster.only_ports("head", [22])
    result = doctor("-H", "n1,n2", "--json")
    assert result.rc == 0, result
    for checks in examined(result).values():
        assert checks["back-connection"][0] == "WARN" and "firewall" in checks["back-connection"][2]
        assert checks["link"] == ("OK", "ssh: through ssh, because the connection back fails", "")
    strict = doctor("-H", "n1,n2", "--agent-link", "dial", "--json")
    assert strict.rc == 1, strict
    assert all(checks["link"][0] == checks["back-connection"][0] == "FAIL" for checks in examined(strict).values())


def test_a_link_that_was_asked_for(doctor, no_leftovers):
    checks = examined(doctor("-H", "n1", "--agent-link", "ssh", "--json"))["n1"]
    assert checks["back-connection"] == ("OK", "not tried (--agent-link ssh)", "")
    assert checks["link"][1] == "ssh: through ssh, as asked"


def test_a_firewall_between_the_hosts(doctor, cluster, no_leftovers):
    cluster.only_ports("n1", [22])
    result = doctor("-H", "n1,n2,n3", "--json")
    assert result.rc == 1, result
    hosts = examined(result)
    assert "peers" not in hosts["n1"]
    for host in ("n2", "n3"):
        state, seen, advice = hosts[host]["peers"]
        assert state == "FAIL" and seen.startswith("cannot reach n1 at 10.") and "firewall" in advice


def test_a_low_limit_and_another_python(doctor, cluster, no_leftovers):
    cluster.path("n2", "/tmp/bin").mkdir(mode=0o755)
    cluster.path("n2", "/tmp/bin/python3").write_text(
        "#!/bin/sh\necho hello; echo MUSTER-PYTHON 3.6.8 /tmp/bin/python3; echo MUSTER-TORCH 0.4.1\n")
    cluster.path("n2", "/tmp/bin/python3").chmod(0o755)
    try:
        with replaced(cluster, "n2", f"{HOME}/.bashrc", "echo welcome; ulimit -n 512\n", mode=0o644):
            args = ["-H", "n1,n2", "-x", "PATH=/tmp/bin:/usr/bin:/bin"]
            table = doctor(*args)
            hosts = examined(doctor(*args, "--json"))
    finally:
        cluster.run("n2", "root", ["rm", "-r", "/tmp/bin"], check=True)
    assert table.rc == 0, table
    assert hosts["n2"]["limit NOFILE"][:2] == ("WARN", "512, low for sockets and files of a rank")
    assert "limits.conf" in hosts["n2"]["limit NOFILE"][2]
    assert hosts["n1"]["limit NOFILE"][0] == "OK"
    assert hosts["n2"]["python"][1] == "3.6.8, /tmp/bin/python3"
    differ = table.stdout.split("hosts differ\n")[1]
    assert re.search(r"^  python +warn  3\.\d+\.\d+ on n1; 3\.6\.8 on n2$", differ, re.M), table
    assert re.search(r"^  torch +warn  .* on n1; 0\.4\.1 on n2$", differ, re.M), table


def test_pythons_that_do_not_answer(doctor, cluster, no_leftovers):
    cluster.path("n1", "/tmp/bin").mkdir(mode=0o755)
    cluster.path("n1", "/tmp/bin/python3").write_text("#!/bin/sh\nprintf '\\033[2J\\007%s\\n' broken >&2\nexit 3\n")
    cluster.path("n1", "/tmp/bin/python3").chmod(0o755)
    try:
        hosts = examined(doctor("-H", "n1,n2", "-x", "PATH=/tmp/bin", "--json"))
    finally:
        cluster.run("n1", "root", ["rm", "-r", "/tmp/bin"], check=True)
    state, seen, _ = hosts["n1"]["python"]
    assert state == "WARN" and seen.startswith("python3 ended with exit status 3") and "broken" in seen
    assert "\x1b" not in seen and "\x07" not in seen
    assert hosts["n2"]["python"][0] == "WARN" and "not found in PATH" in hosts["n2"]["python"][1]


def test_no_room_for_a_session(doctor, cluster, no_leftovers):
    cluster.run("n2", "root", ["mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "tmpfs", "/var/tmp"], check=True)
    try:
        cluster.run("n2", "root", ["sh", "-c", "head -c 60k /dev/zero > /var/tmp/full"], check=True)
        hosts = examined(doctor("-H", "n1,n2", "--json", env={"MUSTER_TMPDIR": "/var/tmp"}))
        cluster.run("n2", "root", ["mount", "-o", "remount,ro", "/var/tmp"], check=True)
        result = doctor("-H", "n1,n2", "--json", env={"MUSTER_TMPDIR": "/var/tmp"})
    finally:
        cluster.run("n2", "root", ["umount", "/var/tmp"], check=True)
    assert hosts["n2"]["disk"][0] == "FAIL" and "MUSTER_TMPDIR" in hosts["n2"]["disk"][2], hosts
    assert hosts["n1"]["disk"][0] == "OK"
    read_only = examined(result)["n2"]
    assert result.rc == 1 and "read-only" in read_only["disk"][1], read_only
    assert read_only["containment"][0] == "FAIL" and "ead-only" in read_only["containment"][1], read_only


def test_containment_is_the_one_of_a_job(doctor, make_cluster):
    delegated = make_cluster(3, delegate=True)
    level = examined(doctor("-H", "n1", "--json", on=delegated))["n1"]["containment"]
    assert level[1].split()[0] in ("cgroup", "subreaper")  # without cgroup version 2 there is nothing to delegate
    asked = examined(doctor("-H", "n1", "--contain", "subreaper", "--json", on=delegated))["n1"]["containment"]
    assert asked[1].split()[0] == "subreaper"


def test_usage(doctor):
    for args, words in ((["n1"], "hosts are named by -H"), (["--jsn"], "did you mean --json"),
                        (["--hostfile", "/nonexistent"], "/nonexistent")):
        result = doctor(*args)
        assert result.rc == 2 and words in result.stderr and not result.stdout, result
    assert doctor("--help").stdout.startswith("Usage: muster doctor")


def test_dry_run_asks_the_hosts(hvdrun, cluster, no_leftovers):
    cpus = sorted(os.sched_getaffinity(0))
    result = hvdrun(["-np", "3", "-H", "n1:1,n2:2", "--dry-run", "--probe", "--bind-to", "none", "--json", "true"])
    assert result.rc == 0, result
    hosts = json.loads(result.stdout)["hosts"]
    assert [rank["cpus"] for host in hosts for rank in host["ranks"]] == [[], [], []]
    result = hvdrun(["-np", "2", "-H", "n1:1,n2:1", "--dry-run", "--probe", "--json"])
    assert result.rc == 0, result
    for host in json.loads(result.stdout)["hosts"]:
        (rank,) = host["ranks"]
        assert sorted(rank["cpus"]) == cpus  # the only rank has the whole host
    # A host whose log-in has one core says so.
    with replaced(cluster, "n2", f"{HOME}/.bashrc", f"taskset -cp {cpus[-1]} $$ >/dev/null\n", mode=0o644):
        result = hvdrun(["-np", "2", "-H", "n1:1,n2:1", "--dry-run", "--probe", "--json"])
    assert result.rc == 0, result
    assert json.loads(result.stdout)["hosts"][1]["ranks"][0]["cpus"] == [cpus[-1]]


def test_dry_run_with_a_host_that_cannot_be_asked(hvdrun, no_leftovers):
    result = hvdrun(["-H", "n1,nosuch", "--dry-run", "--probe"])
    assert result.rc == 125 and not result.stdout, result
    assert "hvdrun: host nosuch: cannot resolve the name" in result.stderr, result
    result = hvdrun(["-H", "n1", "--dry-run", "--probe", "--assume-node", "1x1"])
    assert result.rc == 2 and "exclude each other" in result.stderr, result


def test_nobody_reads_the_table(hvdrun, no_leftovers):
    result = hvdrun([], argv=["bash", "-c", "muster doctor -H n1,n2,n3,n4 --json | head -c 1; echo \" ${PIPESTATUS[0]}\""])
    assert result.stdout in ("{ 0\n", "{ 141\n") and not result.stderr, result


def test_progress_on_a_terminal(hvdrun, cluster, no_leftovers):
    cluster.stop_sshd("n2")
    try:
        job = Watched(hvdrun, cluster, [], terminal=True, argv=["muster", "doctor", "-H", "n1,n2"])
        result = job.end()
    finally:
        cluster.start_sshd("n2")
    assert result.rc == 1 and "hosts have answered; waiting for " in result.stdout, result
    assert re.search(r"2 hosts: .*1 with failures \(n2\)\r\n\Z", result.stdout), result


# 2 MiB, in pieces that the kernel takes where a process may have a large stack.
LONG = ("import os, sys; os.execve(sys.argv[1], sys.argv[1:], {**os.environ, **{f'LONG_{i}': 'x' * 100_000 for i in range(21)}})")


def with_long_environment(cluster, *argv):
    return cluster.run("head", "alice", ["sh", "-c", 'ulimit -s 65536; exec "$@"', "sh", PYTHON, "-c", LONG, *argv], timeout=60)


def test_an_environment_that_is_too_long_is_said(cluster, no_leftovers):
    result = with_long_environment(cluster, str(BIN_DIR / "muster"), "doctor", "-H", "n1,n2")
    assert result.returncode == 125, result
    assert len(re.findall(r"  ssh +FAIL +cannot send this command's environment to the agent: a message of \d+ bytes is "
                          r"longer than the limit of 1048576\n +-> leave it out with --env-none", result.stdout)) == 2, result
    result = with_long_environment(cluster, str(BIN_DIR / "muster"), "doctor", "--env-none", "-H", "n1")
    assert result.returncode == 0 and re.search(r"^1 host: ", result.stdout, re.M), result


def test_an_environment_of_some_length_goes(cluster, doctor, no_leftovers):
    """More than a socket holds."""
    result = cluster.run("head", "alice", [PYTHON, "-c", LONG.replace("21", "8"), str(BIN_DIR / "muster"), "doctor", "-H", "n1"],
                         timeout=60)
    assert result.returncode == 0 and re.search(r"^1 host: ", result.stdout, re.M), result
