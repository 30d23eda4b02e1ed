"""An environment that is packed once, unpacked to the hosts' own disks, and from which the ranks start (--stage-env)."""

import os
import re
import signal

import pytest
from cluster import testing
from launcherd_user import MUSTER, Launcherd

HOSTS = ("n1", "n2", "n3", "n4")
EVERYWHERE = ["-H", "n1,n2,n3,n4"]
MIB = 1 << 20
# A virtual environment with a module, a console script, a link that leaves it, and one within it by its full path.
MAKE = r"""
rm -rf venv && /usr/bin/python3 -m venv --without-pip venv
site=$(echo venv/lib/python3*/site-packages)
printf 'WHERE = __file__\nWORD = "one"\n' > $site/module.py
printf '#!%s/venv/bin/python3\nimport module\nprint("script", module.WORD, module.__file__)\n' "$PWD" > venv/bin/tool
chmod 755 venv/bin/tool
ln -s /etc/hostname venv/leaves
ln -s "$PWD/$site/module.py" venv/inner
printf 'a\n' > venv/share && chmod 640 venv/share
"""
BIG = f"head -c {48 * MIB} /dev/urandom > venv/big"
FACTS = r"""
import module, os, sys
print("facts", module.WORD, module.__file__, sys.prefix, os.environ["MUSTER_ENV_DIR"], os.environ.get("VIRTUAL_ENV"),
      os.environ["PATH"].split(":")[0], os.environ.get("PYTHONHOME"))
"""


@pytest.fixture
def venv(cluster, no_leftovers):
    forget(cluster)
    cluster.run("head", "alice", ["sh", "-ec", MAKE], check=True)
    yield
    forget(cluster)


def forget(cluster):
    cluster.run("head", "alice", ["rm", "-rf", "venv", "other", ".cache/muster/envs"], check=True)
    for host in HOSTS:
        cluster.run(host, "root", ["rm", "-rf", folder(cluster)], check=True)
        cluster.run(host, "root", ["sh", "-c", f"rmdir {os.path.dirname(folder(cluster))} || true"], check=True)


def folder(cluster):
    return f"/tmp/muster-{cluster.uid('alice')}/envs"


def names(cluster, host):
    path = cluster.path(host, folder(cluster))
    # A killed agent leaves its mark. The next one removes it after a day.
    marks = re.compile(r"\.muster-stage\.[0-9a-f]+\.\d+")
    return sorted(each.name for each in path.iterdir() if not marks.fullmatch(each.name)) if path.exists() else []


def said(result):
    return re.findall(r"^hvdrun: ((?:pack|stag|unpack|the env).*)$", result.stderr, re.M)


def facts(result):
    return [line.split()[1:] for line in re.findall(r">:(facts .*)$", result.stdout, re.M)]


def test_ranks_import_from_the_hosts_own_disk(hvdrun, cluster, venv):
    result = hvdrun(["--stage-env", "venv/", *EVERYWHERE, "python3", "-c", FACTS],
                    env={"VIRTUAL_ENV": "/home/alice/venv", "PYTHONHOME": "/nowhere"})
    assert result.rc == 0, result
    assert len(facts(result)) == 4, result
    home = facts(result)[0][2]
    assert re.fullmatch(re.escape(folder(cluster)) + "/[0-9a-f]{32}", home), result
    for word, module, prefix, told, virtual, first, python_home in facts(result):
        assert word == "one" and module.startswith(home + "/lib/python3"), result
        assert (prefix, told, virtual, first, python_home) == (home, home, home, home + "/bin", "None"), result
    lines = said(result)
    assert re.fullmatch(r"packed the environment /home/alice/venv: \d+ files, .* as .*", lines[0]), result
    assert re.fullmatch(r"unpacked the environment /home/alice/venv on 4 of 4 hosts in .* s", lines[-1]), result
    for host in HOSTS:
        assert names(cluster, host) == [os.path.basename(home)], host


def test_scripts_and_links_lead_to_the_copy(hvdrun, cluster, venv):
    line = 'tool; readlink "$MUSTER_ENV_DIR/leaves" "$MUSTER_ENV_DIR/inner"; stat -c %a "$MUSTER_ENV_DIR/share"; ' \
           '. "$MUSTER_ENV_DIR/bin/activate"; echo active $VIRTUAL_ENV; grep ^home "$MUSTER_ENV_DIR/pyvenv.cfg"'
    result = hvdrun(["--stage-env", "venv", "-H", "n1", "--no-label", "sh", "-c", line],
                    env={"VIRTUAL_ENV": "/home/alice/venv"})
    assert result.rc == 0, result
    out = result.stdout.splitlines()
    home = out[4].removeprefix("active ")
    assert home.startswith(folder(cluster) + "/"), result
    assert out[0].startswith(f"script one {home}/lib/"), result
    assert out[1] == "/etc/hostname" and out[2].startswith(home + "/lib/") and out[3] == "640", result
    assert out[5] == "home = /usr/bin", result


def test_a_command_in_the_environment_is_that_of_the_copy(hvdrun, cluster, venv):
    cluster.run("head", "alice", ["ln", "-s", "venv", "other"], check=True)
    for path in ("venv", "other"):
        result = hvdrun(["--stage-env", f"./{path}", "-H", "n1", f"/home/alice/{path}/bin/tool"])
        assert result.rc == 0 and f"script one {folder(cluster)}/" in result.stdout, result


def test_a_second_run_packs_and_sends_nothing(hvdrun, cluster, venv):
    line = ["--stage-env", "./venv", *EVERYWHERE, "tool"]
    first = hvdrun(line)
    assert first.rc == 0 and first.stdout.count("script one") == 4, first
    again = hvdrun(line)
    assert again.rc == 0 and again.stdout.count("script one") == 4, again
    assert said(again) == ["the environment /home/alice/venv is on all hosts already"], again
    # A host that lost its copy gets it again, from the cache.
    cluster.run("n3", "root", ["rm", "-rf", folder(cluster)], check=True)
    result = hvdrun(line)
    assert result.rc == 0, result
    assert [each.split()[0] for each in said(result)] == ["staged", "unpacked"], result
    assert "on 1 of 4 hosts" in said(result)[-1], result


def test_what_was_only_touched_is_the_same_environment(hvdrun, cluster, venv):
    line = ["--stage-env", "./venv", "-H", "n1,n2", "tool"]
    assert hvdrun(line).rc == 0
    cluster.run("head", "alice", ["sh", "-c", "touch venv/bin/tool"], check=True)
    result = hvdrun(line)
    assert result.rc == 0 and [each.split()[0] for each in said(result)] == ["packed", "the"], result


def test_a_changed_file_is_seen(hvdrun, cluster, venv):
    line = ["--stage-env", "./venv", *EVERYWHERE, "tool"]
    assert hvdrun(line).rc == 0
    cluster.run("head", "alice", ["sh", "-c", "sed -i s/one/two/ venv/lib/python3*/site-packages/module.py"], check=True)
    result = hvdrun(line)
    assert result.rc == 0 and result.stdout.count("script two") == 4, result
    assert "unpacked the environment /home/alice/venv on 4 of 4 hosts" in result.stderr, result
    archives = list(cluster.path("head", "/home/alice/.cache/muster/envs").iterdir())
    assert len(archives) == 1, archives


def test_most_of_a_large_environment_goes_from_host_to_host(hvdrun, cluster, venv):
    cluster.run("head", "alice", ["sh", "-c", BIG], check=True)
    result = hvdrun(["--stage-env", "./venv", *EVERYWHERE, "tool"])
    assert result.rc == 0 and result.stdout.count("script one") == 4, result
    assert re.search(r"staged the archive of /home/alice/venv: .* 20\d\.\d MB in all, 5\d\.\d MB of it from here",
                     result.stderr), result


@pytest.mark.parametrize("who", ["launcher", "agent"])
def test_a_kill_in_the_middle_leaves_nothing_half_used(hvdrun, cluster, venv, who):
    cluster.run("head", "alice", ["sh", "-c", BIG], check=True)
    line = ["--stage-env", "./venv", *EVERYWHERE, "tool"]
    assert hvdrun(["-H", "n1,n2,n3,n4", "true"]).rc == 0  # brings the agent to the hosts
    cluster.rate("head", "80mbit", burst="256kb")
    try:
        running = hvdrun.start(line)
        assert testing.eventually(lambda: running.poll() is not None or
                                  any(name.startswith(".muster-stage.half") for name in names(cluster, "n4")), 40)
        if who == "launcher":
            running.send_signal(signal.SIGKILL)
            running.wait(20)
        else:
            agents = [process for process in cluster.processes("n2") if process.uid == cluster.uid("alice")
                      and process.argv[-1:] == ("--stdio",) and process.comm != "muster-warden"]
            os.kill(min(process.pid for process in agents), signal.SIGKILL)
            result = hvdrun.finish(running)
            assert result.rc == 125 and "n2" in result.stderr, result
    finally:
        cluster.rate("head", None)
    for host in HOSTS:
        assert testing.eventually(lambda: not [each for each in cluster.processes(host) if "--stdio" in each.argv], 30)
        assert not [name for name in names(cluster, host) if re.fullmatch("[0-9a-f]{32}", name)], host
    result = hvdrun(line)
    assert result.rc == 0 and result.stdout.count("script one") == 4, result
    for host in HOSTS:
        assert len(names(cluster, host)) == 1, names(cluster, host)


def test_a_full_disk_names_the_host_and_the_folder(hvdrun, cluster, venv):
    cluster.run("head", "alice", ["sh", "-c", "head -c 40000000 /dev/zero > venv/zeros"], check=True)  # small when packed
    place = folder(cluster)
    both = f"{os.path.dirname(place)} {place}"
    mount = (f"mkdir -p {place} && chmod 700 {both} && chown alice {both} && "
             f"mount -t tmpfs -o size=20m,mode=700,uid={cluster.uid('alice')} small {place}")
    cluster.run("n2", "root", ["sh", "-c", mount], check=True)
    line = ["--stage-env", "./venv", *EVERYWHERE, "tool"]
    try:
        result = hvdrun(line)
        assert result.rc == 125, result
        assert re.search(rf"n2: --stage-env: unpack into {place}: zeros: write: No space left", result.stderr), result
        assert names(cluster, "n2") == []
    finally:
        cluster.run("n2", "root", ["umount", place], check=True)
    result = hvdrun(line)
    assert result.rc == 0 and result.stdout.count("script one") == 4, result


def test_a_damaged_archive_is_packed_again(hvdrun, cluster, venv):
    line = ["--stage-env", "./venv", "-H", "n1", "tool"]
    assert hvdrun(line).rc == 0
    cluster.run("n1", "root", ["rm", "-rf", folder(cluster)], check=True)
    damage = "for f in .cache/muster/envs/*.env; do printf damage | dd of=$f bs=1 seek=2000 conv=notrunc status=none; done"
    cluster.run("head", "alice", ["sh", "-c", damage], check=True)
    result = hvdrun(["--verbose", *line])
    assert result.rc == 0 and "script one" in result.stdout, result
    assert "was damaged; it is packed again" in result.stderr, result


def test_a_half_removed_environment_is_not_used(hvdrun, cluster, venv):
    """Cleaners of /tmp remove single files. What they touch last is our mark, unless nobody has used it for a week."""
    line = ["--stage-env", "./venv", "-H", "n1", "tool"]
    assert hvdrun(line).rc == 0
    where = f"{folder(cluster)}/{names(cluster, 'n1')[0]}"
    cluster.run("n1", "alice", ["sh", "-c", f"rm -r {where}/bin && touch -d '8 days ago' {where}/.muster-env"], check=True)
    result = hvdrun(line)
    assert result.rc == 0 and "script one" in result.stdout, result
    cluster.run("n1", "alice", ["sh", "-c", f"rm -r {where}/bin {where}/.muster-env"], check=True)
    result = hvdrun(line)
    assert result.rc == 0 and "script one" in result.stdout, result


def test_a_folder_of_another_user_is_refused(hvdrun, cluster, venv):
    place = folder(cluster)
    cluster.run("n2", "root", ["sh", "-c", f"mkdir -p {place} && chown alice {os.path.dirname(place)} && "
                               f"chmod 700 {os.path.dirname(place)} {place} && chown bob {place}"], check=True)
    result = hvdrun(["--stage-env", "./venv", "-H", "n1,n2", "tool"])
    assert result.rc == 125 and re.search(rf"n2: --stage-env: .*{place}", result.stderr), result
    cluster.run("n2", "root", ["chown", "alice", place], check=True)
    assert hvdrun(["--stage-env", "./venv", "-H", "n2", "tool"]).rc == 0
    inner = f"{place}/{names(cluster, 'n2')[0]}"
    cluster.run("n2", "root", ["chown", "bob", inner], check=True)
    result = hvdrun(["--stage-env", "./venv", "-H", "n1,n2", "tool"])
    assert result.rc == 125 and re.search(rf"n2: --stage-env: {inner} belongs to bob", result.stderr), result


def test_a_python_that_a_host_lacks(hvdrun, cluster, venv):
    cluster.run("head", "alice", ["sh", "-c", "ln -sf /opt/nowhere/python3 venv/bin/python3"], check=True)
    result = hvdrun(["--stage-env", "./venv", "-H", "n1", "true"])
    assert result.rc == 125 and "bin/python3 of the environment leads to /opt/nowhere/python3" in result.stderr, result


def test_mistakes_of_the_line(hvdrun, cluster, venv):
    result = hvdrun(["--stage-env", "nothing", "-H", "n1", "true"])
    assert result.rc == 2 and "--stage-env /home/alice/nothing: " in result.stderr, result
    result = hvdrun(["--stage-env", "venv/pyvenv.cfg", "-H", "n1", "true"])
    assert result.rc == 2 and "it is not a folder" in result.stderr, result
    result = hvdrun(["--stage-env", "venv", "-H", "n1", "true"])
    assert result.rc == 2 and "VIRTUAL_ENV is not set" in result.stderr, result
    result = hvdrun(["--stage-env", "conda", "-H", "n1", "--dry-run"])
    assert result.rc == 2 and "CONDA_PREFIX is not set" in result.stderr, result
    result = hvdrun(["--stage-env", "./venv", "--container", "image", "-H", "n1", "true"])
    assert result.rc == 2 and "--stage-env and --container" in result.stderr, result
    result = hvdrun(["--stage-env", "./venv", "-H", "n1", "--dry-run"])
    assert result.rc == 0 and not said(result), result


def test_two_jobs_at_once_share_one_copy(hvdrun, cluster, venv):
    both = [hvdrun.start(["--stage-env", "./venv", *EVERYWHERE, "tool"]) for _ in range(2)]
    for running in both:
        result = hvdrun.finish(running)
        assert result.rc == 0 and result.stdout.count("script one") == 4, result
    for host in HOSTS:
        assert len(names(cluster, host)) == 1, names(cluster, host)


def test_restarted_ranks_and_several_programs(hvdrun, cluster, venv):
    line = ["--stage-env", "./venv", "--max-restarts", "1", "-np", "2", "-H", "n1,n2"]
    result = hvdrun([*line, "sh", "-c", "tool; exit $((1 - MUSTER_ATTEMPT))"])
    # The first rank that fails may end the other one before it has written.
    assert result.rc == 0 and result.stdout.count(f"script one {folder(cluster)}/") in (3, 4), result
    result = hvdrun(["--stage-env", "./venv", "-np", "1", "-H", "n1", "tool", ":", "-np", "1", "-H", "n2",
                     "/home/alice/venv/bin/tool"])
    assert result.rc == 0 and result.stdout.count(f"script one {folder(cluster)}/") == 2, result


def test_files_and_an_environment_through_relays(hvdrun, cluster, venv):
    cluster.run("head", "alice", ["sh", "-c", "mkdir -p other && echo file > other/a"], check=True)
    result = hvdrun(["--fanout", "2", "--stage", "other:/tmp/staged-by-86", "--stage-env", "./venv", *EVERYWHERE,
                     "sh", "-c", "tool; cat /tmp/staged-by-86/a; rm -r /tmp/staged-by-86"])
    assert result.rc == 0 and result.stdout.count("script one") == 4 and result.stdout.count(">:file\n") == 4, result


def test_launcherd_packs_on_its_own_machine(hvdrun, cluster, venv):
    launcherd = Launcherd(hvdrun, cluster)
    try:
        job = launcherd.submit("--stage-env", "./venv", "-np", "2", "-H", "n1:1,n2:1", "tool")
        assert launcherd.asked("wait", job) == ""
        assert launcherd.asked("logs", job).count(f"script one {folder(cluster)}/") == 2
    finally:
        launcherd.close()


def test_muster_agents_lists_and_removes_environments(hvdrun, cluster, venv):
    running = hvdrun.start(["--stage-env", "./venv", "-H", "n1", "sh", "-c", "tool; sleep 60"])
    assert testing.eventually(lambda: running.poll() is not None or
                              any(process.argv[:1] == ("sleep",) and process.uid == cluster.uid("alice")
                                  for process in cluster.processes("n1")), 40)
    path = f"{folder(cluster)}/{names(cluster, 'n1')[0]}"
    prune = [str(MUSTER), "agents", "prune", "-H", "n1", "--unused-for", "0s"]
    used = cluster.run("head", "alice", prune)
    assert path in used.stdout and names(cluster, "n1") == [os.path.basename(path)], used
    running.send_signal(signal.SIGINT)
    hvdrun.finish(running)
    listed = cluster.run("head", "alice", [str(MUSTER), "agents", "-H", "n1"])
    assert path in listed.stdout, listed
    pruned = cluster.run("head", "alice", prune)
    assert path in pruned.stdout and names(cluster, "n1") == [], pruned
