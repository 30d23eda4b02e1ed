"""Words, paths, names and output that are no UTF-8, on the way to the hosts and back."""

import os

import pytest

LINKS = pytest.mark.parametrize("link", ["dial", "ssh"])
ODD = os.fsdecode(b"caf\xe9")  # as the command line of a shell has it
SOON = 15  # seconds: the lease of a host that is not heard of any more


@LINKS
def test_one_odd_byte_on_stderr(hvdrun, no_leftovers, link):
    result = hvdrun(["--agent-link", link, "-np", "1", "-H", "n1", "sh", "-c", r"printf '\351\n' >&2"])
    assert result.rc == 0 and result.elapsed < SOON, result
    assert b"[0]<stderr>:\xe9\n" in result.stderr_bytes


def test_the_last_lines_of_a_rank_that_failed(hvdrun, no_leftovers):
    result = hvdrun(["-np", "1", "-H", "n1", "/usr/bin/python3", "-c",
                     r"import sys; sys.stderr.buffer.write(b'\xff' + 'é'.encode() * 4600 + b'\n'); sys.exit(3)"])
    assert result.rc == 3 and result.elapsed < SOON, result


@LINKS
def test_words_and_folders_are_bytes(hvdrun, cluster, no_leftovers, link):
    folder = f"/tmp/{ODD}"
    cluster.run("n1", "alice", ["mkdir", "-p", folder], check=True)
    result = hvdrun(["--agent-link", link, "-np", "1", "-H", "n1", "--wdir", folder, "sh", "-c",
                     'pwd; printf "%s\\n" "$1"', "sh", ODD])
    assert result.rc == 0 and result.elapsed < SOON, result
    assert b"[0]<stdout>:/tmp/caf\xe9\n[0]<stdout>:caf\xe9\n" in result.stdout_bytes
    missing = hvdrun(["--agent-link", link, "-np", "1", "-H", "n1", f"./{ODD}"])
    assert missing.rc == 127 and missing.elapsed < SOON, missing


def test_a_process_that_is_left_and_has_a_name_cut_in_a_character(hvdrun, no_leftovers):
    program = "/tmp/" + "é" * 8  # the kernel keeps 15 bytes of it
    result = hvdrun(["-np", "1", "-H", "n1", "sh", "-c",
                     f"cp /bin/sleep {program}; {program} 1000 > /dev/null 2>&1 &"])
    assert result.rc == 0 and result.elapsed < SOON, result
    assert "1 leftover process" in result.stderr, result
