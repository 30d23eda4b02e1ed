"""Commands of README.md and docs/ that could rot: they are run here as they stand there."""

import re
import shlex
import signal
import subprocess

import pytest
from conftest import BIN_DIR, REPOSITORY
from console import Watched
from launcherd_user import Launcherd

LIBRARIES = BIN_DIR.parent / "lib"


def code_blocks(document):
    """Texts of the blocks of a page, fenced or indented."""
    text = (REPOSITORY / document).read_text()
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return fenced + re.findall(r"(?:^    \S.*\n(?:^(?:    .*)?\n)*)", text, re.MULTILINE)


def hvdrun_lines(document):
    """Arguments of the lines that run hvdrun, without comments and what an output shows."""
    for block in code_blocks(document):
        for line in block.splitlines():
            found = re.match(r" *(?:build/release/bin/)?hvdrun (.*)", line)
            if found and "…" not in line and "..." not in line:
                yield shlex.split(found.group(1), comments=True)


README_LINES = list(hvdrun_lines("README.md"))


def test_readme_has_lines():
    assert len(README_LINES) >= 5, README_LINES


@pytest.mark.parametrize("words", README_LINES, ids=shlex.join)
def test_readme_lines_can_be_placed(hvdrun, cluster, words):
    """On the four hosts that README.md speaks of. What the ranks would run is not there."""
    can_be_placed(hvdrun, cluster, words)


PAGES_OF_OTHERS = ["docs/guide/coming-from.md",
                   *(f"docs/coming-from/{file.name}" for file in sorted((REPOSITORY / "docs/coming-from").glob("*.md")))]
# Both columns of the tables: what a cell names `hvdrun ...` is a whole command.
OTHERS_LINES = sorted({line for page in PAGES_OF_OTHERS
                       for line in re.findall(r"`hvdrun ([^`]*)`", (REPOSITORY / page).read_text())
                       if "--check-build" not in line and "--dry-run" not in line})
TORCHRUN_LINES = sorted({line for page in PAGES_OF_OTHERS
                         for line in re.findall(r"`muster torchrun ([^`]*)`", (REPOSITORY / page).read_text())})


@pytest.mark.parametrize("line", OTHERS_LINES)
def test_lines_for_those_who_come_from_other_launchers_can_be_placed(hvdrun, cluster, line):
    words = shlex.split(line)
    if not {"-H", "--hostfile"} & set(words):  # hosts come from Slurm
        words = ["-H", "n1:4,n2:4,n3:4,n4:4", "--assume-node", "2x32x1", *words]
    can_be_placed(hvdrun, cluster, words)


@pytest.mark.parametrize("line", TORCHRUN_LINES)
def test_lines_for_those_who_come_from_torchrun_can_be_placed(cluster, line):
    told = cluster.run("head", "alice", [BIN_DIR / "muster", "torchrun", "--dry-run", *shlex.split(line)], timeout=60)
    assert told.returncode == 0 and re.search(r" 0/\d+ ", told.stdout), told


PAGES = ["README.md", *(file.relative_to(REPOSITORY).as_posix() for file in sorted((REPOSITORY / "docs").rglob("*.md"))
                        if "adr" not in file.parts and file.name != "design.md")]  # whose blocks are diagrams
# Lines that ask nobody and start nothing.
QUIET = re.compile(r"hvdrun (?:--dry-run .*--assume-node|--check-build|--version)|muster (?:render|templates)\b")


def commands_of(page):
    """The lines of a page that run hvdrun or muster, without a prompt, a comment, and what follows the command."""
    for block in code_blocks(page):
        for line in block.splitlines():
            if "job=$(" in line:
                line = line.replace(")", "", 1)
            found = re.match(r" *(?:\$ )?(?:job=\$\()?(?:MUSTER_\w+=\S+ )*((?:hvdrun|muster|launcherd) .*)", line)
            if found and "…" not in line and "..." not in found[1].split(" #")[0]:
                yield re.split(r"\s+#|\s+[|&]+\s|\s+&$|\s+>\s", found[1])[0]


def checked(line):
    """A command that reads the options of the line as it does, and starts nothing; None if there is none."""
    if QUIET.match(line):
        return line
    if line.startswith("muster submit ") and " -t " in line:
        return line.replace("muster submit", "muster render", 1)
    if line.startswith("muster submit "):
        return line.replace(" -- ", " --help -- ", 1) if " -- " in line else None
    if line.startswith("launcherd "):  # --check reads the files that a line names
        line = re.sub(r"--hostfile \S+", "--hostfile hosts", line)
        return None if re.search("--tls|--config-file", line) else line.replace("launcherd", "launcherd --check", 1)
    if line.startswith("muster torchrun "):
        return line.replace("muster torchrun", "muster torchrun --dry-run --assume-node 2x32x1", 1)
    if re.match(r"muster (?!dmlc)", line) and not re.search(r"\b(JOB|FILE|VERB)\b", line):
        # muster reads no option after --, because those words belong to a command.
        return line.replace(" -- ", " --help -- ", 1) if " -- " in line else line + " --help"
    has_own_end = re.search(r" --(dry-run|man|completion|help|print-config)\b", line)
    return line.replace("hvdrun", "hvdrun --print-config", 1) if line.startswith("hvdrun ") and not has_own_end else None


CHECKED = {page: [line for line in map(checked, commands_of(page)) if line] for page in PAGES}


@pytest.mark.parametrize("page", [page for page, lines in CHECKED.items() if lines])
def test_options_of_a_page_are_known(cluster, page):
    """One shell for all lines: quotes and variables are the shell's."""
    text = "".join(f"({line}\n) >/dev/null 2>error || {{ echo {shlex.quote(line)}; cat error; }}\n"
                   for line in CHECKED[page])
    script = f"cd $(mktemp -d); PATH={BIN_DIR}:$PATH; echo n1:4 >hosts\n{text}\nrm -r $PWD"
    told = cluster.run("head", "alice", ["sh", "-c", script], timeout=120)
    assert (told.returncode, told.stdout) == (0, ""), told


def test_pages_have_lines():
    assert sum(map(len, CHECKED.values())) >= 100, CHECKED


def can_be_placed(hvdrun, cluster, words):
    hosts = cluster.path("head", "/home/alice/hosts")
    hosts.write_text("n1 slots=4\nn2 slots=4\n")
    try:
        result = hvdrun(["--dry-run", *words], cwd="/home/alice")
    finally:
        hosts.unlink()
    assert result.rc == 0 and re.search(r" (n[1-4]|localhost) ", result.stdout), result


TUTORIAL = (REPOSITORY / "docs/tutorial.md").read_text()
PROGRAM = re.compile(r"`(\w+\.py)`[^`]*(?:`[^`]*`[^`]*)*?\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def steps_of(text):
    """{heading: (programs by their name, [(command, the lines shown below it)])}"""
    steps = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        programs = dict(PROGRAM.findall(section))
        commands = []
        for block in re.findall(r"^```\n(\$ .*?)^```", section, re.DOTALL | re.MULTILINE):
            for line in block.splitlines():
                if line.startswith("$ "):
                    commands.append((line[2:], []))
                else:
                    commands[-1][1].append(line)
        steps[section.split("\n")[0]] = (programs, commands)
    return steps


STEPS = steps_of(TUTORIAL)


@pytest.fixture
def at_home(cluster):
    """at_home(command) runs it by a shell at alice's home on head; what it wrote there goes after the test."""
    home = cluster.path("head", "/home/alice")
    before = set(home.iterdir())

    def run(command, timeout=60):
        told = cluster.run("head", "alice", ["bash", "-c", f"PATH={BIN_DIR}:/usr/bin:/bin; {command}"], timeout=timeout,
                           cwd="/home/alice")
        return told.stdout + told.stderr

    yield run
    for new in set(home.iterdir()) - before:
        cluster.run("head", "root", ["rm", "-rf", f"/home/alice/{new.name}"], check=True)


def save(cluster, programs):
    for name, text in programs.items():
        cluster.path("head", f"/home/alice/{name}").write_text(text)


def check_steps(run, commands, context=""):
    """Runs commands that may use variables of earlier ones, and looks for the lines that the tutorial shows."""
    for command, lines in commands:
        shown = run(context + command)
        for line in lines:
            assert line in shown, (command, line, shown)
        if re.match(r"job=", command):
            context += command + "; "


def test_the_tutorial_has_steps():
    assert len(STEPS) == 10 and sum(len(commands) for _, commands in STEPS.values()) >= 20, STEPS


@pytest.mark.parametrize("step", [name for name, (_, commands) in STEPS.items()
                                  if commands and not re.match("[67]", name)])
def test_a_step_of_the_tutorial(cluster, at_home, no_leftovers, step):
    programs, commands = STEPS[step]
    save(cluster, STEPS["1. On this machine"][0] | programs)
    check_steps(at_home, commands)
    for host in cluster.nodes:
        cluster.path(host, "/home/alice/hello.py").unlink(missing_ok=True)  # staged


def test_the_tutorials_job_is_watched_and_killed(hvdrun, cluster, at_home, no_leftovers):
    programs, commands = STEPS["6. Look at a job from another terminal"]
    save(cluster, programs)
    assert "`hvdrun -np 2 python3 slow.py`" in TUTORIAL
    job = Watched(hvdrun, cluster, ["-np", "2", "python3", "slow.py"], cwd="/home/alice")
    job.out.wait_for("begun", count=2)
    name = at_home("muster jobs --json").split('"id":"')[1].split('"')[0]
    check_steps(at_home, [(re.sub(r"\bJOB\b", name, command), lines) for command, lines in commands])
    assert job.end().rc == 143


def test_the_tutorials_launcherd(hvdrun, cluster, at_home, no_leftovers):
    _, commands = STEPS["7. Jobs that outlive your terminal"]
    (start, _), (submit, _), *rest = commands
    words = shlex.split(start)
    assert words[:2] == ["launcherd", "-H"] and submit.startswith("job=$("), commands
    launcherd = Launcherd(hvdrun, cluster, *words[3:], hosts=words[2])
    try:
        job = at_home(f"{submit}; echo $job").strip()
        check_steps(at_home, rest, f"job={job}; ")
    finally:
        launcherd.close()


def test_the_recipe_of_certificates(hvdrun, cluster, at_home, no_leftovers):
    """A caller by TCP is let in. Then its certificate is revoked."""
    text = (REPOSITORY / "docs/operations.md").read_text()
    issue, revoke = (re.findall(r"^    (.*)\n", section.split("\n### ")[0], re.MULTILINE)
                     for section in text.split("With openssl")[1:])
    *issue, start, jobs = issue
    assert start.startswith("launcherd ") and jobs.startswith("muster jobs ") and len(issue) == 8 and len(revoke) == 5, issue

    def follow(lines):
        told = at_home("set -e; umask 022\n" + "\n".join(lines) + "\necho well")
        assert "well\n" in told, told

    def jobs_are_listed_by(*more):
        launcherd = Watched(hvdrun, cluster, cwd="/home/alice",
                            argv=[BIN_DIR / "launcherd", *shlex.split(start)[1:], "--state", "/home/alice/state", *more])
        launcherd.err.wait_for("serving ")
        told = at_home(f"{jobs}; echo rc $?")
        launcherd.signal(signal.SIGTERM)
        assert launcherd.end().rc == 0
        return told

    follow(issue)
    assert "rc 0\n" in (told := jobs_are_listed_by()), told
    follow(revoke)
    assert "this certificate is revoked" in (told := jobs_are_listed_by("--client-crl", "crl.pem")), told


@pytest.fixture
def example(tmp_path):
    """The C++ program of docs/collectives.md, built by its own command; and how it is to be run."""
    if not (LIBRARIES / "libmuster.so").exists():
        pytest.skip(f"{LIBRARIES}/libmuster.so is not built")
    text = (REPOSITORY / "docs/collectives.md").read_text()
    (tmp_path / "train.cc").write_text(re.search(r"```cpp\n(.*?)```", text, re.DOTALL).group(1))
    compile_line, run_line = re.search(r"^    (g\+\+ .*)\n    hvdrun (.*)\n", text, re.MULTILINE).groups()
    # Its paths are those of a reader in the tree, with the release build.
    compile_line = re.sub(r"(\$PWD/)?build/release/lib", str(LIBRARIES), compile_line)
    compile_line = compile_line.replace("collectives/include", str(REPOSITORY / "collectives/include"))
    subprocess.run(compile_line, shell=True, cwd=tmp_path, check=True, timeout=300)
    return tmp_path / "train", shlex.split(run_line)


def test_the_example_of_collectives_runs(hvdrun, cluster, example, no_leftovers):
    program, words = example
    assert words[-1] == "./train", words
    for host in cluster.nodes:
        target = cluster.path(host, "/home/alice/train")
        target.write_bytes(program.read_bytes())
        target.chmod(0o755)
    try:
        # Four ranks instead of 16: this machine has few cores.
        result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", "--wdir", "/home/alice", "./train"], timeout=120)
        assert (result.rc, result.stdout) == (0, ""), result
    finally:
        for host in cluster.nodes:
            cluster.path(host, "/home/alice/train").unlink()
