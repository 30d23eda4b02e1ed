"""Folders that another user of the hosts has made first, or may write into: nothing of alice's runs from them, and
nothing of hers is removed through them."""

import re

import pytest
from conftest import BIN_DIR
from launcherd_user import STATE

MUSTER = str(BIN_DIR / "muster")
LAUNCHERD = str(BIN_DIR / "launcherd")
TRAIN = "rm -rf train && mkdir train && echo 'import colors; print(colors.OF)' > train/main.py && echo 'OF = \"alice\"' > train/colors.py"
COLORS_OF_BOB = "echo 'OF = \"bob\"' > {0}/colors.py; cp {0}/colors.py {0}/os.py"


@pytest.fixture
def hosts(cluster, no_leftovers):
    """The cluster, with a folder /tmp/ground on head and n1 that is open and sticky as /tmp; gone afterwards."""
    def each(script):
        for host in ("head", "n1"):
            cluster.run(host, "root", ["sh", "-c", script], check=True)

    each("rm -rf /tmp/ground && mkdir -m 1777 /tmp/ground && chmod 1777 /tmp/ground")
    cluster.run("head", "alice", ["sh", "-c", TRAIN], check=True)
    yield cluster
    each("rm -rf /tmp/ground")
    cluster.run("head", "alice", ["rm", "-rf", "train"], check=True)


def on(cluster, user, script, host="n1"):
    return cluster.run(host, user, ["sh", "-c", script], check=True).stdout


def stage(hvdrun, target):
    return hvdrun(["--stage", f"train:{target}", "-H", "n1", "python3", f"{target}/main.py"])


@pytest.mark.parametrize("target, owner", [("/tmp/ground/job", "/tmp/ground/job"),
                                           ("/tmp/ground/lab/job", "/tmp/ground/lab")])
def test_nothing_is_staged_where_another_user_may_write(hvdrun, hosts, target, owner):
    on(hosts, "bob", f"mkdir -m 777 -p {target} && chmod 777 {owner} {target} && {COLORS_OF_BOB.format(target)}")
    result = stage(hvdrun, target)
    assert result.rc == 125 and "bob\n" not in result.stdout, result
    assert re.search(rf"hvdrun: n1: --stage: {owner} belongs to bob \(uid {hosts.uid('bob')}\)", result.stderr), result
    assert on(hosts, "bob", f"ls {target}").split() == ["colors.py", "os.py"], "nothing of alice's is there"


def test_nothing_is_staged_through_a_link_of_another_user(hvdrun, hosts):
    on(hosts, "alice", "mkdir -p .private")
    on(hosts, "bob", "ln -s /home/alice/.private /tmp/ground/job")
    result = stage(hvdrun, "/tmp/ground/job")
    assert result.rc == 125 and "--stage: " in result.stderr, result
    assert on(hosts, "alice", "ls .private; rmdir .private") == ""


def test_a_folder_that_everyone_may_write_into_is_refused(hvdrun, hosts):
    on(hosts, "alice", "mkdir /tmp/ground/job && chmod 777 /tmp/ground/job")
    result = stage(hvdrun, "/tmp/ground/job")
    assert result.rc == 125 and "every user may write into /tmp/ground/job (mode 0777): chmod go-w it" in result.stderr


def test_usual_folders_are_staged_into(hvdrun, hosts):
    # bob leads a project that root has made room for; alice's group may write there.
    on(hosts, "root", f"mkdir -m 755 /tmp/ground/projects && mkdir /tmp/ground/projects/lab && "
                      f"chown {hosts.uid('bob')}:{hosts.uid('alice')} /tmp/ground/projects/lab && "
                      "chmod 2770 /tmp/ground/projects/lab")
    on(hosts, "alice", "mkdir -m 775 /tmp/ground/shared && mkdir /tmp/ground/real && ln -s real /tmp/ground/link")
    for target in ("/tmp/ground/job", "/tmp/ground/job", "/tmp/ground/shared", "/tmp/ground/link",
                   "/tmp/ground/projects/lab/job", "/home/alice/deep/er"):
        result = stage(hvdrun, target)
        assert result.rc == 0 and result.stdout == "[0]<stdout>:alice\n", (target, result)
    on(hosts, "alice", "rm -r deep")


def test_cleanup_does_not_follow_a_link(hosts):
    on(hosts, "root", "mkdir /tmp/ground/tmp && chmod 777 /tmp/ground/tmp")  # no sticky bit: the kernel follows bob's link
    on(hosts, "alice", "mkdir -p projects-2024 && echo 42 > projects-2024/result && touch -d '1 hour ago' projects-2024")
    on(hosts, "bob", f"ln -s /home/alice /tmp/ground/tmp/muster-{hosts.uid('alice')}")
    result = hosts.run("head", "alice", [MUSTER, "cleanup", "-H", "n1"], env={"MUSTER_TMPDIR": "/tmp/ground/tmp"},
                       timeout=60)
    assert on(hosts, "alice", "cat projects-2024/result") == "42\n", result
    assert f"/tmp/ground/tmp/muster-{hosts.uid('alice')} was made by another user" in result.stdout + result.stderr, result
    on(hosts, "alice", "rm -r projects-2024")


def test_jobs_run_where_another_user_has_taken_the_name(hvdrun, hosts):
    name = f"/tmp/muster-{hosts.uid('alice')}"
    on(hosts, "bob", f"mkdir -m 755 {name}")
    try:
        for _ in range(2):
            result = hvdrun(["-np", "2", "-H", "n1:1,n2:1", "sh", "-c", "echo $MUSTER_SESSION_DIR; ls -d $MUSTER_SESSION_DIR"])
            assert result.rc == 0, result
            folders = set(re.findall(r"\[0\]<stdout>:(.*)", result.stdout))
            assert len(folders) == 1 and re.fullmatch(rf"{name}-[0-9a-f]{{8}}/[a-z2-7]{{8}}-0", folders.pop()), result
            assert f"[1]<stdout>:{name}/" in result.stdout, result
            assert on(hosts, "alice", f"ls -d {name}*").split() == [name], "what stands in goes with the job"
    finally:
        on(hosts, "bob", f"rmdir {name}")


def test_an_agent_that_another_user_could_exchange_is_not_run(hvdrun, hosts):
    on(hosts, "bob", "mkdir -m 777 /tmp/ground/agents && chmod 777 /tmp/ground/agents")
    result = hvdrun(["--agent-dir", "/tmp/ground/agents", "-H", "n1", "true"])
    assert result.rc == 125, result
    assert "another user could replace the agent in /tmp/ground/agents" in result.stderr, result
    assert on(hosts, "bob", "ls -A /tmp/ground/agents") == ""
    for folder in ("/tmp/ground/mine", "/tmp/ground/mine", "/tmp/ground"):
        result = hvdrun(["--agent-dir", folder, "-H", "n1", "echo", "hello"])
        assert result.rc == 0 and result.stdout == "[0]<stdout>:hello\n", result


def test_a_join_file_of_another_user_is_refused(hosts):
    def start():
        return hosts.run("head", "alice", [LAUNCHERD, "--accept-agents", "0", "--join-file", "/tmp/ground/join", "--state", STATE],
                         timeout=60)

    words = ["MUSTER-JOIN 1", "address 10.0.0.1", "port 7411", "identity muster-launcherd-bob", "token " + "b" * 64,
             "expires 4000000000", "stays yes"]
    on(hosts, "bob", "printf '%s\\n' " + " ".join(f"'{word}'" for word in words) + " > /tmp/ground/join", host="head")
    try:
        result = start()
        assert result.returncode != 0 and f"/tmp/ground/join belongs to uid {hosts.uid('bob')}" in result.stderr, result
        on(hosts, "root", "rm /tmp/ground/join; chmod 777 /tmp/ground", host="head")
        result = start()
        assert result.returncode != 0 and "every user may write into /tmp/ground" in result.stderr, result
    finally:
        on(hosts, "alice", f"rm -rf {STATE}", host="head")
