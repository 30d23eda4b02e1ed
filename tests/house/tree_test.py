"""house.readme, house.mirror and house.subjects find planted violations, and nothing in a clean tree."""
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mirror  # noqa: E402
import readme  # noqa: E402
import subjects  # noqa: E402

README = "# base\nWhat all rooms use.\n\n| file | what |\n|---|---|\n| `a.h` | a |\n\n## Threads\nNone.\n\n## Does not belong here\nIt.\n"


def plant(root, path, text=""):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_readme_in_order(tmp_path):
    plant(tmp_path, "base/a.h")
    plant(tmp_path, "base/README.md", README + "Prose may name `gone.h`.\n")
    assert readme.check_tree(tmp_path) == []


def test_rooms_and_folders_of_many_files_need_a_readme(tmp_path):
    plant(tmp_path, "base/README.md", README.replace("`a.h`", "`big`, `base/big/0.cc` and `big/1.cc`"))
    for number in range(11):
        plant(tmp_path, f"base/big/{number}.cc")
        plant(tmp_path, f"base/data/{number}.yaml")
    for number in range(10):
        plant(tmp_path, f"base/small/{number}.cc")
    plant(tmp_path, "python/muster/a.py")
    violations = readme.check_tree(tmp_path)
    assert [violation.split(" ")[0] for violation in violations] == ["base/big/README.md", "python/README.md"]


@pytest.mark.parametrize(("text", "problem"), [
    (README + "x\n" * 29, "base/README.md: has 41 lines: shorten it to 40"),
    (README.replace("## Threads", "## Thread"), 'base/README.md: the section "## Threads" is missing'),
    (README.replace("## Does", "### Does"), 'base/README.md: the section "## Does not belong here" is missing'),
    (README.replace("`a.h`", "`a.h`, `gone.cc`"), "base/README.md:6: `gone.cc` is not in base/"),
])
def test_violations_in_a_readme_are_found(tmp_path, text, problem):
    plant(tmp_path, "base/a.h")
    plant(tmp_path, "base/README.md", text)
    assert readme.check_tree(tmp_path) == [problem]


LIST = mirror.write_list((["base/b.cc"], ["tests/unit/base/d_test.cc"]))


def plant_mirror(root):
    """A tree of which LIST says what is so: b.cc has no test, d_test.cc no file."""
    for path in ("base/a.cc", "base/b.cc", "base/c.h", "tests/unit/base/a_test.cc", "tests/unit/base/c_test.cc",
                 "tests/unit/base/d_test.cc"):
        plant(root, path)


def test_mirror_in_order(tmp_path):
    plant_mirror(tmp_path)
    assert LIST.startswith("1 files without a test, 1 tests without a file\n")
    assert mirror.differences(tmp_path, LIST) == []


def test_mirror_finds_files_without_tests_and_tests_without_files(tmp_path):
    plant_mirror(tmp_path)
    plant(tmp_path, "launcherd/run/new.cc")
    plant(tmp_path, "tests/unit/base/odd_test.cc")
    assert mirror.differences(tmp_path, LIST) == [
        "launcherd/run/new.cc: has no test: write tests/unit/launcherd/run/new_test.cc",
        "tests/unit/base/odd_test.cc: tests no file of its name: call it after the file that it tests"]


def test_mirror_finds_stale_entries(tmp_path):
    plant_mirror(tmp_path)
    plant(tmp_path, "tests/unit/base/b_test.cc")
    (tmp_path / "tests/unit/base/d_test.cc").unlink()
    tested, gone = mirror.differences(tmp_path, LIST)
    assert "base/b.cc is as it should be now" in tested
    assert "tests/unit/base/d_test.cc is gone" in gone


@pytest.mark.parametrize(("text", "problem"), [
    (LIST.replace("1 files", "2 files"), "says 2 and 1, but the list has 1 files and 1 tests"),
    (LIST.replace("1 tests", "0 tests"), "says 1 and 0, but the list has 1 files and 1 tests"),
    (LIST.replace("1 files", "one files"), "the first line must be"),
    (LIST.replace("1 files", "2 files").replace("base/b.cc\n", "base/b.cc\nbase/b.cc\n"), "base/b.cc stands there twice"),
])
def test_mirror_counts_its_list(tmp_path, text, problem):
    plant_mirror(tmp_path)
    (found,) = mirror.differences(tmp_path, text)
    assert problem in found


def test_mirror_list_shrinks_and_follows_renames_but_never_grows(tmp_path):
    plant_mirror(tmp_path)
    (tmp_path / "base/b.cc").rename(tmp_path / "base/renamed.cc")
    shrunk = mirror.change_list(tmp_path, LIST, is_renamed=False)
    assert shrunk == mirror.write_list(([], ["tests/unit/base/d_test.cc"]))
    renamed = mirror.change_list(tmp_path, LIST, is_renamed=True)
    assert mirror.differences(tmp_path, renamed) == []
    plant(tmp_path, "base/more.cc")
    assert mirror.change_list(tmp_path, LIST, is_renamed=True) is None


@pytest.mark.parametrize("subject", [
    "launcherd: reject impossible requests", "agent, docs: describe strays", "ci: feed the cache", "house: a-b c",
    f"cli: add {'x' * 63}",
])
def test_subjects_in_order(subject):
    assert subjects.problem_of(subject) is None


@pytest.mark.parametrize(("subject", "problem"), [
    (f"cli: add {'x' * 64}", "has 73 columns: shorten it to 72"),
    ("reject impossible requests", "is not `room: verb object`"),
    ("cli:reject requests", "is not `room: verb object`"),
    ("cli: reject", "is not `room: verb object`"),
    ("wip: move files", "wip is no room; use one of: base, model"),
    ("cli, web: move files", "web is no room"),
    ("cli: Reject requests", "Reject: begin with a verb in lower case"),
    ("cli: --dry-run shows files", "--dry-run: begin with a verb in lower case"),
    ("cli: who names hosts is refused", "who: begin with a verb in the imperative"),
    ("cli: rejected requests", "rejected: begin with a verb in the imperative"),
    ("cli: rejecting requests", "rejecting: begin with a verb in the imperative"),
])
def test_violations_in_subjects_are_found(subject, problem):
    assert subjects.problem_of(subject).startswith(problem)


def git(root, *words):
    command = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def commit(root, subject):
    git(root, "commit", "-q", "--allow-empty", "-m", subject)
    return git(root, "rev-parse", "HEAD")


def test_subjects_of_a_history(tmp_path):
    assert subjects.check_history(tmp_path, "HEAD") is None
    whole, shallow = tmp_path / "whole", tmp_path / "shallow"
    git(tmp_path, "init", "-q", whole)
    commit(whole, "Of old times")
    first = commit(whole, "Of the last of them")
    assert subjects.check_history(whole, first) == []
    commit(whole, "cli: reject requests")
    wrong = commit(whole, "cli: of requests")
    (violation,) = subjects.check_history(whole, first)
    assert violation == f"{wrong[:7]}: of: begin with a verb in the imperative: cli: of requests"
    assert subjects.check_history(whole, "0" * 40) is None
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{whole}", shallow)
    assert subjects.check_history(shallow, git(shallow, "rev-parse", "HEAD")) is None
