"""Snakemake's tests for executor plugins on Muster's, and what is particular to it."""
import os
import signal
import subprocess
import sys
import time

import snakemake.common.tests
from snakemake.settings.types import ResourceSettings
from snakemake_executor_plugin_muster import ExecutorSettings

from muster.client import Client, JobState


class TestWorkflows(snakemake.common.tests.TestWorkflowsLocalStorageBase):
    """The test base: a simple workflow, and one with groups of jobs."""

    __test__ = True

    def get_executor(self):
        return "muster"

    def get_executor_settings(self):
        return ExecutorSettings()

    def get_resource_settings(self):
        return ResourceSettings()

    def cleanup_test(self):
        with Client() as client:
            jobs = list(client.jobs(all=True))
        assert jobs and all(JobState(job.state) is JobState.SUCCEEDED for job in jobs), jobs


def run(folder, workflow, *words, code=0, **environment):
    """Runs snakemake in a folder; what it says."""
    (folder / "Snakefile").write_text(workflow)
    done = subprocess.run([sys.executable, "-m", "snakemake", "--executor", "muster", "--jobs", "4", "--seconds-between-status-checks", "0",
                           *words], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def jobs_of(**filters):
    with Client() as client:
        return list(client.jobs(all=True, **filters))


def test_resources_of_a_rule(tmp_path):
    run(tmp_path, '''
rule resourceful:
    output: "out"
    resources: muster_priority=7, runtime=5
    shell: "echo $MUSTER_SIZE $WORD > {output}"
''', WORD="mine")
    assert (tmp_path / "out").read_text() == "1 mine\n"
    job, = jobs_of(filter="resourceful")
    assert job.priority == 7 and [(label.name, label.value) for label in job.labels] == [("snakemake", "resourceful")]


def test_a_rule_that_fails_says_why(tmp_path):
    said = run(tmp_path, 'rule bad:\n    output: "out"\n    shell: "echo a reason of its own >&2; exit 5"\n', code=1)
    assert "a reason of its own" in said and "Muster's job" in said


def test_a_job_that_launcherd_refuses(tmp_path):
    said = run(tmp_path, 'rule one:\n    output: "out"\n    shell: "touch out"\n', "--muster-hosts", "elsewhere", code=1)
    assert "launcherd has refused the job: spec.hosts" in said


def test_nobody_is_there(tmp_path):
    said = run(tmp_path, 'rule one:\n    output: "out"\n    shell: "touch out"\n', "--muster-launcher", "nonsense", code=1)
    assert "'nonsense' is not a launcher address" in said
    said = run(tmp_path, 'rule one:\n    output: "out"\n    shell: "touch out"\n', "--muster-launcher", f"unix:{tmp_path}/s", code=1)
    assert "no launcherd answers" in said


def test_secrets_are_on_no_command_line(tmp_path):
    run(tmp_path, 'envvars: "SECRET"\nrule one:\n    output: "out"\n    shell: "echo $SECRET > {output}"\n', SECRET="not-for-others")
    assert (tmp_path / "out").read_text() == "not-for-others\n"
    assert not any("not-for-others" in word for job in jobs_of() for word in job.command)


def test_many_jobs_that_depend_on_each_other(tmp_path):
    run(tmp_path, '''
rule all:
    input: "sum"
rule part:
    output: "part{number}"
    shell: "echo {wildcards.number} > {output}"
rule sum:
    input: expand("part{number}", number=range(6))
    output: "sum"
    shell: "cat {input} > {output}"
''')
    assert (tmp_path / "sum").read_text().split() == [str(number) for number in range(6)]


def test_interrupting_it_ends_its_jobs(tmp_path):
    """By Ctrl-C. After SIGTERM, Snakemake waits for the jobs that run."""
    (tmp_path / "Snakefile").write_text('rule one:\n    output: "out"\n    shell: "sleep 1000"\n')
    words = [sys.executable, "-m", "snakemake", "--executor", "muster", "--jobs", "1", "--seconds-between-status-checks", "1"]
    with open(tmp_path / "said", "w") as said:
        run_of = subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        with Client() as client:
            for _ in range(600):
                running = list(client.jobs(states=[JobState.RUNNING]))
                if running or run_of.poll() is not None:
                    break
                time.sleep(0.1)
            assert running, (tmp_path / "said").read_text()
            run_of.send_signal(signal.SIGINT)
            run_of.wait(timeout=60)
            client.wait(running[0].id, timeout=60)
    finally:
        run_of.kill()
        run_of.wait()
    assert not (tmp_path / "out").exists()


def test_snakemake_starts_without_grpcio():
    """It imports all plugins whenever it starts."""
    script = "import sys; sys.modules['grpc'] = None; import snakemake_executor_plugin_muster, snakemake.api"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
