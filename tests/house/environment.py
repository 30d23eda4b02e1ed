#!/usr/bin/python3
"""house.env: docs/environment.md lists every environment variable, and nothing else.

Its first table holds what our programs read (env_var, getenv, Environment::get with a literal name, the variables that
the table of options names; os.environ and os.getenv of our Python), its second variables of Horovod that nothing reads,
its third what ranks get (the names in the functions of RANK_SETTERS), its fourth what options set for ranks
(cli/options/horovod_tuning.cc): a variable of Horovod's or Muster's among these is in the first or second as well.
MUSTER_<OPTION> variables follow from the table of options and are not listed one by one. Prints what is missing and what
is stale; exits with 1 if anything is.

    environment.py ROOT
"""
import pathlib
import re
import sys

from report import report

ROOMS = ("base", "model", "proto", "rendezvous", "collectives", "job_templates", "agent", "launcherd", "cli")
READ = re.compile(r'(?:\b(?:env_var|getenv|secure_getenv)|(?:\.|->)(?:get|environment))\(\s*"([A-Z_][A-Z0-9_]*)"\s*\)')
READ_PYTHON = re.compile(r"""\benviron(?:\.(?:get|pop|setdefault)\(|\[)\s*["']([A-Z_][A-Z0-9_]*)["']|"""
                         r"""\bgetenv\(\s*["']([A-Z_][A-Z0-9_]*)["']|["']([A-Z_][A-Z0-9_]*)["'] (?:not )?in os\.environ\b""")
MASK = re.compile(r'\{"([A-Z_]+)", &GpuMasks::')  # model/gpu_mask.cc reads its names from a table
NAME = re.compile(r'"([A-Z_][A-Z0-9_]{2,})"')
ROW = re.compile(r"^\|\s*((?:`[A-Z_][A-Z0-9_]*`(?:,\s*)?)+)\s*\|")


def read_names(root):
    """Name -> first file:line where it is read."""
    names = {}
    for room in ROOMS:
        for file in sorted((root / room).rglob("*")):
            if file.suffix not in (".h", ".cc", ".cu"):
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                for name in READ.findall(line) + MASK.findall(line):
                    names.setdefault(name, f"{file.relative_to(root).as_posix()}:{number}")
    for file in sorted((root / "python").rglob("*.py")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            for found in READ_PYTHON.findall(line):
                names.setdefault("".join(found), f"{file.relative_to(root).as_posix()}:{number}")
    return names


# Where variables of ranks are set: in which file, and how the functions that do it begin.
RANK_SETTERS = {"model/rank_env.cc": re.compile(r"^void put_"),
                "agent/pmix/rank_settings.cc": re.compile(r"^std::vector<.*> rank_settings\("),
                "launcherd/plan/store_tree.cc": re.compile(r"^void put_"),
                "agent/job/staged_environment.cc": re.compile(r"^base::Status StagedEnvironment::open\("),
                "agent/job/rank_table.cc": re.compile(r"^std::vector<.*> RankTable::variable_names\("),
                "agent/job/rank_pmi.cc": re.compile(r"^void RankPmi::plan\("),
                "agent/job/rank_pals.cc": re.compile(r"^void RankPals::plan\("),
                "launcherd/daemon/job_manager_arrays.cc": re.compile(r"^void JobManager::add_array_variables\("),
                "model/trace_context.cc": re.compile(r"^std::vector<.*> trace_variables\("),
                "model/dmlc.cc": re.compile(r"^std::vector<.*> dmlc_variables\("),
                "model/gpu_binding.cc": re.compile(r"^std::vector<.*> mask_variables\("),
                "agent/job/job_stores.cc": re.compile(r"^std::vector<.*> JobStores::variables\(")}


def rank_names(root):
    """Name -> file:line where it is set for ranks."""
    names = {}
    for path, begins in RANK_SETTERS.items():
        is_setting = False
        text = (root / path).read_text(encoding="utf-8") if (root / path).exists() else ""
        for number, line in enumerate(text.splitlines(), 1):
            if begins.match(line):
                is_setting = True
            elif line.startswith("}"):
                is_setting = False
            if is_setting:
                for name in NAME.findall(line):
                    names.setdefault(name, f"{path}:{number}")
    return names


def option_names(root):
    """Name -> cli/options/horovod_tuning.cc:line where an option sets it."""
    names = {}
    file = root / "cli/options/horovod_tuning.cc"
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file.exists() else [], 1):
        for name in NAME.findall(line):
            names.setdefault(name, f"cli/options/horovod_tuning.cc:{number}")
    return names


def documented(root):
    """The names of the tables, by the headings above them."""
    tables = {"read": set(), "idle": set(), "ranks": set(), "options": set()}
    headings = {"## Read by Muster": "read", "## Horovod's that change nothing": "idle", "## Set for ranks": "ranks",
                "## Set by options": "options"}
    current = None
    for line in (root / "docs/environment.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            current = headings.get(line.strip())
        row = ROW.match(line)
        if row is not None and current is not None:
            tables[current].update(re.findall(r"`([A-Z0-9_]+)`", row.group(1)))
    return tables


def differences(root):
    tables = documented(root)
    problems = []
    read, options = read_names(root), option_names(root)
    for name in sorted(tables["idle"] & set(read)):
        problems.append(f"{read[name]}: {name} is read, but docs/environment.md says that it changes nothing")
    for name in sorted(set(options) - set(read) - tables["idle"]):
        if name.startswith(("HOROVOD_", "MUSTER_")):
            problems.append(f"{options[name]}: nothing reads {name}, and docs/environment.md does not say so")
    for kind, used in (("read", read), ("ranks", rank_names(root)), ("options", options)):
        for name in sorted(set(used) - tables[kind]):
            problems.append(f"{used[name]}: {name} is missing in docs/environment.md ({kind})")
        for name in sorted(tables[kind] - set(used)):
            problems.append(f"docs/environment.md: {name} is listed ({kind}), but no code uses it")
    return problems


def main():
    return report(differences(pathlib.Path(sys.argv[1]).resolve()), "differences between the code and docs/environment.md")


if __name__ == "__main__":
    sys.exit(main())
