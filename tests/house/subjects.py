#!/usr/bin/python3
"""house.subjects: the subjects of commits are `room: verb object`, at most 72 columns.

Looks at the commits after FIRST, but for merges. A commit that concerns several rooms names them all: `agent, docs: …`.
A room may be followed by one of its folders: `launcherd/run: …`.
Exits with 77 (skipped) where the history is not there: no git checkout, a shallow one, or one without FIRST.

    subjects.py ROOT
    subjects.py --subject 'room: verb object'   judges one line, for a commit-msg hook
"""
import pathlib
import re
import subprocess
import sys

import layers
from report import report

FIRST = "b7c1b0a98b1fa184e7e971cef08b846f2a907e59"  # the last commit before this rule
ROOMS = (*layers.ROOMS, "python", "examples", "house", "docs", "tests", "tools", "bench", "ci", "packaging")
COLUMNS = 72
SKIPPED = 77
SUBJECT = re.compile(r"(?P<rooms>[a-z_]+(?:/[a-z_]+)*(?:, [a-z_]+(?:/[a-z_]+)*)*): (?P<verb>\S+) \S.*")
# First words that are no imperative verb.
NO_VERBS = frozenset("a an the all any each every no not nothing nobody one some two who what when where which while why "
                     "how if as at by for from in of on to with without is are was were has have it its".split())

VERBS = ("bring", "embed", "feed", "need", "ping", "shed", "speed", "string")  # are no participles


def problem_of(subject):
    """What is wrong with a subject, or None."""
    if len(subject) > COLUMNS:
        return f"has {len(subject)} columns: shorten it to {COLUMNS}"
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return "is not `room: verb object`"
    unknown = [room for room in match["rooms"].split(", ") if room.split("/")[0] not in ROOMS]
    if unknown:
        return f"{unknown[0]} is no room; use one of: {', '.join(ROOMS)}"
    if not re.fullmatch(r"[a-z][a-z-]*", match["verb"]):
        return f"{match['verb']}: begin with a verb in lower case"
    has_ending = match["verb"].endswith(("ed", "ing")) and match["verb"] not in VERBS
    if match["verb"] in NO_VERBS or has_ending:
        return f"{match['verb']}: begin with a verb in the imperative"
    return None


def git(root, *words):
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def check_history(root, first):
    """The violations of the commits after `first`; None where the history is not there."""
    if not (root / ".git").exists() or git(root, "rev-parse", "--is-shallow-repository") != "false":
        return None
    if git(root, "merge-base", "--is-ancestor", first, "HEAD") is None:
        return None
    violations = []
    for line in git(root, "log", "--no-merges", "--reverse", "--format=%h %s", f"{first}..HEAD").splitlines():
        commit, _, subject = line.partition(" ")
        problem = problem_of(subject)
        if problem is not None:
            violations.append(f"{commit}: {problem}: {subject}")
    return violations


def main():
    if sys.argv[1] == "--subject":
        problem = problem_of(sys.argv[2])
        print(problem or "the subject is in order")
        return 1 if problem else 0
    violations = check_history(pathlib.Path(sys.argv[1]).resolve(), FIRST)
    if violations is None:
        print(f"skipped: needs a git checkout with all commits since {FIRST}")
        return SKIPPED
    return report(violations, "violations of the subjects of commits")


if __name__ == "__main__":
    sys.exit(main())
