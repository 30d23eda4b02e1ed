"""The emulations read the sites' documented lines (launchers.md, section 6) as the sites do."""

import importlib.machinery
import importlib.util
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True  # programs have no .py, so their caches would look like programs
import options  # noqa: E402


def program(path):
    """A program of this folder as a module; its main() is not called."""
    name = path.replace("/", "_")
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


cobalt, pbs, aprun, pals = (program(path) for path in ("cobalt/qsub", "pbs/qsub", "alps/aprun", "pals/mpiexec"))
THETA = {"cores": 64, "threads": 4}
THETA_SCRIPT = """#!/bin/bash
#COBALT -n 2 -t 30 -q debug-cache-quad -A project
#COBALT --attrs mcdram=cache:numa=quad:filesystems=home,theta-fs0

#COBALT -n 9
"""
POLARIS_SCRIPT = """#!/bin/bash -l
#PBS -l select=2:system=polaris
#PBS -l place=scatter
# a remark
#PBS -l walltime=0:30:00

#PBS -l filesystems=home:eagle
#PBS -q debug
cd ${PBS_O_WORKDIR}
#PBS -A too-late
"""
GOLDEN = HERE.parent / "unit/job_templates/golden"  # what the built-in templates render


def test_cobalt_lines_are_contiguous_from_line_two():
    found, rest = options.parse(cobalt.directives(THETA_SCRIPT), cobalt.KNOWN, cobalt.ALIASES)
    assert not rest
    assert (found["-n"], found["-t"], found["-q"], found["-A"]) == ("2", "30", "debug-cache-quad", "project")
    assert found["--attrs"] == ["mcdram=cache:numa=quad:filesystems=home,theta-fs0"]
    assert cobalt.directives("#!/bin/bash\n\n#COBALT -n 2\n") == []


@pytest.mark.parametrize("text,seconds", [("30", 1800), ("0:30:00", 1800), ("1:00", 3600)])
def test_cobalt_times(text, seconds):
    assert cobalt.walltime(text) == seconds


def test_cobalt_needs_an_executable_script(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(THETA_SCRIPT)
    with pytest.raises(options.Mistake, match="not executable"):
        cobalt.options([str(script)])
    script.chmod(0o755)
    found, argv = cobalt.options(["-n", "3", str(script), "word"])
    assert found["-n"] == "3" and found["-t"] == "30" and argv == [str(script), "word"]


def test_pbs_lines_end_with_the_first_command():
    found, rest = options.parse(pbs.directives(POLARIS_SCRIPT), pbs.KNOWN)
    assert not rest and "-A" not in found
    assert pbs.resources(found["-l"]) == {"select": "2:system=polaris", "place": "scatter", "walltime": "0:30:00",
                                          "filesystems": "home:eagle"}
    with pytest.raises(options.Mistake, match="Account_Name is required to be set"):
        pbs.demand(found, pbs.resources(found["-l"]))


@pytest.mark.parametrize("lists,said", [
    (["walltime=1:00"], "Resource: filesystems is required to be set."),
    (["select=1,filesystems=home"], "Resource: walltime is required to be set."),
])
def test_pbs_demands(lists, said):
    with pytest.raises(options.Mistake, match=said):
        pbs.demand({"-A": "project"}, pbs.resources(lists))


@pytest.mark.parametrize("select,nodes,lines", [("2:system=polaris", 2, 1), ("4", 4, 1), ("1:ncpus=64:mpiprocs=4", 1, 4),
                                                ("2:ncpus=64+1:ncpus=32", 3, 1)])
def test_pbs_chunks(select, nodes, lines):
    assert pbs.chunks(select) == (nodes, lines)


def placed(words, reserved=("nid00001", "nid00002")):
    found, command = options.parse(words, aprun.KNOWN, aprun.ALIASES)
    return aprun.place(found, THETA, list(reserved)), found, command


def test_aprun_of_theta():
    line = "-n 8 -N 4 -d 32 -j 2 -cc depth -e OMP_NUM_THREADS=32 -e KMP_BLOCKTIME=0 python train.py"
    hosts, found, command = placed(line.split())
    assert hosts == [("nid00001", 4), ("nid00002", 4)] and command == ["python", "train.py"]
    assert options.pairs(found["-e"]) == {"OMP_NUM_THREADS": "32", "KMP_BLOCKTIME": "0"}


def test_aprun_of_one_agent_a_node():
    line = "-n 2 -N 1 -cc none -b -q -L 1,2 -e MUSTER_JOIN=file ./muster-agent --join file"
    hosts, found, command = placed(line.split())
    assert hosts == [("nid00001", 1), ("nid00002", 1)] and found["-b"] and found["-q"]
    assert command == ["./muster-agent", "--join", "file"]


@pytest.mark.parametrize("line,said", [("-n 3 -N 1 true", "node-count"), ("-n 1 -L 7 true", "nodes"),
                                       ("-n 64 -N 64 -d 8 -j 4 true", "CPUs"), ("-n 1 -j 5 true", "hardware threads"),
                                       ("-x 1 true", "invalid option"), ("-n 1 -cc middle true", "-cc")])
def test_aprun_refuses(line, said):
    with pytest.raises(options.Mistake, match=said):
        placed(line.split())


def test_mpiexec_of_polaris():
    line = ("-n 8 --ppn 4 --depth=8 --cpu-bind depth --env OMP_NUM_THREADS=1 -env OMP_PLACES=threads "
            "./set_affinity_gpu_polaris.sh ./app")
    found, command = options.parse(line.split(), pals.KNOWN, pals.ALIASES)
    assert command == ["./set_affinity_gpu_polaris.sh", "./app"] and pals.binding(found) == 8
    assert pals.place(found, ["x1", "x2"]) == [("x1", 4), ("x2", 4)]
    assert options.pairs(found["--env"]) == {"OMP_NUM_THREADS": "1", "OMP_PLACES": "threads"}


@pytest.mark.parametrize("words", [["--cpu-bind=list:1-8:9-16"], ["--cpu-bind", "verbose,list:0,8,16,24"]])
def test_mpiexec_lists(words):
    found, _ = options.parse(["-n", "2", "-ppn", "2", *words, "app"], pals.KNOWN, pals.ALIASES)
    assert pals.binding(found) == 0


def test_mpiexec_numbers_ranks_by_node():
    found, command = options.parse(["-n", "3", "--ppn", "2", "app"], pals.KNOWN, pals.ALIASES)
    nodes = pals.tasks_of(pals.place(found, ["x1", "x2"]), found, command, "apid")
    variables = [(host, task["env"]["PALS_RANKID"], task["env"]["PALS_LOCAL_RANKID"], task["env"]["PALS_NODEID"],
                  task["env"]["PMI_SIZE"]) for host, own in nodes for task in own]
    assert variables == [("x1", "0", "0", "0", "3"), ("x1", "1", "1", "0", "3"), ("x2", "2", "0", "1", "3")]


def test_mpiexec_refuses_too_many():
    found, _ = options.parse(["-n", "5", "--ppn", "2", "app"], pals.KNOWN, pals.ALIASES)
    with pytest.raises(options.Mistake, match="Not enough nodes"):
        pals.place(found, ["x1", "x2"])


def test_a_node_is_named_once(tmp_path):
    """A PBS node file repeats nodes and has domains."""
    file = tmp_path / "nodes"
    file.write_text("x1.hsn.site\nx1.hsn.site\nx2.hsn.site\n")
    assert pals.names({}, str(file)) == ["x1", "x2"]
    assert pals.names({"--hosts": "x2,x1"}, str(file)) == ["x2", "x1"]


@pytest.mark.parametrize("template", ["theta", "thetagpu"])
def test_cobalt_takes_rendered_scripts(template):
    found, rest = options.parse(cobalt.directives((GOLDEN / f"{template}.sh").read_text()), cobalt.KNOWN, cobalt.ALIASES)
    assert not rest and found["-A"] and cobalt.walltime(found["-t"]) >= 60 and options.number(found, "-n")
    assert any("filesystems=" in text for text in found["--attrs"])


@pytest.mark.parametrize("template", ["polaris", "aurora"])
def test_pbs_takes_rendered_scripts(template):
    found, rest = options.parse(pbs.directives((GOLDEN / f"{template}.sh").read_text()), pbs.KNOWN)
    wanted = pbs.resources(found["-l"])
    pbs.demand(found, wanted)
    assert not rest and pbs.chunks(wanted["select"])[0] >= 1 and wanted["place"] == "scatter"
