"""psij-python's own tests on Muster's executor (python/muster/adapters/psij.py), and tests of the executor itself.

The tests are those of the released sources, as they are. They run three times: without a launcher of PSI/J, and with the
names "single" and "mpirun". Those that ask for the executor "local" get Muster's.

| left out | because |
|---|---|
| test_executor_loading.py | it tests PSI/J's loader by plugins that the sources lack |
| test_nodefile.py | the script that it runs is not in the sources; launcherd writes no PSIJ_NODEFILE |
| test_issue_387_*.py | the programs that they start are not in the sources |
| test_resources.py, test_nodes | it knows the executors that it runs for by name, and skips itself for others |
"""
from conftest import HERE, copied

LEFT_OUT = ("test_executor_loading.py", "test_nodefile.py", "test_issue_387_1.py", "test_issue_387_2.py", "test_issue_387_3.py")


def test_its_own_tests(peer, tmp_path):
    psij = peer("psij")
    folder = copied(tmp_path / "upstream", psij.sources / "psij-python-0.9.11/tests", HERE / "psij")
    (folder / "test_muster_executor.py").unlink()
    for name in LEFT_OUT:
        (folder / name).unlink()
    counts = psij.run_tests(folder)
    assert counts["passed"] >= 58 and counts["skipped"] == 5, counts  # test_nodes, and test_basic_mpi without mpirun


def test_the_executor(peer, tmp_path):
    counts = peer("psij").run_tests(copied(tmp_path / "ours", HERE / "psij"))
    assert counts["passed"] >= 22 and "skipped" not in counts, counts


def test_it_is_found_by_its_descriptor(peer):
    done = peer("psij").run("-c", "import psij; psij.JobExecutor._print_plugin_status()")
    assert "Executor muster 0.1.0" in done.stdout and "error: None" in done.stdout.split("Executor muster")[1].split("Executor")[0], done.stdout
