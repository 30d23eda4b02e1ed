"""muster.client with the newest grpcio and protobuf, and its types as mypy sees them (tools/peers client)."""

import os
import pathlib
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PEER = REPOSITORY / "build/release/peers/client/bin/python"
PACKAGES = os.environ.get("PYTHONPATH", str(REPOSITORY / "build/release/python"))
GENERATED = pathlib.Path(PACKAGES).parent / "generated_python/muster/v1"

USES = """
from muster.client import AsyncClient, Client, JobState, job_request

with Client() as client:
    job: str = client.submit(["true"], size=2, hosts=["n1:2"], environment={"A": b"x"})
    page = client.list_jobs(states=[JobState.RUNNING])
    names: list[str] = [each.name for each in page.jobs]
    sequences: list[int] = [event.sequence for event in client.watch(job)]
    data: bytes = b"".join(chunk.data for chunk in client.logs(job))


async def main() -> int:
    async with AsyncClient() as client:
        return (await client.wait(await client.submit(job_request(["true"])))).exit_code
"""
WRONG = {
    'Client().submit(["true"], size="two")': "size",
    'Client().submit(["true"], sise=2)': "sise",
    "Client().submit(7)": "submit",
    'Client().get("a").nothing': "nothing",
    'x: int = Client().submit(["true"])': "Incompatible types",
}


pytestmark = pytest.mark.skipif(not PEER.exists(), reason="tools/peers client was not run")


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The package as a wheel has it: with the messages beside muster/v1/__init__.py."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "muster/v1").mkdir(parents=True)
    for part in ("__init__.py", "py.typed", "_library.py", "client"):
        subprocess.run(["cp", "-rL", pathlib.Path(PACKAGES) / "muster" / part, folder / "muster"], check=True)
    for file in [pathlib.Path(PACKAGES) / "muster/v1/__init__.py", *GENERATED.iterdir()]:
        if file.is_file():
            (folder / "muster/v1" / file.name).write_bytes(file.read_bytes())
    return folder


def checked(packages, *words, cwd):
    return subprocess.run([PEER, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", packages / "cache", *words],
                          env={**os.environ, "MYPYPATH": str(packages), "PYTHONPATH": ""}, cwd=cwd, capture_output=True, text=True,
                          timeout=300, check=False)


def test_the_client_itself(packages, tmp_path):
    done = checked(packages, "-p", "muster.client", cwd=tmp_path)
    problems = [line for line in done.stdout.splitlines() if "/muster/client/" in line]
    assert not problems and "checked" in done.stdout, done.stdout + done.stderr


def test_a_program_that_uses_it(packages, tmp_path):
    (tmp_path / "uses.py").write_text(USES)
    done = checked(packages, "uses.py", cwd=tmp_path)
    problems = [line for line in done.stdout.splitlines() if line.startswith("uses.py")]  # not those of protoc's own .pyi
    assert not problems and "checked 1 source file" in done.stdout, done.stdout + done.stderr


def test_mistakes_are_found(packages, tmp_path):
    for number, (line, word) in enumerate(WRONG.items()):
        (tmp_path / f"wrong{number}.py").write_text(f"from muster.client import Client\n\n{line}\n")
    done = checked(packages, *(f"wrong{number}.py" for number in range(len(WRONG))), cwd=tmp_path)
    for number, word in enumerate(WRONG.values()):
        found = [line for line in done.stdout.splitlines() if line.startswith(f"wrong{number}.py:3: error")]
        assert found and word in found[0], done.stdout


def test_the_other_tests_with_the_newest_libraries(packages):
    """test_client_parts.py, which starts gRPC servers of its own."""
    done = subprocess.run([PEER, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest", "-k", "not libmuster and not is_missing",
                           pathlib.Path(__file__).with_name("test_client_parts.py")],
                          env={**os.environ, "PYTHONPATH": str(packages)}, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
