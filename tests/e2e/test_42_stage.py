"""Files that come to the hosts before the start: once for each file system, only what has changed, never half."""

import re

import pytest
from launcherd_user import MUSTER, Launcherd

MAKE = ("rm -rf in && mkdir -p in/sub && printf 'one\\n' > in/a && head -c 3000000 /dev/urandom > in/sub/big && "
        "ln -s a in/link && printf '#!/bin/sh\\necho staged $MUSTER_RANK\\n' > in/run && chmod 750 in/run")


@pytest.fixture
def files(cluster):
    cluster.run("head", "alice", ["sh", "-c", MAKE], check=True)
    yield
    for host in ("head", "n1", "n2", "n3", "n4"):
        cluster.run(host, "alice", ["rm", "-rf", "in", "other", "hosts"], check=True)


def said(result):
    return re.findall(r"^hvdrun: (stag\w+ .*)$", result.stderr, re.M)


def test_a_folder_under_its_own_path(hvdrun, files, no_leftovers):
    args = ["--stage", "in", "-H", "n1,n2", "sh", "-c", "./in/run; cat in/link; stat -c %a in/run; md5sum < in/sub/big"]
    result = hvdrun(args)
    assert result.rc == 0, result
    for rank in (0, 1):
        assert f"[{rank}]<stdout>:staged {rank}\n" in result.stdout and f"[{rank}]<stdout>:one\n" in result.stdout
        assert f"[{rank}]<stdout>:750\n" in result.stdout, result
    assert len(set(re.findall(r">:(\w{32})", result.stdout))) == 1, result
    assert said(result) == ["staged /home/alice/in: 3 of 3 files, 6.0 MB in all, to /home/alice/in on n1, n2"]
    again = hvdrun(args)
    assert said(again) == ["staged /home/alice/in: 3 files, all present already"], again
    assert hvdrun(["--quiet", *args]).stderr == ""


def test_only_what_has_changed(hvdrun, cluster, files, no_leftovers):
    args = ["--stage", "in:/home/alice/other", "-H", "n1", "cat", "other/a"]
    assert hvdrun(args).rc == 0
    cluster.run("head", "alice", ["sh", "-c", "printf 'two\\n' > in/a; touch in/sub/big"], check=True)
    result = hvdrun(args)
    assert result.stdout == "[0]<stdout>:two\n"
    assert said(result) == ["staged /home/alice/in: 1 of 3 files, 4 bytes in all, to /home/alice/other on n1"]


def test_a_file_into_the_working_directory(hvdrun, cluster, files, no_leftovers):
    result = hvdrun(["--stage", "in/a:other/", "--stage", "in/a:other/b", "-H", "n1", "sh", "-c", "cat other/a other/b"])
    assert result.rc == 0 and result.stdout == "[0]<stdout>:one\n" * 2, result


def test_a_shared_home_is_the_source_itself(hvdrun, make_cluster, no_leftovers):
    shared = make_cluster(2, home="shared")
    shared.run("head", "alice", ["sh", "-c", MAKE], check=True)
    result = hvdrun(["--stage", "in", "--stage", "in:other", "-H", "n1,n2", "cat", "other/a"], on=shared)
    assert result.rc == 0 and result.stdout.count("one") == 2, result
    assert said(result) == ["staged /home/alice/in: the hosts share it, so nothing was sent",
                            "staged /home/alice/in: 3 of 3 files, 3.0 MB in all, to /home/alice/other on n1"]


def test_what_is_not_there_is_a_mistake_of_the_line(hvdrun, no_leftovers):
    result = hvdrun(["--stage", "nothing", "-H", "n1", "true"])
    assert result.rc == 2 and "--stage /home/alice/nothing: " in result.stderr, result


def test_a_host_that_cannot_take_it_is_named(hvdrun, files, no_leftovers):
    result = hvdrun(["--stage", "in:/proc/nowhere", "-H", "n1,n2", "true"])
    assert result.rc == 125, result
    assert re.search(r"hvdrun: n[12]: --stage: make the folder /proc/nowhere", result.stderr), result


def test_a_full_disk_is_named_and_left_as_it_was(hvdrun, cluster, files, no_leftovers):
    cluster.run("n2", "root", ["sh", "-c", "mkdir /tmp/small && mount -t tmpfs -o size=1m,mode=1777 small /tmp/small"],
                check=True)
    try:
        result = hvdrun(["--stage", "in:/tmp/small/in", "-H", "n2", "true"])
        assert result.rc == 125, result
        assert re.search(r"n2: --stage: .*/tmp/small/in/sub/big.*No space left", result.stderr), result
        left = cluster.run("n2", "root", ["find", "/tmp/small", "-name", ".muster*"], check=True).stdout
        assert left == "", left
    finally:
        cluster.run("n2", "root", ["sh", "-c", "umount /tmp/small && rmdir /tmp/small"], check=True)


def test_a_read_only_folder_that_holds_it_all_is_right(hvdrun, cluster, files, no_leftovers):
    cluster.run("n2", "root", ["sh", "-c", "mkdir /tmp/ro && mount -t tmpfs -o mode=1777 ro /tmp/ro"], check=True)
    try:
        line = ["--stage", "in:/tmp/ro/in", "-H", "n2", "cat", "/tmp/ro/in/a"]
        assert hvdrun(line).rc == 0
        cluster.run("n2", "root", ["mount", "-o", "remount,ro", "/tmp/ro"], check=True)
        cluster.run("head", "alice", ["touch", "in/sub/big"], check=True)  # the same in it
        result = hvdrun(line)
        assert result.rc == 0 and said(result) == ["staged /home/alice/in: 3 files, all present already"], result
        cluster.run("head", "alice", ["sh", "-c", "echo two > in/a"], check=True)
        result = hvdrun(line)
        assert result.rc == 125 and re.search(r"n2: --stage: .*/tmp/ro/in/a.*Read-only", result.stderr), result
    finally:
        cluster.run("n2", "root", ["sh", "-c", "umount /tmp/ro && rmdir /tmp/ro"], check=True)


def test_ctrl_c_while_files_are_staged(hvdrun, cluster, files, no_leftovers):
    cluster.run("head", "alice", ["sh", "-c", "head -c 400000000 /dev/zero > in/huge"], check=True)
    running = hvdrun.start(["--stage", "in", "-H", "n1", "true"])
    cluster.run("n1", "alice", ["sh", "-c", "until ls in/.muster-stage.half.*; do sleep 0.05; done"], timeout=30, check=True)
    running.send_signal(2)
    result = hvdrun.finish(running)
    assert result.rc == 130, result
    cluster.run("n1", "alice", ["sh", "-c", "while ls in/.muster-stage*; do sleep 0.05; done"], timeout=30, check=True)


def test_launcherd_stages_from_its_own_machine(hvdrun, cluster, files, no_leftovers):
    launcherd = Launcherd(hvdrun, cluster)
    try:
        job = launcherd.submit("--stage", "in", "-np", "4", "-H", "n1:2,n2:2", "./in/run")
        assert launcherd.asked("wait", job) == ""
        assert sorted(launcherd.asked("logs", job).splitlines()) == [f"[{rank}]<stdout>:staged {rank}" for rank in range(4)]
    finally:
        launcherd.close()


def test_launcherd_that_dies_while_files_are_staged(hvdrun, cluster, files, no_leftovers):
    """The next one finds agents that have been prepared, and stages once more."""
    cluster.run("head", "alice", ["sh", "-c", "head -c 400000000 /dev/zero > in/huge"], check=True)
    launcherd = Launcherd(hvdrun, cluster)
    try:
        job = launcherd.submit("--stage", "in", "-np", "2", "-H", "n1:1,n2:1", "sh", "-c", "stat -c %s in/huge; ls -A in")
        cluster.run("n1", "alice", ["sh", "-c", "until ls in/.muster-stage.half.*; do sleep 0.05; done"], timeout=30,
                    check=True)
        launcherd.die()
        launcherd.come_back()
        assert launcherd.asked("wait", job) == ""
        said = launcherd.asked("logs", job)
        for rank in (0, 1):
            assert f"[{rank}]<stdout>:400000000\n" in said, said
        assert ".muster" not in said, said
    finally:
        launcherd.close()


def test_launch_py_syncs_the_current_directory(hvdrun, cluster, files, no_leftovers):
    cluster.run("head", "alice", ["sh", "-c", "printf 'n1\\nn2\\n' > in/hosts"], check=True)
    line = [MUSTER, "dmlc", "-n", "1", "-s", "1", "-H", "hosts", "--sync-dst-dir", "/home/alice/other", "--launcher",
            "ssh", "pwd; cat a"]
    result = hvdrun.finish(hvdrun.start([], argv=line, cwd="/home/alice/in"))
    assert result.rc == 0, result
    assert result.stdout.count(":/home/alice/other\n") == 3 and result.stdout.count(":one\n") == 3, result
