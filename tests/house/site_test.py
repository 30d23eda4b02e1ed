"""tools/docs and tools/docs-reference: links and navigation of the site, pages from programs and sources, a strict build."""
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN_DIR = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", ROOT / "build/release/bin"))
MKDOCS = ROOT / "build/release/peers/docs/bin/mkdocs"


def tool(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


docs, reference = tool("docs"), tool("docs-reference")


@pytest.mark.parametrize(("source", "text", "moved"), [
    ("docs/guide/a.md", "[a](b.md), [c](../c.md#d)", "[a](../guide/b.md), [c](../c.md#d)"),
    ("README.md", "[a](docs/guide/b.md) ![i](docs/i.png)", "[a](guide/b.md) ![i](i.png)"),
    ("docs/c.md", "[readme](../README.md), [room](../agent/README.md), [gone](no.md)", "[readme](index.md), room, gone"),
    ("docs/c.md", "[far](https://a.b/c.md) [here](#x)", "[far](https://a.b/c.md) [here](#x)"),
])
def test_links_are_moved(tmp_path, source, text, moved):
    for name in ("docs/guide/a.md", "docs/guide/b.md", "docs/c.md", "docs/i.png", "README.md", "agent/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    path = pathlib.PurePosixPath(source)
    assert docs.moved_links(text, path, docs.place_of(path), tmp_path) == moved


def test_lists_tables_and_blocks_get_an_empty_line():
    text = "# A\ntext\n- one\n  more\n- two\n\ntext\n| a |\n|---|\n| b |\n## B\n    code\n```\n- no list\n| no table\n```\n"
    assert docs.with_blank_lines(text) == ("# A\n\ntext\n\n- one\n  more\n- two\n\ntext\n\n| a |\n|---|\n| b |\n\n## B\n\n"
                                           "    code\n\n```\n- no list\n| no table\n```\n")


def test_navigation_takes_the_rest_of_a_folder(tmp_path):
    for name in ("index.md", "guide/a.md", "guide/b.md", "guide/c.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    text = ("nav:\n  - Home: index.md\n  - lab.md  # if there\n  - index.md  # if there\n  - Guide:\n      - guide/b.md\n"
            "      - guide/*\n  - Empty:\n      - adr/*\n  - '*'\n")
    assert docs.configuration(text.replace("'*'", '"*"'), tmp_path) == (
        "nav:\n  - Home: index.md\n  - index.md  # if there\n  - Guide:\n      - guide/b.md\n      - guide/a.md\n"
        "      - guide/c.md\n")


HELP = """Usage: muster jobs [options]

Lists jobs.

Options:
  -a, --all    Also those that have ended: all.

Exit code:
  0  good
"""


def test_help_becomes_sections():
    assert reference.help_page("muster jobs", HELP) == (
        "# muster jobs\n\n```text\nUsage: muster jobs [options]\n\nLists jobs.\n```\n\n"
        "## Options\n\n```text\n  -a, --all    Also those that have ended: all.\n```\n\n## Exit code\n\n```text\n  0  good\n```\n")


def test_verbs_are_found():
    usage = ("Usage: muster VERB\n\nVerbs:\n  jobs      the jobs\n  torch.distributed.launch  the same\nTo start programs, use "
             "hvdrun.\n\nExit code:\n  others    those of the verb\n")
    assert reference.verbs_of(usage) == [("jobs", "the jobs"), ("torch.distributed.launch", "the same")]


def test_comments_of_protos_are_the_text_of_the_api():
    pages = reference.api_pages(ROOT)
    launcher = pages["launcher.md"]
    for method in re.findall(r"^  rpc (\w+)\(", (ROOT / "proto/muster/v1/launcher.proto").read_text(), re.MULTILINE):
        assert f"\n### {method}\n" in launcher
    assert "Lists jobs without their ranks, newest first, in pages." in launcher
    assert re.search(r"\| 1 \| `\w+` \| \w", launcher), launcher[:2000]


def test_functions_of_the_headers_are_listed():
    page = reference.library_page(ROOT)
    for name in reference.HEADERS:
        for function in re.findall(r"^MUSTER_API [^(]*?(muster_\w+)\(", (ROOT / "collectives/include/muster" / name).read_text(),
                                   re.MULTILINE):
            assert f"{function}(" in page, function
    assert "Joins the job and returns when all its ranks have joined." in page


def test_functions_of_python_are_listed():
    page = reference.python_page(ROOT)
    for line in ("def allreduce(tensor", "def heartbeat(step=None)", "class ProcessSet", "class ObjectState"):
        assert f"\n{line}" in page, line


@pytest.fixture(scope="module")
def mkdocs():
    """A machine that cannot fetch mkdocs skips the test, or fails it with MUSTER_REQUIRE_CLUSTER=1."""
    if not MKDOCS.exists():
        fetched = subprocess.run([ROOT / "tools/peers", "docs"], capture_output=True, text=True, timeout=300)
        if fetched.returncode:
            problem = f"mkdocs could not be fetched by tools/peers docs: {fetched.stderr.strip()[-200:]}"
            if os.environ.get("MUSTER_REQUIRE_CLUSTER") == "1":
                pytest.fail(problem + " (MUSTER_REQUIRE_CLUSTER=1)", pytrace=False)
            pytest.skip(problem)
    return MKDOCS


@pytest.mark.skipif(not (BIN_DIR / "muster").exists(), reason=f"{BIN_DIR}/muster is not built")
def test_the_site_is_built_and_loads_nothing_from_elsewhere(mkdocs, tmp_path):
    built = subprocess.run([ROOT / "tools/docs", "--bin-dir", BIN_DIR, "--build", tmp_path], capture_output=True, text=True,
                           timeout=100)
    assert built.returncode == 0, built
    site = tmp_path / "site"
    text = (site / "reference/commands/hvdrun.html").read_text()
    assert "--on-failure" in text and 'id="exit-code"' in text
    for page in site.rglob("*.html"):
        loaded = re.findall(r'(?:<script|<img|<iframe)[^>]*src="(https?:[^"]*)|<link rel="stylesheet" href="(https?:[^"]*)',
                            page.read_text())
        assert loaded == [], page


@pytest.mark.skipif(not (BIN_DIR / "muster").exists(), reason=f"{BIN_DIR}/muster is not built")
def test_a_broken_link_fails_the_build(mkdocs, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# A\n\n[gone](no.md)\n")
    config = docs.configuration((ROOT / "docs/mkdocs.yml").read_text().split("nav:")[0], tmp_path / "docs")
    (tmp_path / "mkdocs.yml").write_text(config)
    built = docs.run_mkdocs(mkdocs, tmp_path / "mkdocs.yml")
    assert built.returncode and "contains a link 'no.md'" in built.stdout, built
