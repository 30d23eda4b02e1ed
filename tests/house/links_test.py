"""house.links finds planted violations, and nothing in a clean tree."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import links  # noqa: E402


def plant(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def tree(tmp_path):
    plant(tmp_path, "docs/user-guide.md", "[a](guide/ranks.md#cores-and-gpus)\n[b](https://example.org/x.md)\n")
    plant(tmp_path, "docs/guide/ranks.md", "## `Cores` and GPUs\n[up](../user-guide.md)\n```\n# no heading\n```\n")
    plant(tmp_path, "model/a.h", "// docs/user-guide.md explains it.\n")
    return tmp_path


def test_a_clean_tree(tree):
    assert links.check_tree(tree) == []


@pytest.mark.parametrize(("path", "text", "problem"), [
    ("README.md", "[a](docs/guide/no.md)\n", "README.md:1: docs/guide/no.md does not exist"),
    ("docs/a.md", "\n[a](guide/ranks.md#no)\n", "docs/a.md:2: guide/ranks.md#no names no heading of that page"),
    ("docs/a.md", "[a](guide/ranks.md#no-heading)\n",
     "docs/a.md:1: guide/ranks.md#no-heading names no heading of that page"),
    ("docs/a.md", "# A\n[a](#b)\n", "docs/a.md:2: #b names no heading of that page"),
    ("cli/a.cc", "// See docs/gone.md.\n", "cli/a.cc:1: docs/gone.md does not exist"),
    ("docs/guide/b.md", "# B\n", "docs/guide/b.md:1: docs/user-guide.md does not list this page"),
    ("docs/guide/ranks.md", "# Cores and GPUs\n" * 121,
     "docs/guide/ranks.md:121: a page of docs/guide has at most 120 lines"),
    ("docs/sites/a.md", "# A\n", "docs/sites/a.md:1: docs/user-guide.md does not list this page"),
], ids=range(8))
def test_planted_violations(tree, path, text, problem):
    plant(tree, path, text)
    assert links.check_tree(tree) == [problem]
