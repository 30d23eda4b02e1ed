"""MXNet's parameter server: programs that print what they were told, how such jobs end, and MXNet itself."""

import re

import pytest
from conftest import BIN_DIR
from launcherd_user import MUSTER, Launcherd

PYTHON = "/usr/bin/python3"
SHOW = "env | grep ^DMLC_ | sort | tr '\\n' ' '; echo on $MUSTER_HOSTNAME"
# Ends as ps-lite's processes do: servers and scheduler when the workers are through.
WORKERS_ONLY = "case $DMLC_ROLE in worker) {worker};; *) trap 'exit 0' TERM; while :; do sleep 0.1; done;; esac"


def by_rank(result):
    return dict(re.findall(r"^\[(\d+)\]<stdout>:(.*)$", result.stdout, re.M))


def expected(role, task, host, port, address, workers=2, servers=2):
    return (f"DMLC_INTERFACE={{nic}} DMLC_NODE_HOST={address[host]} DMLC_NUM_ATTEMPT=0 DMLC_NUM_SERVER={servers} "
            f"DMLC_NUM_WORKER={workers} DMLC_PS_ROOT_PORT={port} DMLC_PS_ROOT_URI={address['n1']} DMLC_ROLE={role} "
            f"DMLC_TASK_ID={task} on {host}")


def check(result, cluster, hosts):
    said = by_rank(result)
    address = {name: said[rank].split("DMLC_NODE_HOST=")[1].split()[0]
               for rank, name in ((str(i), said[str(i)].split()[-1]) for i in range(5))}
    assert len(set(address.values())) == len(address)
    port = int(re.search(r"DMLC_PS_ROOT_PORT=(\d+)", said["0"])[1])
    roles = [("scheduler", 0), ("server", 0), ("server", 1), ("worker", 0), ("worker", 1)]
    for rank, ((role, task), host) in enumerate(zip(roles, hosts)):
        line = said[str(rank)]
        nic = re.search(r"DMLC_INTERFACE=(\S+)", line)[1]
        assert line == expected(role, task, host, port, address).format(nic=nic), result


def test_roles_are_told_exactly(hvdrun, cluster, no_leftovers):
    result = hvdrun(["--runtime", "mxnet", "--num-workers", "2", "--num-servers", "2", "-H", "n1,n2", "sh", "-c", SHOW],
                    env={"DMLC_ROLE": "worker", "DMLC_PS_ROOT_PORT": "1"})
    assert result.rc == 0, result
    check(result, cluster, ["n1", "n1", "n2", "n1", "n2"])


def test_launch_py_lines(hvdrun, cluster, no_leftovers):
    cluster.run("head", "alice", ["sh", "-c", "printf 'n1\\nn2 slots=4\\n' > hosts"], check=True)
    try:
        line = [MUSTER, "dmlc", "python", "launch.py", "-n", "2", "-s", "2", "-H", "hosts", "--launcher", "ssh",
                "--env-server", "SIDE:server", "--env-worker", "SIDE:worker", SHOW + "; echo side $SIDE >&2"]
        result = hvdrun.finish(hvdrun.start([], argv=line))
        assert result.rc == 0, result
        check(result, cluster, ["n1", "n1", "n2", "n1", "n2"])
        assert sorted(re.findall(r"\[(\d)\]<stderr>:side ?(.*)", result.stderr)) == [
            ("0", ""), ("1", "server"), ("2", "server"), ("3", "worker"), ("4", "worker")]
    finally:
        cluster.run("head", "alice", ["rm", "-f", "hosts"], check=True)


def mxnet_line(worker, *more):
    return ["--runtime", "mxnet", "--num-workers", "2", "--num-servers", "1", "-H", "n1,n2", *more, "sh", "-c",
            WORKERS_ONLY.format(worker=worker)]


def test_servers_end_with_the_workers(hvdrun, no_leftovers):
    result = hvdrun(mxnet_line("exit 0"))
    assert result.rc == 0, result


def test_a_worker_that_fails_ends_the_job(hvdrun, no_leftovers):
    result = hvdrun(mxnet_line("[ $DMLC_TASK_ID = 1 ] && exit 9; exec sleep 1000"))
    assert result.rc == 9 and result.elapsed < 30, result
    assert re.search("exit code 9 is that of rank 3 on n[12]", result.stderr), result
    assert re.search(r"rank 3 \(worker\) on n[12] \(pid", result.stderr), result


def test_a_server_that_dies_ends_the_job(hvdrun, no_leftovers):
    result = hvdrun(["--runtime", "mxnet", "--num-workers", "2", "--num-servers", "1", "-H", "n1,n2", "sh", "-c",
                     "[ $DMLC_ROLE = server ] && kill -9 $$; exec sleep 1000"])
    assert result.rc == 137 and "rank 1 on n1" in result.stderr, result


def test_what_a_server_does_afterwards_is_told_and_no_failure(hvdrun, no_leftovers):
    result = hvdrun(["--runtime", "mxnet", "--num-workers", "1", "--num-servers", "1", "-H", "n1", "sh", "-c",
                     "case $DMLC_ROLE in worker) : > done;; *) while [ ! -e done ]; do sleep 0.1; done; sleep 1; exit 5;;"
                     " esac"])
    assert result.rc == 0, result
    assert "rank 1 on n1 ended with exit code 5 when all others had ended well" in result.stderr, result


def test_launcherd_serves_it(hvdrun, cluster, no_leftovers):
    launcherd = Launcherd(hvdrun, cluster)
    try:
        job = launcherd.submit("--runtime", "mxnet", "--num-workers", "2", "--num-servers", "2", "-H", "n1:4,n2:4",
                               "--oversubscribe", "sh", "-c", SHOW)
        assert launcherd.asked("wait", job) == ""
        said = launcherd.asked("logs", job)
        for part in ("DMLC_ROLE=scheduler DMLC_TASK_ID=0 on n1", "DMLC_ROLE=server DMLC_TASK_ID=1 on n2",
                     "DMLC_ROLE=worker DMLC_TASK_ID=1 on n2"):
            assert part in said, said
        assert [role["name"] for role in launcherd.job(job)["roles"]] == ["scheduler", "server", "worker"]
    finally:
        launcherd.close()


MXNET = BIN_DIR.parent / "peers/mxnet/bin/python"
KVSTORE = """
import mxnet as mx
store = mx.kv.create("dist_sync")
store.init("weight", mx.nd.zeros((4, 5)))
for step in range(3):
    store.push("weight", mx.nd.ones((4, 5)) * (store.rank + 1))
    value = mx.nd.zeros((4, 5))
    store.pull("weight", out=value)
    value.wait_to_read()
print("rank", store.rank, "of", store.num_workers, "has", value.asnumpy().min(), value.asnumpy().max(), flush=True)
"""


@pytest.mark.compat("mxnet-dmlc", "1.9.1")
@pytest.mark.skipif(not MXNET.exists(), reason="tools/peers mxnet was not run")
def test_mxnet_itself(hvdrun, no_leftovers):
    result = hvdrun(["--runtime", "mxnet", "--num-workers", "4", "--num-servers", "2", "-H", "n1,n2,n3,n4", "--bind-to",
                     "none", str(MXNET), "-c", KVSTORE], timeout=240, env={"OMP_NUM_THREADS": "1"})
    assert result.rc == 0, result
    # Without an updater the servers keep what was pushed last: the sum over the workers.
    said = re.findall(r"rank (\d) of 4 has ([\d.]+) ([\d.]+)", result.stdout)
    assert sorted(said) == [(str(rank), "10.0", "10.0") for rank in range(4)], result
