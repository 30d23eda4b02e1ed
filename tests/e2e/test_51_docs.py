"""Commands of README.md and docs/ that could rot: they are run here as they stand there."""

import re
import shlex
import subprocess

import pytest
from conftest import BIN_DIR, REPOSITORY

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


# Both columns of the tables: what a cell names `hvdrun ...` is a whole command.
OTHERS_LINES = [shlex.split(line) for line in re.findall(
    r"`hvdrun ([^`]*)`", (REPOSITORY / "docs/guide/coming-from.md").read_text()) if "--check-build" not in line]


@pytest.mark.parametrize("words", OTHERS_LINES, ids=shlex.join)
def test_lines_for_those_who_come_from_other_launchers_can_be_placed(hvdrun, cluster, words):
    if not {"-H", "--hostfile"} & set(words):  # hosts come from Slurm
        words = ["-H", "n1:4,n2:4,n3:4,n4:4", "--assume-node", "2x32x1", *words]
    can_be_placed(hvdrun, cluster, words)


def can_be_placed(hvdrun, cluster, words):
    hosts = cluster.path("head", "/home/alice/hosts")
    hosts.write_text("n1 slots=4\nn2 slots=4\n")
    try:
        result = hvdrun(["--dry-run", *words], cwd="/home/alice")
    finally:
        hosts.unlink()
    assert result.rc == 0 and re.search(r" (n[1-4]|localhost) ", result.stdout), result


def test_the_tutorial_of_the_first_two_steps(hvdrun, cluster, no_leftovers):
    """Its programs and commands, and the lines that it shows."""
    text = (REPOSITORY / "docs/tutorial.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    shown = re.findall(r"^```\n\$ hvdrun (.*)\n((?:.+\n)+)```", text, re.MULTILINE)[:2]
    for program, (command, lines), ends_well in zip(programs, shown, (True, False), strict=True):
        words = shlex.split(command)
        script = cluster.path("head", f"/home/alice/{words[-1]}")
        script.write_text(program)
        result = hvdrun(words, cwd="/home/alice")
        script.unlink()
        assert (result.rc == 0) == ends_well, result
        for line in lines.splitlines():
            assert line in result.stdout + result.stderr, (line, result)


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
