"""house.messages finds quotes that no program prints, and messages that no page explains."""
import messages
import pytest
from house_test import plant

SOURCE = """
auto a = base::unavailable("host {}: no answer{} in time ({}); check that the host is up and that "
                           "no firewall blocks it", host, at, why);
auto b = base::error(base::Code::kAborted, "{}: disk full; free \\"some\\" space, as {{this}}", path);
auto c = base::invalid_argument("{} {}", one, two);
print("a remark of the program: {}", text);  // "not this one"
"""
PAGE = """| message | why |
|---|---|
| `host …: no answer… in time` | slow |
| `…: disk full; free "some" space, as {this}`, `a remark of the program: …` | full |
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "FAMILIES", {"one.md": ["launcherd/*.cc"]})
    plant(tmp_path, "launcherd/a.cc", SOURCE)
    plant(tmp_path, "python/muster/a.py", 'raise ValueError(f"no such shape: {shape} of a tensor")\n')
    plant(tmp_path, "docs/troubleshooting.md", "# T\n")
    plant(tmp_path, "docs/troubleshooting/one.md", PAGE)
    return tmp_path


def test_messages_as_printed_are_allowed(tree):
    plant(tree, "docs/troubleshooting/two.md", "| `no such shape: … of a tensor` | | `not a quote` |\n`nor this`\n")
    assert list(messages.check_tree(tree)) == []


@pytest.mark.parametrize("quote", ["no answer at all", "host …: no answer… in a minute", "not this one", "…"])
def test_quotes_of_no_program_are_found(tree, quote):
    plant(tree, "docs/troubleshooting/two.md", f"# Two\n\n| `{quote}` | x |\n")
    (violation,) = messages.check_tree(tree)
    assert violation.startswith("docs/troubleshooting/two.md:3: no program prints")


def test_pieces_of_two_files_are_no_message(tree):
    plant(tree, "docs/troubleshooting/two.md", "| `no such shape: … free` | x |\n")
    assert len(list(messages.check_tree(tree))) == 1


def test_messages_of_a_family_must_be_explained(tree):
    plant(tree, "docs/troubleshooting/one.md", PAGE.replace("disk full", "disk").replace("some", ""))
    found = list(messages.check_tree(tree))
    assert any(each.startswith("launcherd/a.cc: docs/troubleshooting/one.md does not explain: …: disk full") for each in found)


def test_families_name_files_of_the_tree(tree, monkeypatch):
    monkeypatch.setattr(messages, "FAMILIES", {"one.md": ["launcherd/*.cc", "launcherd/old.cc"]})
    (violation,) = messages.check_tree(tree)
    assert "launcherd/old.cc for one.md" in violation


def test_all_error_messages_are_listed(tree):
    (texts,) = messages.error_messages(tree).values()
    assert texts == ["host …: no answer… in time (…); check that the host is up and that no firewall blocks it",
                     '…: disk full; free "some" space, as {this}']


def test_other_sentences_are_listed(tree):
    plant(tree, "agent/a.cc", 'note("{}: the agent there ended ({}): was it killed?", host, how);\nnote("{} {}", a, b);\n')
    assert messages.sentences(tree)["agent/a.cc"] == ["…: the agent there ended (…): was it killed?"]
    assert messages.sentences(tree)["launcherd/a.cc"][:2] == messages.error_messages(tree)["launcherd/a.cc"]
