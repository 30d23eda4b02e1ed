"""cmake/suites.cmake: the ctest entries of a program of tests, and what stops the build."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = """Running main() from gtest_main.cc
Plain.
  Works
Levels/Leveled.
  Holds/0  # GetParam() = 1
  Holds/1  # GetParam() = 2
"""


def entries(folder, unit, local, listed=LIST):
    """Runs the script over files with these suites; its result, and the entries that it wrote."""
    for name, text in {"unit_test.cc": unit, "local_test.cc": local}.items():
        (folder / name).write_text(text)
    program = folder / "program"
    program.write_text(f"#!/bin/sh\ncat <<'E'\n{listed}E\n")
    program.chmod(0o755)
    output = folder / "suites.cmake"
    run = subprocess.run(["cmake", "-DNAME=some_test", f"-DPROGRAM={program}", f"-DFOLDER={folder}", "-DUNIT=unit_test.cc",
                          "-DLOCAL=local_test.cc", "-DTIMEOUT=60", "-DHALVES=1", f"-DDIRECTORY={folder}", f"-DOUTPUT={output}", "-P",
                          str(ROOT / "cmake/suites.cmake")], capture_output=True, text=True, timeout=60)
    return run, output.read_text() if output.exists() else ""


def test_each_suite_is_an_entry_with_the_label_of_its_file(tmp_path):
    run, written = entries(tmp_path, "TEST(Plain, Works) {\n", "TEST_P(Leveled, Holds) {\n")
    assert run.returncode == 0, run.stderr
    assert written.count("add_test(") == 2
    plain, leveled = written.split("add_test(")[1:]
    assert '"some_test.Plain"' in plain and "LABELS unit" in plain
    assert '"some_test.Leveled"' in leveled and "LABELS local" in leveled
    assert "--gtest_filter=Leveled.*:*/Leveled.*" in leveled


def test_a_suite_of_no_listed_file_stops_the_build(tmp_path):
    run, _ = entries(tmp_path, "TEST(Plain, Works) {\n", "")
    assert run.returncode != 0
    assert "suite Leveled is in no file" in run.stderr


def test_a_suite_of_two_files_stops_the_build(tmp_path):
    run, _ = entries(tmp_path, "TEST(Plain, Works) {\n", "TEST_P(Leveled, Holds) {\nTEST(Plain, Too) {\n")
    assert run.returncode != 0
    assert "suite Plain is in local_test.cc and in unit_test.cc" in " ".join(run.stderr.split())
