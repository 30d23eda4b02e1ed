"""alice, bob and root of a test host: accounts, homes, keys.  The machine's own account files are only read."""

import os
import shutil
import subprocess

USERS = ("alice", "bob")
HOME_TMPFS = {"own": "", "shared": "", "noexec": "", "full": "size=128k"}


def choose_accounts():
    """{user: {uid, gid, home}}, with root; the uids are free on this machine."""
    with open("/etc/passwd") as file:
        taken = {int(line.split(":")[2]) for line in file if line.count(":") >= 2 and line.split(":")[0] not in USERS}
    result = {"root": {"uid": 0, "gid": 0, "home": "/root"}}
    uid = 2001
    for user in USERS:
        while uid in taken:
            uid += 1
        taken.add(uid)
        result[user] = {"uid": uid, "gid": uid, "home": f"/home/{user}"}
    return result


def add_accounts(etc, accounts):
    """Writes the users into the account files of the folder etc, a copy."""
    new = {"passwd": lambda user, uid: f"{user}:x:{uid}:{uid}:{user}:/home/{user}:/bin/bash",
           "group": lambda user, uid: f"{user}:x:{uid}:",
           "shadow": lambda user, uid: f"{user}:*:19000:0:99999:7:::"}
    for name, line_of in new.items():
        with open(f"{etc}/{name}") as file:
            lines = [line.rstrip("\n") for line in file if line.split(":")[0] not in USERS]
        lines += [line_of(user, accounts[user]["uid"]) for user in USERS]
        with open(f"{etc}/{name}", "w") as file:
            file.write("\n".join(lines) + "\n")


def make_keys(folder, names):
    """ed25519 pairs folder/NAME and folder/NAME.pub, made side by side."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    running = [subprocess.Popen(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", f"{folder}/{name}"],
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for name in names]
    for process in running:
        _, problem = process.communicate()
        if process.returncode != 0:
            raise OSError(f"ssh-keygen: {problem.strip()}")


def known_hosts(keys, hosts):
    """One line per host: its names and addresses, its key."""
    text = ""
    for host, net in hosts.items():
        with open(f"{keys}/{host}.pub") as file:
            kind, key = file.read().split()[:2]
        text += f"{','.join([host, *net['aliases'], host + '-v6', net['v4'], net['v6']])} {kind} {key}\n"
    return text


def _write(path, text, account, mode):
    with open(path, "w") as file:
        file.write(text)
    os.chown(path, account["uid"], account["gid"])
    os.chmod(path, mode)


def fill_home(folder, user, account, keys, known=None):
    """The home of one user: authorized_keys, an empty .bashrc; with known (text) also private key and known_hosts."""
    os.makedirs(f"{folder}/.ssh", exist_ok=True)
    for path in (folder, f"{folder}/.ssh"):
        os.chown(path, account["uid"], account["gid"])
        os.chmod(path, 0o700)
    with open(f"{keys}/{user}.pub") as file:
        _write(f"{folder}/.ssh/authorized_keys", file.read(), account, 0o600)
    _write(f"{folder}/.bashrc", "", account, 0o644)
    if known is not None:
        with open(f"{keys}/{user}") as file:
            _write(f"{folder}/.ssh/id_ed25519", file.read(), account, 0o600)
        shutil.copyfile(f"{keys}/{user}.pub", f"{folder}/.ssh/id_ed25519.pub")
        os.chown(f"{folder}/.ssh/id_ed25519.pub", account["uid"], account["gid"])
        _write(f"{folder}/.ssh/known_hosts", known, account, 0o644)


def fill_up(path, account):
    """Writes a file until the file system has no byte left."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.fchown(fd, account["uid"], account["gid"])
    try:
        while True:
            os.write(fd, bytes(4096))
    except OSError:
        pass
    finally:
        os.close(fd)
