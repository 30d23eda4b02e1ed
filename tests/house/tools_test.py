"""tools/quickstart and tools/test before they build anything: help, mistakes, a full disk, progress."""
import os
import pathlib
import subprocess

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


def test_quickstart_says_how_long_it_takes_and_stops_where_the_disk_is_too_small(tmp_path):
    path = program(tmp_path, "df", "echo Avail; echo 12M")
    result = run("tools/quickstart", PATH=path)
    assert result.returncode == 1
    assert "minutes on" in result.stdout and "MiB of disk" in result.stdout
    assert f"{ROOT} has 12 MiB left" in result.stderr


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
