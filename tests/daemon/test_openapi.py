"""The OpenAPI document is the one of openapi_v1.txt, which has a line for each fact of it, without texts for people.

After calls, fields or parameters were added:   /usr/bin/python3 tests/daemon/test_openapi.py > tests/daemon/openapi_v1.txt
What users of /api/v1 rely on must stay: a line that goes is a change for them.
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", ROOT / "build/release/bin"))
STORED = pathlib.Path(__file__).with_name("openapi_v1.txt")
TEXTS = ("description", "summary", "title", "version")


def facts(node, place):
    """One line for each value below `node`. Values of `enum`, `required` and `type` are sets. A field may be called as a
    text for people is."""
    if isinstance(node, dict):
        is_of_names = place.endswith("/properties") or place.endswith("/schemas")
        for key, value in node.items():
            if is_of_names or key not in TEXTS:
                yield from facts(value, f"{place}/{key}")
        if not node:
            yield f"{place}: none"
    elif isinstance(node, list):
        for number, value in enumerate(node):
            if isinstance(value, dict):
                yield from facts(value, f"{place}/{value.get('name', number)}")
            else:
                yield f"{place}: {value}"
        if not node:
            yield f"{place}: none"
    else:
        yield f"{place}: {node}"


def lines():
    written = subprocess.run([BIN / "launcherd", "--openapi"], capture_output=True, text=True, check=True).stdout
    return sorted(facts(json.loads(written), ""))


def test_nothing_was_taken_away_or_changed():
    gone = sorted(set(STORED.read_text().splitlines()) - set(lines()))
    assert not gone, "users of /api/v1 rely on these"


def test_what_is_new_is_listed():
    new = sorted(set(lines()) - set(STORED.read_text().splitlines()))
    assert not new, "list them: see the top of this file"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
