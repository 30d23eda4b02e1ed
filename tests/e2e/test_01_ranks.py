"""Where ranks run, what they are told, and by which way agents talk to their launcher."""

import json
import os
import re

import pytest

PRINT_TABLE = (
    "import json,os,socket;e=os.environ;"
    "print(json.dumps({k:e.get(k) for k in "
    "('MUSTER_RANK','MUSTER_SIZE','MUSTER_LOCAL_RANK','MUSTER_LOCAL_SIZE','MUSTER_CROSS_RANK','MUSTER_CROSS_SIZE',"
    "'MUSTER_NODE_RANK','MUSTER_NNODES','RANK','WORLD_SIZE','LOCAL_RANK','LOCAL_WORLD_SIZE','GROUP_RANK',"
    "'HOROVOD_RANK','HOROVOD_CROSS_RANK','HOROVOD_CROSS_SIZE','MASTER_ADDR','MASTER_PORT','GLOO_SOCKET_IFNAME',"
    "'NCCL_SOCKET_IFNAME','HOROVOD_GLOO_IFACE','TP_SOCKET_IFNAME','OMP_NUM_THREADS','MUSTER_JOB_ID','MY_SETTING')}"
    "|{'host':socket.gethostname()}))")
PYTHON = "/usr/bin/python3"


def table(result):
    """The printed tables by rank; every rank exactly once."""
    rows = {}
    for line in result.stdout.splitlines():
        match = re.fullmatch(r"\[(\d+)\]<stdout>:(\{.*\})", line)
        assert match, line
        row = json.loads(match[2])
        assert row["MUSTER_RANK"] == match[1] and match[1] not in rows
        rows[match[1]] = row
    return [rows[str(rank)] for rank in range(len(rows))]


def column(rows, name):
    return [row[name] if name == "host" else int(row[name]) for row in rows]


def run(hvdrun, *args, **options):
    result = hvdrun([*args, PYTHON, "-c", PRINT_TABLE], **options)
    assert result.rc == 0, result
    return result


def test_sixteen_ranks_on_four_hosts(hvdrun, no_leftovers):
    rows = table(run(hvdrun, "-np", "16", "-H", "n1:4,n2:4,n3:4,n4:4"))
    assert len(rows) == 16
    assert column(rows, "host") == [f"n{1 + rank // 4}" for rank in range(16)]
    assert column(rows, "MUSTER_LOCAL_RANK") == [rank % 4 for rank in range(16)]
    assert column(rows, "MUSTER_CROSS_RANK") == [rank // 4 for rank in range(16)]
    assert column(rows, "GROUP_RANK") == [rank // 4 for rank in range(16)]
    for name, value in (("MUSTER_SIZE", 16), ("WORLD_SIZE", 16), ("MUSTER_LOCAL_SIZE", 4), ("MUSTER_CROSS_SIZE", 4),
                        ("MUSTER_NNODES", 4), ("LOCAL_WORLD_SIZE", 4)):
        assert set(column(rows, name)) == {value}, name
    assert len({row["MASTER_PORT"] for row in rows}) == 1


# (arguments, host of each rank, local ranks, local sizes, cross ranks, cross sizes)
SHAPES = [
    (["-np", "6", "-H", "n1:2,n2:3,n3:1"], "n1 n1 n2 n2 n2 n3", [0, 1, 0, 1, 2, 0], [2, 2, 3, 3, 3, 1],
     [0, 0, 1, 1, 0, 2], [3, 2, 3, 2, 1, 3]),
    (["-np", "4", "-H", "n1:2,n2:1,n1:1"], "n1 n1 n1 n2", [0, 1, 2, 0], [3, 3, 3, 1], [0, 0, 0, 1], [2, 1, 1, 2]),
    (["-np", "3", "-H", "n1:4,n2:4"], "n1 n1 n1", [0, 1, 2], [3, 3, 3], [0, 0, 0], [1, 1, 1]),
    (["-N", "2", "-H", "n1,n2,n3"], "n1 n1 n2 n2 n3 n3", [0, 1] * 3, [2] * 6, [0, 0, 1, 1, 2, 2], [3] * 6),
    (["-np", "3", "-N", "2", "-H", "n1,n2"], "n1 n1 n2", [0, 1, 0], [2, 2, 1], [0, 0, 1], [2, 1, 2]),
    (["-np", "2", "-H", "n3"] + ["--oversubscribe"], "n3 n3", [0, 1], [2, 2], [0, 0], [1, 1]),
]


@pytest.mark.parametrize("args,hosts,local,local_size,cross,cross_size", SHAPES, ids=lambda v: None)
def test_shapes(hvdrun, args, hosts, local, local_size, cross, cross_size):
    rows = table(run(hvdrun, *args))
    assert column(rows, "host") == hosts.split()
    assert column(rows, "MUSTER_LOCAL_RANK") == local
    assert column(rows, "MUSTER_LOCAL_SIZE") == local_size
    assert column(rows, "HOROVOD_CROSS_RANK") == cross
    assert column(rows, "HOROVOD_CROSS_SIZE") == cross_size


def test_hostfile(hvdrun, cluster):
    path = cluster.path("head", "/tmp/hosts-file")
    path.write_text("# the lab\n\nn2 slots=2   # two\nn[3-4]:1\n")
    rows = table(run(hvdrun, "--hostfile", "/tmp/hosts-file"))
    path.unlink()
    assert column(rows, "host") == ["n2", "n2", "n3", "n4"]


def test_localhost_needs_no_ssh(hvdrun, cluster, no_leftovers):
    cluster.stop_sshd("head")
    try:
        rows = table(run(hvdrun, "-np", "3"))
    finally:
        cluster.start_sshd("head")
    assert column(rows, "host") == ["head"] * 3
    assert {row["MASTER_ADDR"] for row in rows} == {"127.0.0.1"}


def test_two_names_of_one_host_are_merged(hvdrun):
    result = run(hvdrun, "-np", "3", "-H", "n1:2,n1-v6:1")
    rows = table(result)
    assert column(rows, "MUSTER_LOCAL_RANK") == [0, 1, 2]
    assert "the same host" in result.stderr


def test_nic_is_the_one_that_reaches_the_others(hvdrun, cluster):
    rows = table(run(hvdrun, "-np", "4", "-H", "n1,n2,n3,n4", "-N", "1"))
    for row in rows:
        names = {row[name] for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE",
                                        "TP_SOCKET_IFNAME")}
        assert names == {cluster.state["hosts"][row["host"]]["nic"]}, row
    assert len({row["GLOO_SOCKET_IFNAME"] for row in rows}) > 1  # they do differ from host to host
    assert {row["MASTER_ADDR"] for row in rows} == {cluster.address("n1")}


def test_environment_travels_and_stays_the_users(hvdrun):
    value = "a b  'quoted' \"double\" $HOME `id` \\ ünï\nsecond line"
    rows = table(run(hvdrun, "-np", "2", "-H", "n1,n2", env={"MY_SETTING": value, "GLOO_SOCKET_IFNAME": "mine"}))
    assert {row["MY_SETTING"] for row in rows} == {value}
    assert {row["GLOO_SOCKET_IFNAME"] for row in rows} == {"mine"}
    rows = table(run(hvdrun, "-np", "1", "-H", "n1", "--env-none", "-x", "OTHER=1", env={"MY_SETTING": value}))
    assert rows[0]["MY_SETTING"] is None
    rows = table(run(hvdrun, "-np", "1", "-H", "n1", "--env-none", "-x", "MY_SETTING=given"))
    assert rows[0]["MY_SETTING"] == "given"


def test_agent_is_sent_once(hvdrun, make_cluster):
    fresh = make_cluster(2)
    for host in fresh.nodes:
        fresh.run(host, "alice", ["rm", "-rf", ".cache/muster"], check=True)
    first = run(hvdrun, "-np", "2", "-H", "n1,n2", "--verbose", on=fresh)
    second = run(hvdrun, "-np", "2", "-H", "n1,n2", "--verbose", on=fresh)
    assert first.stderr.count("sent to its cache first") == 2, first
    assert second.stderr.count("found in its cache") == 2, second


def test_agent_is_sent_once_to_a_shared_home(hvdrun, make_cluster):
    shared = make_cluster(4, home="shared")
    result = run(hvdrun, "-np", "4", "-H", "n1,n2,n3,n4", "--verbose", on=shared)
    assert result.stderr.count("sent to its cache first") == 1, result


def test_ipv6_only(hvdrun, cluster, no_leftovers):
    hosts = ",".join(f"[{cluster.address(name, 6)}]:2" for name in ("n1", "n2"))
    rows = table(run(hvdrun, "-np", "4", "-H", hosts))
    assert column(rows, "host") == ["n1", "n1", "n2", "n2"]
    assert {row["MASTER_ADDR"] for row in rows} == {cluster.address("n1", 6)}


def test_every_launcher_port_dropped(hvdrun, cluster, no_leftovers):
    cluster.only_ports("head")
    result = run(hvdrun, "-np", "8", "-H", "n1:2,n2:2,n3:2,n4:2", "--verbose")
    assert len(table(result)) == 8
    assert result.stderr.count("control and output over ssh") == 4, result


@pytest.mark.parametrize("link", ["ssh", "dial"])
def test_agent_link(hvdrun, link):
    result = run(hvdrun, "-np", "2", "-H", "n1,n2", "--agent-link", link, "--verbose")
    wanted = "control and output over ssh" if link == "ssh" else "control and output by connections from the host"
    assert result.stderr.count(wanted) == 2, result


def test_dead_proxy_is_ignored(hvdrun):
    dead = "http://192.0.2.1:9"
    rows = table(run(hvdrun, "-np", "2", "-H", "n1,n2",
                     env={"http_proxy": dead, "https_proxy": dead, "grpc_proxy": dead, "HTTP_PROXY": dead}))
    assert len(rows) == 2


def test_ssh_program_as_backend(hvdrun, no_leftovers):
    result = run(hvdrun, "-np", "2", "-H", "n1,n2", "--ssh-backend", "ssh", "--verbose")
    assert result.stderr.count("agent started by ssh") == 2, result


def test_cores_are_shared(hvdrun):
    script = "import os;print(sorted(os.sched_getaffinity(0)),os.environ['OMP_NUM_THREADS'])"
    cores = len(os.sched_getaffinity(0))
    result = hvdrun(["-np", "2", "-H", "n1:2", PYTHON, "-c", script])
    assert result.rc == 0, result
    shares = [eval(line.split(":", 1)[1].rsplit(" ", 1)[0]) for line in result.stdout.splitlines()]
    if cores >= 2:
        assert not set(shares[0]) & set(shares[1]), result
    crowded = hvdrun(["-np", str(cores + 1), "-H", f"n1:{cores + 1}", PYTHON, "-c", script])
    assert crowded.rc == 0, crowded
    assert all(line.endswith(f"{sorted(os.sched_getaffinity(0))} 1") for line in crowded.stdout.splitlines()), crowded


def test_network_that_the_user_names(hvdrun, cluster, no_leftovers):
    """The NIC names differ from host to host: a network names them all."""
    show = ["sh", "-c", "echo $RANK $GLOO_SOCKET_IFNAME $HOROVOD_GLOO_IFACE $MASTER_ADDR"]
    prefix = cluster.address("n1").rsplit(".", 1)[0]
    usual = hvdrun(["-np", "4", "-H", "n1,n2,n3,n4", *show])
    named = hvdrun(["-np", "4", "-H", "n1,n2,n3,n4", "--network", f"{prefix}.0/24", *show])
    assert usual.rc == named.rc == 0, named
    assert sorted(usual.stdout.splitlines()) == sorted(named.stdout.splitlines())
    over_v6 = hvdrun(["-np", "2", "-H", "n1,n2", "--network", "fd00::/8", *show])
    assert over_v6.rc == 0 and over_v6.stdout.count(cluster.address("n1", 6)) == 2, over_v6


def test_network_that_a_host_has_not(hvdrun, cluster, no_leftovers):
    result = hvdrun(["-np", "4", "-H", "n1,n2,n3,n4", "--network", "198.18.0.0/15", "true"])
    assert result.rc == 125, result
    for host in cluster.nodes:
        assert f"{host}: no network interface of the host matches --network 198.18.0.0/15; it has " in result.stderr, result
