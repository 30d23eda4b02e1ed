"""tools/sample-comments draws whole comments, the same ones for the same seed."""
import json
import pathlib
import subprocess

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/sample-comments"
CXX = """// A banner
// of two lines.
//
// And a third.
#include <a>  // behind an include

namespace a {
int b = 1;  // behind code,
            // continued
// on its own
auto c = "// no comment";  /* a block
   of two lines */
int d;  // NOLINT(check)
}  // namespace a
"""
PYTHON = '''#!/usr/bin/python3
"""A module.

Of two parts."""
A = "# no comment"  # behind code


def f():
    """A function."""
    # on its own,
    # continued
    return 1  # noqa: E402
'''
COMMENTS = [
    ("base/a.h", 1, "", "// A banner\n// of two lines.\n//\n// And a third."),
    ("base/a.h", 5, "#include <a>", "// behind an include"),
    ("base/a.h", 8, "int b = 1;", "// behind code,\n// continued"),
    ("base/a.h", 10, "", "// on its own"),
    ("base/a.h", 11, 'auto c = "// no comment";', "/* a block\n   of two lines */"),
    ("python/a.py", 2, "", '"""A module.\n\nOf two parts."""'),
    ("python/a.py", 5, 'A = "# no comment"', "# behind code"),
    ("python/a.py", 9, "", '"""A function."""'),
    ("python/a.py", 10, "", "# on its own,\n# continued"),
]


def draw(root, *options):
    command = [TOOL, "--root", root, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def plant(root):
    for path, text in {"base/a.h": CXX, "python/a.py": PYTHON, "tests/unit/a.cc": "// no product code\n"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def test_comments_are_whole(tmp_path):
    plant(tmp_path)
    drawn = json.loads(draw(tmp_path, "--json"))
    assert [tuple(comment.values()) for comment in drawn] == COMMENTS


def test_a_seed_draws_the_same_comments_again(tmp_path):
    plant(tmp_path)
    first = draw(tmp_path, "-n", "4", "--seed", "7")
    assert first == draw(tmp_path, "-n", "4", "--seed", "7")
    assert first.endswith("4 of 9 comments, seed 7\n")
    assert len({draw(tmp_path, "-n", "4", "--seed", str(seed)).rsplit("\n", 2)[0] for seed in range(9)}) > 1


def test_help_has_an_example_and_a_mistake_is_a_usage_error():
    assert "tools/sample-comments --seed 7" in subprocess.run([TOOL, "--help"], capture_output=True, text=True, timeout=60).stdout
    assert subprocess.run([TOOL, "-n", "0"], capture_output=True, timeout=60).returncode == 2
