"""launcherd as a service: a stand-in for systemd opens its socket and hears its states, and systemd-analyze reads the
installed units."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest

BIN = pathlib.Path(os.environ["MUSTER_BIN_DIR"])
PATIENCE = 60


class Manager:
    """What systemd does for a service with Type=notify and a socket: the protocols of sd_notify and sd_listen_fds."""

    def __init__(self, folder):
        self.folder = folder
        self.folder.mkdir(mode=0o700)
        self.path = folder / "launcherd.sock"
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(str(self.path))
        self.listening.listen(8)
        self.states = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.states.bind(str(folder / "notify"))
        self.states.settimeout(PATIENCE)
        self.started = []

    def start(self, state):
        # Descriptor 3 is the socket, and LISTEN_PID the process that gets it.
        script = f'exec 3<&{self.listening.fileno()}; LISTEN_PID=$$ exec "$@"'
        process = subprocess.Popen(["/bin/bash", "-c", script, "bash", BIN / "launcherd", "-H", "localhost:2", "--state", state],
                                   pass_fds=[self.listening.fileno()], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "LISTEN_FDS": "1", "NOTIFY_SOCKET": str(self.folder / "notify"),
                                        "MUSTER_TMPDIR": str(self.folder)})
        self.started.append(process)
        return process

    def state(self):
        return self.states.recv(4096).decode()

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=PATIENCE)
        self.listening.close()
        self.states.close()


@pytest.fixture
def manager(tmp_path):
    one = Manager(tmp_path / "run")
    yield one
    one.close()


def jobs(manager):
    return subprocess.run([BIN / "muster", "jobs", "--launcher", f"unix:{manager.path}"], capture_output=True, text=True,
                          timeout=PATIENCE)


def test_it_takes_the_socket_and_says_what_it_does(manager, tmp_path):
    first = manager.start(tmp_path / "state")
    ready = manager.state()
    assert ready.startswith("READY=1\nSTATUS=serving") and str(manager.path) in ready, ready
    assert jobs(manager).returncode == 0
    first.send_signal(signal.SIGHUP)
    assert manager.state().startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert manager.state().startswith("READY=1\n")
    first.terminate()
    assert manager.state() == "STOPPING=1"
    assert first.wait(PATIENCE) == 0
    # The socket stays, so a client waits for the next launcherd and is not refused.
    assert manager.path.exists()
    client = subprocess.Popen([BIN / "muster", "jobs", "--launcher", f"unix:{manager.path}"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    manager.start(tmp_path / "state")
    assert manager.state().startswith("READY=1")
    output, _ = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, output


def test_a_folder_that_others_may_enter_is_refused(manager, tmp_path):
    manager.folder.chmod(0o755)
    process = manager.start(tmp_path / "state")
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0 and "must be ours with mode 0700" in errors, errors


DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def settings_of(page):
    """The lines of the page that write a file of settings: [(words of printf, name of the file)]."""
    found = re.findall(r"^ *printf (.*) > ([\w/~.-]+)(?: *#.*)?$", (DOCS / page).read_text(), re.MULTILINE)
    assert found, page
    return found


@pytest.mark.parametrize("page", ["lab.md", "guide/service.md"])
def test_the_settings_of_the_pages_are_right(page, tmp_path):
    """What a page writes into launcherd.yaml passes launcherd --check; a typo in it does not."""
    for words, name in settings_of(page):
        file = tmp_path / pathlib.Path(name).name
        subprocess.run(["sh", "-c", f'printf {words} > "$0"', file], check=True)
    settings, hosts = tmp_path / "launcherd.yaml", tmp_path / "hosts"
    if not hosts.exists():
        hosts.write_text("n1 slots=4\n")
    text = re.sub(r"(?m)^hostfile: .*/hosts$", f"hostfile: {hosts}", settings.read_text())
    settings.write_text(text)
    command = [BIN / "launcherd", "--check", "--config-file", settings, "--state", tmp_path / "state"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert checked.returncode == 0 and checked.stderr == "", checked
    assert re.search(r"^hosts +\d+ hosts? with \d+ slots$", checked.stdout, re.MULTILINE), checked
    assert re.search(rf"^hostfile +{hosts} +{settings}:\d+$", checked.stdout, re.MULTILINE), checked
    assert not (tmp_path / "state").exists()
    settings.write_text(text.replace("hostfile", "hostfiel"))
    wrong = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert wrong.returncode == 2 and "unknown key 'hostfiel'; did you mean hostfile?" in wrong.stderr, wrong


def test_systemd_accepts_the_units(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is missing")
    prefix = tmp_path / "prefix"
    subprocess.run(["cmake", "--install", BIN.parent, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    for kind in ("system", "user"):
        units = prefix / "lib/systemd" / kind
        finished = subprocess.run([analyze, "verify", f"--{kind}", "--man=no", units / "launcherd.service",
                                   units / "launcherd.socket"], capture_output=True, text=True, timeout=PATIENCE,
                                  env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
        ours = [line for line in finished.stderr.splitlines() if "launcherd." in line]
        assert finished.returncode == 0 and ours == [], finished
