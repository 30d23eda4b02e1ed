"""What ranks find of PALS, by which programs of Cray MPICH find each other: variables, and the file apinfo. There is no Cray
here: this reads the file as Slurm's and flux-coral2's sources say that Cray's library does, and no more."""

import re

import pytest

READ = """
import os, struct
e = os.environ
if 'PALS_APINFO' not in e:
    raise SystemExit(print('none', [name for name in e if name.startswith(('PALS_', 'PMI_CONTROL', 'PMI_SHARED'))]))
data = open(e['PALS_APINFO'], 'rb').read()
head = struct.unpack_from('<i4xQ' + 5 * 'QQi4x' + 'QQQ', data)
sections = [head[2 + 3 * i:5 + 3 * i] for i in range(5)]
records = lambda i, form: [struct.unpack_from(form, data, sections[i][1] + k * sections[i][0]) for k in range(sections[i][2])]
me = records(2, '<3i')[int(e['PALS_RANKID'])]
hosts = [(number, name.rstrip(b'\\0').decode()) for number, name in records(3, '<i64s')]
mode = lambda path: oct(os.stat(path).st_mode & 0o777)
print('apinfo', head[0], head[1] == len(data), records(1, '<2i'), me, hosts, e['PALS_LOCAL_RANKID'], e['PALS_NODEID'],
      mode(e['PALS_APINFO']), mode(e['PALS_SPOOL_DIR']))
print('ports', e.get('PMI_CONTROL_PORT'), e.get('PMI_SHARED_SECRET'))
"""
PYTHON = ["/usr/bin/python3", "-c", READ]
TWO = ["-np", "4", "-H", "n1:2,n2:2"]


@pytest.fixture(autouse=True)
def tidy(no_leftovers):
    return no_leftovers


def test_every_rank_reads_who_is_where(hvdrun):
    done = hvdrun(["-np", "1", "-H", "n1:2,n2:2", "--runtime", "mpi", *PYTHON, ":", "-np", "3", *PYTHON])
    assert done.rc == 0, done
    said = dict(re.findall(r"\[(\d)\]<stdout>:apinfo (.*)", done.stdout))
    where = ["(0, 0, 0)", "(1, 1, 0)", "(0, 1, 1)", "(1, 1, 1)"]  # local rank, program, host
    for rank, place in enumerate(where):
        assert said[str(rank)] == (f"5 True [(1, 1), (3, 2)] {place} [(0, 'n1'), (1, 'n2')] {rank % 2} {rank // 2} "
                                   "0o600 0o700"), done
    ports = set(re.findall(r"<stdout>:ports (.*)", done.stdout))
    assert len(ports) == 1, done
    assert re.fullmatch(r"(11\d{3},){2}11\d{3} \d+", ports.pop()), done  # one more than programs
    assert "PMI_SHARED_SECRET" not in done.stderr


def test_on_one_host_no_port_is_named(hvdrun):
    done = hvdrun(["-np", "2", "-H", "n1:2", "--runtime", "mpi", *PYTHON])
    assert done.rc == 0 and done.stdout.count("ports None None") == 2, done


def test_auto_serves_it_where_crays_module_is_loaded(hvdrun):
    done = hvdrun([*TWO, *PYTHON])
    assert done.rc == 0 and done.stdout.count("none []") == 4, done
    done = hvdrun([*TWO, *PYTHON], env={"CRAY_MPICH_DIR": "/opt/cray/pe/mpich"})
    assert done.rc == 0 and done.stdout.count("apinfo 5 True") == 4, done
    done = hvdrun([*TWO, "--runtime", "torch", *PYTHON], env={"CRAY_MPICH_DIR": "/opt/cray/pe/mpich"})
    assert done.rc == 0 and done.stdout.count("none []") == 4, done


def test_two_jobs_have_their_own_ports_and_secrets(hvdrun):
    said = [re.search(r"ports (\S+) (\d+)", hvdrun([*TWO, "--runtime", "mpi", *PYTHON]).stdout) for _ in range(2)]
    assert said[0][1] != said[1][1] and said[0][2] != said[1][2], said
