#!/usr/bin/python3
"""house.messages: docs/troubleshooting quotes messages as the programs print them, and leaves none of a family out.

A quote is what stands in backticks in the first column of a table of docs/troubleshooting.md or docs/troubleshooting/*.md.
"…" in it stands for any text. The pieces between must all stand in string literals of one source file. Each error message
of the files in FAMILIES must be quoted on a page, except those of fewer than four words. Prints each violation, with the
page of the family, and exits with 1 if there is one.

    messages.py ROOT
"""
import ast
import pathlib
import re
import sys

import cxx
import layers
from report import report

INDEX = "docs/troubleshooting.md"
PAGES = "docs/troubleshooting"
ANY = "…"

# The pages, and the files whose messages they explain. Shells' globs.
FAMILIES = {
    "ssh.md": ["launcherd/bootstrap/failure.cc", "launcherd/bootstrap/remote_command.cc"],
    "hosts.md": ["model/placement.cc", "model/job_placement.cc", "model/host_spec.cc", "model/dmlc.cc",
                 "launcherd/plan/launch_plan.cc", "cli/hosts/job_hosts.cc", "cli/options/host_choice.cc"],
    "options.md": ["cli/options/*.cc", "model/job_input.cc", "model/label_format.cc", "model/output_routes.cc",
                   "model/runtime.cc", "model/role.cc", "model/ulimit.cc", "base/yaml.cc", "cli/foreign/torchrun.cc"],
    "gpus.md": ["model/gpu_choice.cc", "model/host_binding.cc", "model/cpu_binding.cc", "model/intel_gpus.cc",
                "model/pinning.cc"],
    "sites.md": ["launcherd/enrol/*.cc", "launcherd/site/*.cc", "launcherd/hosts/*.cc", "job_templates/parameters.cc",
                 "job_templates/script.cc", "base/trusted_folder.cc"],
    "launcherd.md": ["cli/daemon/launcherd_options.cc", "launcherd/service/api_socket.cc", "launcherd/service/api_server.cc",
                     "launcherd/daemon/job_manager*.cc", "launcherd/daemon/rerun.cc", "cli/verbs/found_jobs.cc",
                     "launcherd/queue/job_need.cc", "base/file.cc", "base/own_file.cc",
                     "launcherd/agents/*.cc", "launcherd/daemon/*.cc"],
    "muster.md": ["cli/verbs/*.cc", "cli/top/*.cc"],
    "tls.md": ["launcherd/service/caller_role.cc", "launcherd/service/revoked_certificates.cc",
               "launcherd/service/tls_files.cc", "launcherd/service/api_client.cc"],
    "store.md": ["launcherd/store/schema.cc", "launcherd/store/sqlite.cc", "launcherd/output/journal_*.cc",
                 "launcherd/stage/*.cc"],
    "rendezvous.md": ["collectives/join/alone*.cc", "collectives/join/agent_socket.cc", "collectives/join/meeting.cc",
                      "collectives/group/world*.cc", "collectives/group/communicator_forming.cc",
                      "rendezvous/memory_store.cc"],
    "elastic.md": ["launcherd/run/generation_planner.cc", "launcherd/run/restarting_job_pool.cc",
                   "launcherd/run/job_spawn.cc", "cli/options/failure_options.cc"],
}

ERROR = re.compile(r"\b(?:invalid_argument|unavailable|failed_precondition|resource_exhausted|internal_error|not_found|"
                   r"permission_denied|unauthenticated|deadline_exceeded|data_loss|unimplemented|cancelled|already_exists|error)\(\s*"
                   r"(?:(?:base::)?Code::\w+,\s*)?((?:\"(?:[^\"\\]|\\.)*\"\s*)+)")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
CODE = re.compile(r"(`+) ?(.+?) ?\1(?!`)")


def plain(text):
    """The text of a format string or literal: fields become "…", escapes what they stand for."""
    text = text.replace('\\"', '"').replace("\\'", "'").replace("\\n", " ").replace("\\\\", "\\")
    text = text.replace("{{", "\0").replace("}}", "\1")
    text = re.sub(r"\{[^{}]*\}", ANY, text)
    return " ".join(text.replace("\0", "{").replace("\1", "}").split())


def cxx_literals(text):
    """The string literals of a C++ file; literals that follow each other are one."""
    found, current = [], None
    for lexeme in cxx.lexemes(text):
        if lexeme.kind == "comment":
            continue
        if lexeme.kind == "string" and lexeme.text.startswith('"'):
            current = (current or "") + lexeme.text[1:-1]
        elif current is not None:
            found.append(current)
            current = None
    return found + ([current] if current is not None else [])


def python_literals(text):
    """The strings of a Python file. What an f-string fills in becomes a field."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def all_literals(root):
    """{path: the texts of its string literals}"""
    found = {}
    for path, file in cxx.product_files(root, layers.ROOMS):
        found[path] = [plain(each) for each in cxx_literals(file.read_text(encoding="utf-8"))]
    for file in sorted((root / "python").rglob("*.py")):
        literals = python_literals(file.read_text(encoding="utf-8"))
        found[file.relative_to(root).as_posix()] = [plain(each) for each in literals]
    return found


def messages_of(text):
    """The error messages of a C++ file: those that are formatted where the error is made."""
    texts = ["".join(LITERAL.findall(literals)) for literals in ERROR.findall(text)]
    return [plain(each) for each in texts]


def error_messages(root):
    """{path: its error messages}, of all rooms."""
    found = {path: [each for each in messages_of(file.read_text(encoding="utf-8")) if len(words_of(each)) > 1]
             for path, file in cxx.product_files(root, layers.ROOMS, (".h", ".cc"))}
    return {path: list(dict.fromkeys(texts)) for path, texts in found.items() if texts}


def sentences(root):
    """{path: its error messages and other sentences with a name or number in them}: what programs may print."""
    found = error_messages(root)
    for path, literals in all_literals(root).items():
        if path.endswith(".py") or "/help/" in path or "/web/" in path or path.endswith(("_doc.cc", "_page.cc")):
            continue
        texts = [text for text in literals if ANY in text and len(words_of(text)) > 4]
        if texts:
            found[path] = list(dict.fromkeys([*found.get(path, []), *texts]))
    return found


def words_of(message):
    return re.findall(r"[A-Za-z]{2,}", message)


def quotes_of(text):
    """(line, quote) of each piece of code in the first cell of a row."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("| ") and not line.startswith("|---"):
            cell = re.split(r"(?<!\\) \|", line[2:])[0]
            for _, code in CODE.findall(cell):
                yield number, code.replace("\\|", "|")


def pieces_of(quote):
    return [piece for piece in (each.strip() for each in quote.split(ANY)) if len(piece) > 2]


def is_printed(quote, literals):
    """Whether there is a file in which every piece of the quote stands in a literal."""
    pieces = pieces_of(quote)
    return bool(pieces) and any(all(any(piece in text for text in texts) for piece in pieces) for texts in literals.values())


def is_quoted(message, quotes):
    """Whether the longest piece of one of the quotes stands in the message, and is not a mere word."""
    longest = (max(pieces_of(quote), key=len, default="") for quote in quotes)
    return any(len(piece) > 9 and piece in message for piece in longest)


def check_tree(root):
    literals = all_literals(root)
    pages = {file.name: file.read_text(encoding="utf-8") for file in sorted((root / PAGES).glob("*.md"))}
    for name, text in [(INDEX, (root / INDEX).read_text(encoding="utf-8")),
                       *((f"{PAGES}/{name}", text) for name, text in pages.items())]:
        for number, quote in quotes_of(text):
            if not is_printed(quote, literals):
                yield f"{name}:{number}: no program prints `{quote}`: quote the message as it is in the sources"
    quotes = [quote for text in pages.values() for _, quote in quotes_of(text)]
    for name, globs in FAMILIES.items():
        for glob in globs:
            if not any(root.glob(glob)):
                yield f"tests/house/messages.py: FAMILIES names {glob} for {name}, and no file has that name"
        for path in (path for glob in globs for path in sorted(root.glob(glob))):
            for message in messages_of(path.read_text(encoding="utf-8")):
                if len(words_of(message)) > 3 and not is_quoted(message, quotes):
                    yield f"{path.relative_to(root)}: {PAGES}/{name} does not explain: {message}"


def main():
    return report(list(check_tree(pathlib.Path(sys.argv[1]).resolve())), "violations of the pages of messages")


if __name__ == "__main__":
    sys.exit(main())
