"""muster templates, render, submit -t: by programs in the place of schedulers, which say what they got, and by launcherd."""
import json
import pathlib
import stat
import subprocess

import pytest
from conftest import BIN, PATIENCE


@pytest.fixture
def home(tmp_path):
    """A home and a PATH of its own, with nothing on it but the system's programs."""
    (tmp_path / "home").mkdir()
    (tmp_path / "bin").mkdir()
    return tmp_path


def muster(home, *words, **variables):
    environment = {"HOME": str(home / "home"), "PATH": f"{home}/bin:/nowhere", "LC_ALL": "C.UTF-8", **variables}
    return subprocess.run([str(BIN / "muster"), *words], env=environment, cwd=home, capture_output=True, text=True,
                          timeout=PATIENCE)


def program(home, name, body):
    """In a scheduler's place."""
    file = home / "bin" / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)


def own(home, name, text):
    folder = home / "home/.config/muster/templates"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)


def test_templates_are_listed_and_shown(home):
    own(home, "polaris", "extends: polaris\nparameters: {project: {default: mine}}\n")
    own(home, "bad", "scheduler: slrum\n")
    listed = muster(home, "templates")
    assert listed.returncode == 1
    assert "bad.yaml:1:12: scheduler must be one of" in listed.stderr
    rows = {line.split()[0]: line for line in listed.stdout.splitlines()[1:]}
    assert {"theta", "thetagpu", "polaris", "aurora", "slurm-gpu", "ssh-lab"} <= set(rows)
    assert " own " in rows["polaris"] and "built in" in rows["aurora"] and "bad" not in rows
    messages = {m["name"]: m for m in map(json.loads, muster(home, "templates", "--json").stdout.splitlines())}
    assert messages["polaris"]["origin"].endswith("/home/.config/muster/templates/polaris.yaml")
    project = next(p for p in messages["polaris"]["parameters"] if p["name"] == "project")
    assert (project["type"], project["has_default"], project["default_value"]) == ("string", True, "mine")
    assert "slrum" in messages["bad"]["error"]
    shown = muster(home, "templates", "show", "polaris")
    assert shown.returncode == 0 and "#   --nodes" in shown.stdout
    own(home, "copy", shown.stdout)
    assert muster(home, "templates", "show", "copy").stdout.split("\n\n", 1)[1] == shown.stdout.split("\n\n", 1)[1]
    assert muster(home, "templates", "show", "polari").stderr == (
        "muster templates: unknown template 'polari', did you mean polaris? (muster templates lists them)\n")


def test_a_rendered_script_runs(home):
    """By bash, with an hvdrun that says what it was given."""
    program(home, "hvdrun", 'printf "%s|" "$@"; echo; exit 3')
    words = ["-np", "it's", "$HOME", "`id`", "; touch hit", ""]
    result = muster(home, "render", "-t", "ssh-lab", "--hvdrun", str(home / "bin/hvdrun"), "--hosts", "n1; touch hit",
                    "--timeout", "5m", "--", "prog", *words)
    assert (result.returncode, result.stderr) == (0, "")
    ran = subprocess.run(["/bin/bash", "-s"], input=result.stdout, cwd=home, capture_output=True, text=True,
                         timeout=PATIENCE)
    assert ran.returncode == 3
    assert ran.stdout == "|".join(["--hosts", "n1; touch hit", "--ranks-per-node", "1", "--timeout", "5m", "--", "prog",
                                   *words]) + "|\n"
    assert not (home / "hit").exists()


def test_hiding_is_said(home):
    own(home, "ssh-lab", "extends: ssh-lab\n")
    result = muster(home, "render", "-t", "ssh-lab", "true")
    assert result.returncode == 0
    assert "templates/ssh-lab.yaml hides the one built in" in result.stderr


SCHEDULERS = [
    ("polaris", "qsub", 'echo "$@" > got; echo 17.pbs-01', "17.pbs-01", "#PBS -l walltime=0:30:00\n"),
    ("theta", "qsub", 'echo "$@" > got; echo 5468', "5468", "#COBALT -t 30\n"),
    ("thetagpu", "qsub-gpu", 'echo "$@" > got; echo 5469', "5469", "#COBALT -t 30\n"),
    ("slurm-cpu", "sbatch", 'echo "$2" > got; echo "42;lab"', "42", "#SBATCH --time=0:30:00\n"),
    ("flux-gpu", "flux", 'echo "$2" > got; echo f2wgYjk', "f2wgYjk", "#flux: --time-limit=30m\n"),
    ("lsf-gpu", "bsub", '/bin/cat > read; echo "Job <9> is submitted to queue <batch>."', "9", "#BSUB -W 0:30\n"),
]


@pytest.mark.parametrize(("name", "scheduler", "body", "job", "directive"), SCHEDULERS)
def test_submit_gives_the_script_to_the_scheduler(home, name, scheduler, body, job, directive):
    program(home, scheduler, body)
    project = ["--project", "physics"] if name in ("polaris", "theta", "thetagpu", "lsf-gpu") else []
    result = muster(home, "submit", "-t", name, "--time", "30m", *project, "--", "python3", "train.py")
    assert (result.returncode, result.stdout) == (0, job + "\n"), result.stderr
    told = result.stderr.removeprefix("muster submit: the script is ").strip()
    script = pathlib.Path(told)
    assert script.parent == home / "home/.cache/muster/jobs"
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    text = script.read_text()
    assert directive in text and f"hvdrun={BIN / 'hvdrun'}\n" in text and text.endswith("-- python3 train.py\n")
    if scheduler == "bsub":
        assert (home / "read").read_text() == text
    else:
        assert (home / "got").read_text().strip() == told


def test_what_the_scheduler_refuses_is_told(home):
    program(home, "qsub", 'echo "qsub: Account_Name is required to be set." >&2; exit 1')
    result = muster(home, "submit", "-t", "pbs-cpu", "--script", "mine.sh", "true")
    assert (result.returncode, result.stdout) == (1, "")
    assert "Account_Name is required to be set." in result.stderr
    assert (home / "mine.sh").read_text().startswith("#!/bin/bash -l\n#PBS ")


def test_a_scheduler_takes_no_options_of_launcherd(home):
    program(home, "qsub", ": > called")
    result = muster(home, "submit", "-t", "pbs-cpu", "--priority", "3", "true")
    assert result.returncode == 2
    assert "--priority is for launcherd, and a scheduler takes this job" in result.stderr
    assert not (home / "called").exists()
    assert muster(home, "submit", "--set", "a=b", "true").stderr == "muster submit: --set belongs to -t\n"


@pytest.mark.parametrize(("name", "why"), [("ssh-lab", "the template ssh-lab has no scheduler"),
                                           ("slurm-cpu", "sbatch is not on PATH")])
def test_without_a_scheduler_launcherd_takes_the_job(launcherd, home, name, why):
    started = launcherd(slots=2)
    result = muster(home, "submit", "-t", name, "-N", "2", "--label", "from=template", "--", "/bin/sh", "-c", "exit 3",
                    MUSTER_LAUNCHER=f"unix:{started.socket}")
    assert result.returncode == 0, result.stderr
    assert result.stderr == f"muster submit: {why}; the job goes to launcherd\n"
    job = result.stdout.strip()
    waited = muster(home, "wait", job, MUSTER_LAUNCHER=f"unix:{started.socket}")
    assert waited.returncode == 3, waited.stderr


def test_the_time_of_a_template_is_a_limit_at_launcherd_too(launcherd, home):
    started = launcherd(slots=2)
    address = {"MUSTER_LAUNCHER": f"unix:{started.socket}"}
    result = muster(home, "submit", "-t", "slurm-cpu", "--time", "1s", "--", "/bin/sleep", "100", **address)
    assert result.returncode == 0, result.stderr
    assert muster(home, "wait", result.stdout.strip(), **address).returncode == 124


def test_a_dry_run_shows_the_site(home):
    result = muster(home, "submit", "-t", "polaris", "--nodes", "2", "--dry-run", "true")
    assert result.returncode == 0, result.stderr
    assert "made up" in result.stderr
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[1] for row in rows] == ["x3006c0s1b0n0"] * 4 + ["x3006c0s2b0n0"] * 4
    assert [row[4] for row in rows] == ["3", "2", "1", "0"] * 2
    assert [row[5] for row in rows] == ["0-7", "8-15", "16-23", "24-31"] * 2
    as_json = json.loads(muster(home, "submit", "-t", "polaris", "--nodes", "2", "--dry-run", "--json", "true").stdout)
    assert as_json["size"] == 8
