"""tools/quickstart and tools/test before they build anything: help, mistakes, a full disk, progress."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **env):
    return subprocess.run(command, cwd=ROOT, env=dict(os.environ, **env), capture_output=True, text=True, timeout=60)


def program(folder, name, script):
    """A program that a script finds before the machine's own."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_help_tells_the_options():
    quickstart, tests = run("tools/quickstart", "--help"), run("tools/test", "--help")
    assert (quickstart.returncode, tests.returncode) == (0, 0)
    assert "--gpu" in quickstart.stdout
    assert "--all" in tests.stdout and "tidy" in tests.stdout


def test_a_mistake_is_usage_error():
    for command in ("tools/quickstart", "tools/test"):
        result = run(command, "--gpus")
        assert result.returncode == 2
        assert "unknown option '--gpus'" in result.stderr


@pytest.mark.parametrize(("name", "target", "selection"), [
    ("launcherd_run_test", "launcherd_run_test", "-R ^launcherd_run_test"),
    ("launcherd_run_test.PeerFailures", "launcherd_run_test", "-R ^launcherd_run_test\\.PeerFailures"),
    ("e2e.03", "all", "-R ^e2e\\.03"),
    ("unit", "all", "-L ^unit$")])
def test_a_name_builds_what_it_needs_and_runs_its_tests(tmp_path, name, target, selection):
    """The build and the tests are played: which are asked for is looked at."""
    program(tmp_path, "dpkg-query", "echo install ok installed")
    program(tmp_path, "ninja", '[ "$5" = launcherd_run_test ]')  # -C build/release -t query NAME
    program(tmp_path, "cmake", f'echo "cmake $*" >>{tmp_path}/asked')
    path = program(tmp_path, "ctest", f'echo "ctest $*" >>{tmp_path}/asked\n'
                                      'case "$*" in *" -N "*) echo "  Test #1: one";; esac')
    result = run("tools/test", name, PATH=path)
    assert result.returncode == 0, result
    asked = (tmp_path / "asked").read_text().splitlines()
    assert f"cmake --build build/release --target {target}" in asked
    assert asked[-1].startswith("ctest --test-dir build/release --output-on-failure -j ")
    assert asked[-1].endswith(f" {selection}")
    assert asked.index(f"cmake --build build/release --target {target}") < len(asked) - 1


def test_a_name_whose_tests_fail_is_a_failure(tmp_path):
    program(tmp_path, "dpkg-query", "echo install ok installed")
    program(tmp_path, "ninja", "true")
    program(tmp_path, "cmake", "true")
    path = program(tmp_path, "ctest", 'case "$*" in *" -N "*) echo "  Test #1: one";; *) exit 8;; esac')
    assert run("tools/test", "launcherd_run_test", PATH=path).returncode == 8


def test_quickstart_says_how_long_it_takes_and_stops_where_the_disk_is_too_small(tmp_path):
    path = program(tmp_path, "df", "echo Avail; echo 12M")
    result = run("tools/quickstart", PATH=path)
    assert result.returncode == 1
    assert "minutes on" in result.stdout and "MiB of disk" in result.stdout
    assert f"{ROOT} has 12 MiB left" in result.stderr


def test_quickstart_builds_pages_and_completions_too(tmp_path):
    """The build itself is played: it fails, and nothing is started after it."""
    program(tmp_path, "df", "echo Avail; echo 99999M")
    program(tmp_path, "dpkg-query", "echo install ok installed")
    path = program(tmp_path, "cmake", f'echo "$*" >>{tmp_path}/asked; [ "$1" = --preset ]')
    assert run("tools/quickstart", PATH=path).returncode != 0
    configure, build = (tmp_path / "asked").read_text().splitlines()
    assert configure.startswith("--preset release")
    assert build.startswith("--build build/release --target ") and "manuals" in build.split()


def test_progress_is_a_line_for_each_tenth(tmp_path):
    steps = "\n".join(f"echo '@{step} 40 {step / 2:.3f} Building {step}'" for step in range(1, 41))
    path = program(tmp_path, "cmake", f"{steps}\nexit 0")
    result = run("bash", "-euo", "pipefail", "-c", ". tools/common.sh; build folder target", PATH=path)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 10
    assert lines[0] == "building: step 4 of 40, 2 s"
    assert lines[-1] == "building: step 40 of 40, 20 s"


def test_a_failed_step_is_shown_and_fails(tmp_path):
    path = program(tmp_path, "cmake", "echo '@1 2 0.100 Building a'; echo 'a.cc:1: error: no'; exit 1")
    result = run("bash", "-euo", "pipefail", "-c", ". tools/common.sh; build folder target", PATH=path)
    assert result.returncode == 1
    assert "a.cc:1: error: no" in result.stdout


def small_tree(folder):
    """A git tree with what tools/dist takes, played by small files."""
    release = folder / "build/release"
    for place in ("bin", "lib", "share/man/man1", "share/bash-completion/completions", "share/zsh/site-functions",
                  "share/fish/vendor_completions.d"):
        (release / place).mkdir(parents=True)
    for name in ("hvdrun", "muster", "launcherd", "muster-agent"):
        shutil.copy("/usr/bin/true", release / "bin" / name)
    shutil.copy("/usr/bin/true", release / "lib/libmuster.so.0.1.0")
    (release / "lib/libmuster.so.0").symlink_to("libmuster.so.0.1.0")
    (release / "lib/libmuster.so").symlink_to("libmuster.so.0")
    (release / "share/man/man1/hvdrun.1").write_text(".TH HVDRUN 1\n")
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools/dist", folder / "tools/dist")
    (folder / "python/muster").mkdir(parents=True)
    (folder / "python/muster/__init__.py").write_text("")
    (folder / "LICENSE").write_text("free\n")
    (folder / ".gitignore").write_text("/build/\n")
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=60)


@pytest.mark.skipif(not pathlib.Path("/usr/include/fmt").exists(), reason="fmt's headers are not installed")
def test_dist_is_whole_and_the_same_each_time(tmp_path):
    small_tree(tmp_path)
    sums = set()
    for umask in (0o022, 0o077):
        for file in tmp_path.rglob("python/**/*"):
            os.utime(file, (umask, umask))
        subprocess.run([tmp_path / "tools/dist"], check=True, umask=umask, capture_output=True, timeout=120)
        sums.add(hashlib.sha256((tmp_path / "build/dist.tar.gz").read_bytes()).hexdigest())
    assert len(sums) == 1
    with tarfile.open(tmp_path / "build/dist.tar.gz") as archive:
        names = archive.getnames()
        library = archive.getmember("dist/lib/libmuster.so.0")
    assert library.issym() and library.linkname == "libmuster.so.0.1.0"
    for name in ("bin/hvdrun", "bin/muster-agent", "lib/libmuster.so.0.1.0", "python/muster/__init__.py", "LICENSE",
                 "share/man/man1/hvdrun.1", "share/bash-completion/completions", "include/fmt/core.h", "lib/libcrypto.a"):
        assert f"dist/{name}" in names, name
