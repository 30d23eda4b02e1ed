"""What users type: configuration files, hosts of a scheduler's job, limits, expansion, what ends a job, dry runs."""

import errno
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest
import shell_tab
from cluster import testing
from conftest import BIN_DIR, REPOSITORY
from console import Watched

SHOW = ["sh", "-c", "echo $MUSTER_RANK/$MUSTER_SIZE on $(hostname)"]


def lines(result):
    """{rank: its lines of stdout}"""
    assert result.rc == 0, result
    found = {}
    for line in result.stdout.splitlines():
        rank, text = line[1:].split("]<stdout>:", 1)
        found.setdefault(int(rank), []).append(text)
    return found


@pytest.fixture
def file(cluster):
    """file(name, text) -> path of a file of alice's on head, gone after the test."""
    made = []

    def write(name, text):
        path = cluster.path("head", f"/home/alice/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        made.append(path)
        return f"/home/alice/{name}"

    yield write
    for path in made:
        path.unlink()


def test_settings_come_from_files_variables_and_options(hvdrun, file, no_leftovers):
    file(".config/muster/config.yaml", "muster: {hosts: 'n1:2,n2:2', num_proc: 2}\nparams: {cache_capacity: 7}\n")
    named = file("named.yaml", "params:\n  fusion_threshold_mb: 2\nmuster:\n  env: [FROM_FILE=yes]\n")
    script = ["sh", "-c", "echo $HOROVOD_CACHE_CAPACITY $HOROVOD_FUSION_THRESHOLD $FROM_FILE $(hostname)"]
    assert lines(hvdrun(script)) == {rank: ["7 n1"] for rank in range(2)}
    result = hvdrun(["--config-file", named, *script], env={"MUSTER_NUM_PROC": "3"})
    assert lines(result) == {rank: [f"7 2097152 yes {'n1' if rank < 2 else 'n2'}"] for rank in range(3)}
    result = hvdrun(["-np", "1", "-H", "n4", *script], env={"MUSTER_NUM_PROC": "3"})
    assert lines(result) == {0: ["7 n4"]}
    wrong = file("wrong.yaml", "muster:\n  hots: n1\n")
    result = hvdrun(["--config-file", wrong, "true"])
    assert (result.rc, result.stderr) == (2, f"hvdrun: {wrong}:2:3: unknown key 'hots' in muster; did you mean hosts?\n")


def test_hosts_of_a_schedulers_job(hvdrun, file, no_leftovers):
    nodes = file("nodes", "n1\nn1\nn2\n")
    expected = {0: ["0/3 on n1"], 1: ["1/3 on n1"], 2: ["2/3 on n2"]}
    assert lines(hvdrun(SHOW, env={"PBS_NODEFILE": nodes})) == expected
    assert lines(hvdrun(SHOW, env={"COBALT_NODEFILE": nodes})) == expected
    slurm = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2,1"}
    assert lines(hvdrun(SHOW, env=slurm)) == expected
    assert lines(hvdrun(["-N", "1", *SHOW], env=slurm)) == {0: ["0/2 on n1"], 1: ["1/2 on n2"]}
    assert lines(hvdrun(["-H", "n3", *SHOW], env=slurm)) == {0: ["0/1 on n3"]}
    verbose = hvdrun(["--verbose", "true"], env=slurm)
    assert "hvdrun: hosts from the Slurm allocation (SLURM_JOB_NODELIST); -H names others\n" in verbose.stderr


def test_hosts_of_a_discovery_script(hvdrun, file, no_leftovers):
    script = file("hosts.sh", "echo n1:2; echo n2:2; echo looked >&2\n")
    elastic = ["--host-discovery-script", f"sh {script}", "--min-np", "2", "--max-np", "3"]
    result = hvdrun([*elastic, *SHOW])
    assert lines(result) == {0: ["0/3 on n1"], 1: ["1/3 on n1"], 2: ["2/3 on n2"]}
    assert "--min-np" not in result.stderr, result
    failed = hvdrun(["--host-discovery-script", "echo no cluster >&2; exit 5", *SHOW])
    assert failed.rc == 125 and failed.stderr.endswith("ended with exit code 5; it printed: no cluster\n"), failed
    wrong = hvdrun(["--host-discovery-script", "echo n1; echo -- -x", *SHOW])
    assert wrong.rc == 2 and ":2:1: " in wrong.stderr, wrong


def test_every_rank_has_its_own_command(hvdrun, no_leftovers):
    words = "{rank} {local_rank} {node_rank} {nnodes} {size} {host} {{rank}} {other}"
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", "--expand", "sh", "-c", 'echo "$0"; echo "$1"', words,
                     "{master_addr}:{master_port}"])
    found = lines(result)
    assert len({shown[1] for shown in found.values()}) == 1, result
    for rank, (shown, _) in found.items():
        assert shown == f"{rank} {rank % 2} {rank // 2} 2 4 n{1 + rank // 2} {{rank}} {{other}}"


def test_map_by_node(hvdrun, no_leftovers):
    found = lines(hvdrun(["-np", "4", "-H", "n1:2,n2:2", "--map-by", "node", *SHOW]))
    assert [found[rank][0].split()[-1] for rank in range(4)] == ["n1", "n2", "n1", "n2"]


def test_limits(hvdrun, no_leftovers):
    show = ["sh", "-c", "ulimit -n; ulimit -Hn; ulimit -c"]
    found = lines(hvdrun(["-H", "n1,n2", "--ulimit", "nofile=512:1024", "--ulimit", "core=0", *show]))
    assert found == {rank: ["512", "1024", "0"] for rank in range(2)}
    soft, hard, _ = lines(hvdrun(["-H", "n1", *show]))[0]
    assert soft == hard  # raised as far as the host allows
    refused = hvdrun(["-H", "n1,n2", "--ulimit", "nofile=99999999", "true"])
    assert refused.rc == 125 and "cannot set the limit nofile to 99999999: " in refused.stderr, refused


def test_keep_going(hvdrun, no_leftovers):
    script = ["sh", "-c", '[ $MUSTER_RANK = 0 ] && exit 3; sleep 1; echo done']
    assert "done" not in hvdrun(["-H", "n1,n2", *script]).stdout
    result = hvdrun(["-H", "n1,n2", "--keep-going", *script])
    assert (result.rc, result.stdout) == (3, "[1]<stdout>:done\n"), result


def test_labels(hvdrun, no_leftovers):
    """A test runner that reads "No Errors" finds it."""
    runner = ["-np", "2", "-H", "n1,n2", "--no-label", "sh", "-c", "[ $MUSTER_RANK = 1 ] || echo ' No Errors'"]
    result = hvdrun(runner)
    assert (result.rc, result.stdout) == (0, " No Errors\n"), result
    result = hvdrun(["-np", "2", "-H", "n1,n2", "--label-format", "{rank}|", "sh", "-c", "echo a; echo b"])
    assert sorted(result.stdout.splitlines()) == ["0|a", "0|b", "1|a", "1|b"], result
    result = hvdrun(["--label-format", "{rnk}", "true"])
    assert result.rc == 2 and "'{rnk}' is not a label" in result.stderr, result


def test_quiet_tells_failures_only(hvdrun, no_leftovers):
    remark = ["-H", "n1,n2", "--min-np", "1", "--quiet"]
    assert hvdrun([*remark, "true"]).stderr == ""
    failed = hvdrun([*remark, "false"])
    assert failed.rc == 1 and "hvdrun: rank " in failed.stderr, failed


def events_of(hvdrun, cluster, *command):
    """(kinds, events) of a job on two hosts."""
    hvdrun(["-H", "n1,n2", "--json-events", "events", *command], cwd="/home/alice")
    path = cluster.path("head", "/home/alice/events")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    assert [event["sequence"] for event in events] == [str(number + 1) for number in range(len(events))]
    return [next(kind for kind in event if kind not in ("sequence", "time")) for event in events], events


def test_events_are_written(hvdrun, cluster, no_leftovers):
    kinds, events = events_of(hvdrun, cluster, "true")
    assert kinds[:3] == ["job_starting", "host_up", "host_up"] and kinds[-1] == "job_ended", kinds
    assert sorted(kinds[3:-1]) == ["rank_ended", "rank_ended", "rank_up", "rank_up"], kinds
    assert events[-1]["job_ended"]["root_cause_rank"] == -1
    kinds, events = events_of(hvdrun, cluster, "sh", "-c", "exit $MUSTER_RANK")
    assert kinds.count("job_stopping") == 1 and kinds.count("rank_ended") == 2, kinds
    assert (events[-1]["job_ended"]["exit_code"], events[-1]["job_ended"]["root_cause_rank"]) == (1, 1)


def test_dry_run_contacts_nobody(hvdrun, no_leftovers):
    result = hvdrun(["--dry-run", "--json", "-np", "4", "-H", "nowhere[1-2]:2", "--assume-node", "1x4+2", "true"])
    assert (result.rc, result.stderr) == (0, ""), result
    placement = json.loads(result.stdout)
    assert [host["name"] for host in placement["hosts"]] == ["nowhere1", "nowhere2"]
    assert [rank["cpus"] for rank in placement["hosts"][1]["ranks"]] == [[0, 1], [2, 3]]
    table = hvdrun(["--dry-run", "-H", "nowhere[1-2]:2"])
    assert table.rc == 0 and table.stdout.splitlines()[-1].split() == ["3", "nowhere2", "1/2", "1/2", "-", "-"], table


@pytest.mark.parametrize("command", ["hvdrun --help", "hvdrun --dry-run -np 1 x", "muster --completion bash", "muster doctor --help",
                                     "muster torchrun --help", "muster stacks --help", "muster jobs --help", "muster compat",
                                     "muster --version"])
def test_an_answer_that_cannot_be_written(hvdrun, command):
    result = hvdrun([], argv=["bash", "-c", f"{command} > /dev/full"])
    assert result.rc == 125 and "cannot write to stdout: No space left on device" in result.stderr, result
    result = hvdrun([], argv=["bash", "-c", f"{command} | head -0; echo ${{PIPESTATUS[*]}}"])
    assert result.stdout in ("141 0\n", "0 0\n") and result.stderr == "", result  # 0: it was done before head was
    assert hvdrun([], argv=["bash", "-c", f"{command.split()[0]} --wrong 2> /dev/full"]).rc == 2


@pytest.mark.parametrize("closed, out, err", [(">&-", 0, 1), ("2>&-", 1, 0), (">&- 2>&- <&-", 0, 0)])
def test_streams_that_are_closed(hvdrun, no_leftovers, closed, out, err):
    """They are as /dev/null: no file or socket of hvdrun's gets their number."""
    script = f"hvdrun -np 2 -H n1,n2 sh -c 'echo out; echo err >&2' {closed}; echo code $? > code"
    result = hvdrun([], argv=["bash", "-c", f"cd && {script}; cat code"])
    assert result.stdout.endswith("code 0\n"), result
    assert (result.stdout.count("<stdout>:out"), result.stderr.count("<stderr>:err")) == (2 * out, 2 * err), result


def test_interrupt_while_a_discovery_script_runs(hvdrun, cluster, no_leftovers):
    """It is in a session of its own: what it has started ends with it."""
    job = Watched(hvdrun, cluster, ["--host-discovery-script", "echo up >/home/alice/up; sleep 1000; :", "true"])
    marker = cluster.path("head", "/home/alice/up")
    testing.eventually(marker.exists, 20.0)
    marker.unlink()
    job.signal(signal.SIGINT)
    assert job.end().rc == -signal.SIGINT


PROGRAMS = ("hvdrun", "launcherd", "muster")


def answer(*words):
    """stdout of a program of ours that only answers; it must not complain."""
    result = subprocess.run([BIN_DIR / words[0], *words[1:]], capture_output=True, text=True, check=True, timeout=60)
    assert result.stderr == "", result
    return result.stdout


def muster_verbs():
    groups = answer("muster", "--help").split("\nOptions:\n")[0]
    verbs = re.findall(r"^  ([a-z]\S*) {2,}\S", groups, re.MULTILINE)
    assert {"jobs", "templates", "compat", "torch.distributed.launch"} <= set(verbs), verbs
    return verbs


def test_help_and_manual_of_every_verb():
    """Every exit code has a meaning, no line ends in blanks, and the build writes every page."""
    for words in [["hvdrun"], ["launcherd"], *(["muster", verb] for verb in muster_verbs())]:
        text = answer(*words, "--help")
        assert not re.search(r" $", text, re.MULTILINE), words
        assert all(len(line) <= 96 for line in text.splitlines() if not line.startswith(f"  {words[0]} ")), words
        assert answer(*words, "-h").count("\n") < 45, words
        examples = re.search(r"\nExamples:\n((?:  .*\n)+)", text).group(1)
        assert re.fullmatch(r"(?:  \S.*\n(?:      .*\n)+)+", examples), (words, examples)  # each with an explanation
        codes = re.search(r"\nExit code:\n((?:  .*\n)+)", text).group(1)
        assert re.search(r"^  0 +\S", codes, re.MULTILINE), (words, codes)
    cmake = (REPOSITORY / "cli/CMakeLists.txt").read_text()
    written = re.search(r"foreach\(verb ([^)]*)\)", cmake).group(1).split()
    assert sorted([*written, "torch.distributed.launch"]) == sorted(muster_verbs())  # whose page is torchrun's


def said(*words):
    """stderr of a program of ours that refuses its command line."""
    result = subprocess.run([BIN_DIR / words[0], *words[1:]], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (2, ""), result
    return result.stderr


def test_verbs_have_other_names():
    for alias, verb in {"ps": "jobs", "ls": "jobs", "list": "jobs", "describe": "status", "show": "status",
                        "cancel": "kill", "stop": "kill"}.items():
        assert answer("muster", alias, "--help") == answer("muster", verb, "--help")
        assert answer("muster", "--man", alias) == answer("muster", "--man", verb)
        assert re.search(rf"^Also: .*muster {alias}\b", answer("muster", verb, "-h"), re.MULTILINE)
    assert said("muster", "descrbe") == "muster: unknown verb descrbe, did you mean describe? (muster --help lists them)\n"
    assert "did you mean submit?" in said("muster", "sbumit")
    assert "did you mean logs?" in said("muster", "lgs")  # not ls, which is as near
    assert "did you mean -np?" in said("hvdrun", "--np", "2", "hostname")  # not --npernode
    assert "did you mean -np?" in said("muster", "submit", "--np", "2", "hostname")


def test_help_is_also_a_verb():
    assert answer("muster", "help") == answer("muster", "--help") == answer("muster", "help", "help")
    for verb in muster_verbs():
        assert answer("muster", "help", verb) == answer("muster", verb, "--help")
    assert answer("muster", "help", "ps").startswith("Usage: muster jobs ")
    assert "unknown verb nosuch" in said("muster", "help", "nosuch")
    groups = re.findall(r"^(\S.*):$", answer("muster", "-h"), re.MULTILINE)
    assert groups[:3] == ["Jobs", "Looking into a job", "Hosts"], groups
    assert max(map(len, answer("muster", "-h").split("\nExamples:\n")[0].splitlines())) <= 80  # one line for each verb


@pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")
def test_manual_pages_render_without_a_warning(tmp_path):
    for number, words in enumerate([["hvdrun", "--man"], ["launcherd", "--man"], ["muster", "--man"],
                                    *(["muster", "--man", verb] for verb in muster_verbs())]):
        page = tmp_path / f"{number}.1"
        page.write_text(answer(*words))
        result = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", page], capture_output=True, text=True, timeout=60,
                                env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
        assert (result.returncode, result.stderr) == (0, ""), (words, result.stderr)
    page = answer("muster", "--man")
    assert all(f"\\fB{verb}\\fR\n" in page.replace("\\-", "-") for verb in muster_verbs())


class Pty:
    """A program of ours on a terminal of 24 rows."""

    def __init__(self, *words, columns=80, rows=24, env=None):
        self.master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        inherited = {"PATH": "/usr/bin:/bin", "TERM": "xterm", "HOME": "/nowhere"}
        self.program = subprocess.Popen([BIN_DIR / words[0], *words[1:]], stdin=terminal, stdout=terminal, stderr=terminal,
                                        start_new_session=True, env=inherited | (env or {}),
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(terminal)
        self.bytes = b""

    @property
    def text(self):
        """What was shown so far."""
        return self.bytes.decode(errors="replace").replace("\r\n", "\n")

    def _read_some(self, seconds):
        """Adds what comes within this time. False at the end: nobody holds the terminal any more (EIO)."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            piece = os.read(self.master, 65536)
        except OSError as error:
            assert error.errno == errno.EIO, error
            return False
        self.bytes += piece
        return bool(piece)

    def read(self, until=None):
        """Reads to the end, or until this text has come."""
        deadline = time.monotonic() + 20
        while until is None or until not in self.text:
            is_open = self._read_some(1)
            assert is_open or until is None, self.text
            if not is_open:
                break
            assert time.monotonic() < deadline, self.text
        return self.text

    def type(self, keys):
        os.write(self.master, keys.encode())

    def type_until_end(self, keys):
        """Types again and again: a program that handles Ctrl-C drops what was typed meanwhile."""
        deadline = time.monotonic() + 20
        while self.program.poll() is None and self._read_some(0.1):
            assert time.monotonic() < deadline, self.text
            self.type(keys)

    def end(self):
        """What was shown, and the exit code."""
        self.read()
        os.close(self.master)
        return self.text, self.program.wait(timeout=20)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


NO_PAGER = {"MUSTER_PAGER": ""}


@pytest.mark.parametrize("words, environment, is_colored", [
    (["muster", "jobs", "--help"], {}, True),
    (["muster", "jobs", "--help", "--color", "never"], {}, False),
    (["muster", "jobs", "--help"], {"NO_COLOR": "1"}, False),
    (["muster", "jobs", "--help"], {"TERM": "dumb"}, False),
    (["muster", "jobs", "--help"], {"TERM": "dumb", "CLICOLOR_FORCE": "1"}, True),
    (["muster", "--color=always", "jobs", "-h"], {"NO_COLOR": "1"}, True),
    (["muster", "help", "torchrun"], {}, True),
    (["hvdrun", "--help"], {}, True),
    (["launcherd", "-h"], {}, True)])
def test_colors_on_a_terminal(words, environment, is_colored):
    text, code = Pty(*words, env=NO_PAGER | environment).end()
    assert code == 0 and plain(text).startswith("Usage: "), text
    assert ("\x1b[1mUsage:\x1b[0m" in text, "\x1b[36m" in text) == (is_colored, is_colored), text
    assert is_colored or "\x1b" not in text


def test_no_colors_in_a_pipe():
    env = {"PATH": "/usr/bin:/bin", "TERM": "xterm", "CLICOLOR_FORCE": "1"}
    for words in (["muster", "--help"], ["hvdrun", "-h"], ["muster", "doctor", "--help"], ["hvdrun", "--hots"]):
        result = subprocess.run([BIN_DIR / words[0], *words[1:]], capture_output=True, env=env, timeout=60)
        assert b"\x1b" not in result.stdout + result.stderr, result
    assert "\x1b[1mUsage:" in answer("muster", "--color", "always", "submit", "--help")


@pytest.mark.parametrize("words", [["hvdrun", "--hots"], ["muster", "jobs", "--hots"], ["muster", "submit", "--hots"],
                                   ["muster", "nosuch"], ["launcherd", "--hots"], ["muster", "torchrun", "--hots"]])
def test_mistakes_are_marked_on_a_terminal(words):
    text, code = Pty(*words).end()
    assert code == 2 and re.match(r"\x1b\[1;31m[a-z ]+:\x1b\[0m unknown ", text), text
    text, code = Pty(words[0], "--color", "never", *words[1:]).end()
    assert code == 2 and re.match(r"[a-z ]+: unknown ", text), text


def test_the_rank_that_failed_is_marked_on_a_terminal(hvdrun, cluster, no_leftovers):
    args = ["-np", "2", "-H", "n1,n2", "sh", "-c", "[ $MUSTER_RANK = 0 ] && sleep 1000; exit 3"]
    ended = Watched(hvdrun, cluster, args, terminal=True, env={"TERM": "xterm"}).end()
    assert ended.rc == 3 and "hvdrun: \x1b[1;31mrank 1 on n2\x1b[0m (pid " in ended.stdout, ended
    ended = Watched(hvdrun, cluster, ["--color", "never", *args], terminal=True, env={"TERM": "xterm"}).end()
    assert ended.rc == 3 and "hvdrun: rank 1 on n2 (pid " in ended.stdout, ended
    result = hvdrun(args, env={"TERM": "xterm"})
    assert result.rc == 3 and "hvdrun: rank 1 on n2 (pid " in result.stderr and "\x1b" not in result.stdout + result.stderr
    too_many = Watched(hvdrun, cluster, ["-np", "9", "-H", "n1:1", "true"], terminal=True, env={"TERM": "xterm"}).end()
    assert too_many.rc == 2 and too_many.stdout.startswith("\x1b[1;31mhvdrun:\x1b[0m not enough slots"), too_many


@pytest.mark.parametrize("columns, longest", [(60, 60), (100, 100), (200, 110), (30, 60)])
def test_help_is_as_wide_as_the_terminal(columns, longest):
    text, code = Pty("hvdrun", "--help", columns=columns, env=NO_PAGER).end()
    lines = [line for line in plain(text).splitlines() if not line.startswith("  hvdrun ")]
    assert code == 0 and longest - 3 <= max(map(len, lines)) <= longest, max(lines, key=len)
    result = subprocess.run([BIN_DIR / "hvdrun", "--help"], capture_output=True, text=True, timeout=60,
                            env={"PATH": "/usr/bin:/bin", "COLUMNS": "70"})
    lines = [line for line in result.stdout.splitlines() if not line.startswith("  hvdrun ")]
    assert 67 <= max(map(len, lines)) <= 70


@pytest.mark.skipif(not shutil.which("less"), reason="less is not installed")
def test_long_help_goes_through_the_pager():
    shown = Pty("hvdrun", "--help")
    shown.read(until="Ranks")
    shown.type("\x03")  # less takes Ctrl-C itself
    shown.type_until_end("q")
    text, code = shown.end()
    assert code == 0 and "Usage: hvdrun" in plain(text) and "Exit code" not in text, text
    text, code = Pty("hvdrun", "-h", rows=60).end()  # short enough: no pager
    assert code == 0 and "--help shows everything." in text


def test_other_pagers_and_none():
    text, code = Pty("hvdrun", "--help", env={"PAGER": "sed -n 's/^/> /p;3q'"}).end()
    assert code == 0 and [line[:2] for line in text.splitlines()] == ["> "] * 3, text
    text, code = Pty("hvdrun", "--help", env={"PAGER": "false"}).end()
    assert (text, code) == ("", 0)
    for nothing in ({"MUSTER_PAGER": "cat", "PAGER": "false"}, {"MUSTER_PAGER": "", "PAGER": "false"}, {"TERM": "dumb"}):
        text, code = Pty("hvdrun", "--help", env=nothing).end()
        assert code == 0 and "Exit code:" in text and "(END)" not in text, text
    text, code = Pty("hvdrun", "--help", env={"PAGER": "/nowhere/pager"}).end()
    assert code == 0 and "Exit code:" in text, text
    sleeper = Pty("hvdrun", "--help", env={"PAGER": "echo up; exec sleep 60"})
    sleeper.read(until="up\n")
    sleeper.type("\x03")
    text, code = sleeper.end()
    assert (text.replace("^C", ""), code) == ("up\n", 0)


NO_JSON = {
    "attach": "shows a job to a person; logs -f --json and events -f --json are for programs",
    "render": "its answer is a script",
    "trace": "its answer is JSON of another program",
    "exec": "its answer is what the command writes",
    "shell": "its answer is what the shell writes",
    "cp": "its answer is a file",
    "report": "its answer is a page, or a file; events --json has what it shows",
}


def test_every_verb_answers_in_json():
    """Or says here why not. The help names the message."""
    for verb in muster_verbs():
        text = answer("muster", verb, "--help")
        has_json = re.search(r"^  --json +\S", text, re.MULTILINE) is not None
        assert has_json != (verb in NO_JSON), verb


@pytest.fixture(scope="module")
def queue(tmp_path_factory):
    """The environment of a launcherd of ours, whose two jobs are held, so that it asks no host."""
    folder = tmp_path_factory.mktemp("queue")
    (folder / "run").mkdir(mode=0o700)
    (folder / "hosts.txt").write_text("n1\n")
    (folder / "logs").mkdir()
    environment = {"PATH": f"{BIN_DIR}:/usr/bin:/bin", "XDG_RUNTIME_DIR": str(folder / "run"), "HOME": str(folder)}
    daemon = subprocess.Popen([BIN_DIR / "launcherd", "-H", "nowhere1:4,nowhere2:4", "--state", folder / "state"],
                              env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert "serving unix:" in daemon.stderr.readline()
        ids = {}
        for name in ("night", "day"):
            result = subprocess.run([BIN_DIR / "muster", "submit", "--hold", "--json", "--name", name, "--", "./train.sh"],
                                    env=environment, capture_output=True, text=True, check=True, timeout=60)
            ids[name] = json.loads(result.stdout)["job_id"]
        yield folder, environment, ids
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)


def shells():
    """Every shell, and bash with Debian's package of completions."""
    yield from ("bash", "zsh", "fish")
    yield "bash bash-completion"


@pytest.mark.parametrize("name", shells())
def test_tab_in_a_real_shell(name, queue, tmp_path):
    shell, folder, environment, ids = name.split()[0], *queue
    package = pathlib.Path("/usr/share/bash-completion/bash_completion")
    if not shutil.which(shell) or " " in name and not package.exists():
        pytest.skip(f"{name} is not installed")
    scripts = [package] if " " in name else []
    for program in PROGRAMS:
        scripts.append(tmp_path / program)
        scripts[-1].write_text(answer(program, "--completion", shell))
    whole = {
        **{f"muster {verb} --hel": f"muster {verb} --help" for verb in muster_verbs()},
        "muster templ": "muster templates",
        "muster --man comp": "muster --man compat",
        "muster kill --no": "muster kill --now",
        "muster kill ni": "muster kill night",
        f"muster status {ids['day'][:6]}": f"muster status {ids['day']}",
        "muster kill night da": "muster kill night day",
        "muster hosts dr": "muster hosts drain",
        "muster hosts resume nowhere2": "muster hosts resume nowhere2",
        "muster templates show polar": "muster templates show polaris",
        "muster render -t polaris --proj": "muster render -t polaris --project",
        "hvdrun --on-hang k": "hvdrun --on-hang kill",
        "hvdrun --on-hang=k": "hvdrun --on-hang=kill",
        "hvdrun --hostfile ho": "hvdrun --hostfile hosts.txt",
        "hvdrun --hostfile=ho": "hvdrun --hostfile=hosts.txt",
        "hvdrun -np 2 hostna": "hvdrun -np 2 hostname",
        "hvdrun -np 2 cat ho": "hvdrun -np 2 cat hosts.txt",
        "hvdrun -np 1 true : --on-hang k": "hvdrun -np 1 true : --on-hang kill",
        "hvdrun -H nowhere1:4,nowh": "hvdrun -H nowhere1:4,nowhere2",
        "hvdrun -x XDG_RUNTIM": "hvdrun -x XDG_RUNTIME_DIR",
        "launcherd --http-w": "launcherd --http-write",
    }
    with shell_tab.Tab(shell, folder, scripts, environment) as tab:
        assert {line: tab.complete(line) for line in whole} == whole
        assert tab.complete("hvdrun --wdir lo").rstrip("/") == "hvdrun --wdir logs"
        jobs = tab.offers("muster kill ")
        assert all(word in jobs for word in (ids["night"], ids["day"], "night", "day", "HELD", "./train.sh")), jobs
        for foreign in ("hosts.txt", "bash", "logs"):  # no file and no program is a job
            assert not re.search(rf"\b{re.escape(foreign)}\b", jobs), jobs
        hosts = tab.offers("muster hosts drain ")
        assert "nowhere1" in hosts and "nowhere2" in hosts and "localhost" not in hosts, hosts
        assert "warn" in tab.offers("hvdrun --on-hang ")
        assert "muster" not in tab.offers("hvdrun -np ").replace("MARK", "").replace("hvdrun", "")


def test_a_tab_without_a_launcherd_or_with_a_suspended_one(queue, tmp_path):
    """It prints nothing at all, at once."""
    environment = queue[1] | {"XDG_RUNTIME_DIR": str(tmp_path)}
    ask = [BIN_DIR / "muster", "__complete", "kill", ""]
    none = subprocess.run(ask, env=environment, capture_output=True, timeout=60)
    assert (none.returncode, none.stdout, none.stderr) == (0, b"", b"")
    with socket.socket(socket.AF_UNIX) as deaf:  # takes the connection and never answers
        (tmp_path / "muster").mkdir(mode=0o700)
        deaf.bind(str(tmp_path / "muster" / "launcherd.sock"))
        deaf.listen()
        begin = time.monotonic()
        none = subprocess.run(ask, env=environment, capture_output=True, timeout=60)
        assert (none.returncode, none.stdout, none.stderr) == (0, b"", b"")
        assert time.monotonic() - begin < 5  # 0.3 s on a machine that is not busy


def test_a_program_that_is_named_like_the_hidden_verb(tmp_path):
    """hvdrun runs it behind --, or by its path."""
    table = answer("hvdrun", "--dry-run", "-H", "nowhere:1", "--", "__complete")
    assert "nowhere" in table, table
    assert answer("hvdrun", "__complete", "--on-hang", "k") == "kill\n"


def test_an_empty_list_of_jobs_says_so_on_a_terminal(queue, tmp_path):
    environment = queue[1] | {"XDG_RUNTIME_DIR": str(tmp_path)}
    quiet = subprocess.run([BIN_DIR / "muster", "jobs"], env=environment, capture_output=True, text=True, timeout=60)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    ours, theirs = pty.openpty()
    seen = subprocess.run([BIN_DIR / "muster", "jobs"], env=environment, stdout=subprocess.PIPE, stderr=theirs, timeout=60)
    os.close(theirs)
    assert (seen.returncode, seen.stdout) == (0, b"")
    told = os.read(ours, 4096).decode()
    os.close(ours)
    assert "muster jobs: no job runs or waits: muster jobs --all also lists those that have ended" in told
