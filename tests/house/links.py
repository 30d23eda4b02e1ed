#!/usr/bin/python3
"""house.links: links between documents lead somewhere, and an index lists every page of docs/guide and of its siblings.

Checks each relative link of every Markdown file, with its heading, and each path docs/….md that a source file names.
A page of a folder in INDEXES has at most 120 lines. Prints file:line of each violation and exits with 1 if there is one.

    links.py ROOT
"""
import pathlib
import re
import sys

import layers
from report import report

LONGEST_PAGE = 120
INDEXES = {"docs/guide": "docs/user-guide.md", "docs/troubleshooting": "docs/troubleshooting.md",
           "docs/coming-from": "docs/guide/coming-from.md", "docs/sites": "docs/user-guide.md"}
SOURCES = (".h", ".cc", ".cu", ".c", ".py", ".proto", ".txt", ".cmake")
FOLDERS = (*layers.ROOMS, *layers.FREE, "cmake", "docs", "examples")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")


def files(root, suffixes):
    """The files of the tree with these suffixes: those of the root, and those of its folders."""
    for path in [*root.iterdir(), *(file for folder in FOLDERS for file in (root / folder).rglob("*"))]:
        if path.suffix in suffixes and path.is_file():
            yield path


def anchors(path):
    """The headings of a page as GitHub names them in links."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def check_link(path, link):
    """Returns what is wrong with a relative link of the page, or an empty text."""
    target, _, anchor = link.partition("#")
    page = (path.parent / target).resolve() if target else path
    if not page.exists():
        return f"{link} does not exist"
    if anchor and anchor not in anchors(page):
        return f"{link} names no heading of that page"
    return ""


def check_pages(root):
    for path in files(root, {".md"}):
        name = path.relative_to(root)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for link in LINK.findall(line):
                problem = "" if "://" in link else check_link(path, link)
                if problem:
                    yield f"{name}:{number}: {problem}"


def check_sources(root):
    for path in files(root, SOURCES):
        if path.parent == root / "tests/house":  # the tests of these rules name pages that do not exist
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            for page in PAGE.findall(line):
                if not (root / page).exists():
                    yield f"{path.relative_to(root)}:{number}: {page} does not exist"


def check_folder(root, folder, index):
    if not (root / folder).is_dir():
        return
    links = {link.partition("#")[0] for link in LINK.findall((root / index).read_text(encoding="utf-8"))}
    listed = {((root / index).parent / link).resolve() for link in links}
    for path in sorted((root / folder).glob("*.md")):
        name = path.relative_to(root)
        if path.resolve() not in listed:
            yield f"{name}:1: {index} does not list this page"
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > LONGEST_PAGE:
            yield f"{name}:{lines}: a page of {folder} has at most {LONGEST_PAGE} lines"


def check_tree(root):
    folders = [problem for folder, index in INDEXES.items() for problem in check_folder(root, folder, index)]
    return [*check_pages(root), *check_sources(root), *folders]


def main():
    return report(sorted(check_tree(pathlib.Path(sys.argv[1]).resolve())), "violations of the links of documents")


if __name__ == "__main__":
    sys.exit(main())
