"""Where the launcher is, and how its client proves who it is. The rules are those of the command `muster`.

The address is the one that is given, else MUSTER_LAUNCHER, else $XDG_RUNTIME_DIR/muster/launcherd.sock, else
${MUSTER_TMPDIR:-/tmp}/muster-<uid>/launcherd.sock. It reads unix:/path, host:port or [v6]:port. Over TCP the files of the
certificate are those that are given, else MUSTER_TLS_CERT, MUSTER_TLS_KEY and MUSTER_TLS_CA.
"""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import stat
import struct
from typing import List, Mapping, Optional

from muster.client.errors import InvalidArgument, PermissionDenied, Unavailable, no_answer

_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._][A-Za-z0-9._-]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_HIGHEST_PORT = 65535
_CONNECT_SECONDS = 20.0


@dataclasses.dataclass(frozen=True)
class TlsFiles:
    """Paths of PEM files: the caller's certificate, its private key, and the authority of the launcher's certificate."""

    certificate: str = ""
    key: str = ""
    authority: str = ""


@dataclasses.dataclass(frozen=True)
class Address:
    """A launcher's address. `path` is that of its Unix socket; if it is empty, `endpoint` is host:port."""

    path: str = ""
    endpoint: str = ""
    tls: TlsFiles = TlsFiles()

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else self.endpoint


def parse_address(text: str, tls: TlsFiles = TlsFiles()) -> Address:
    """Raises InvalidArgument if `text` is no address."""
    if text.startswith("unix:/") and "\0" not in text:
        return Address(path=text[len("unix:"):])
    host, _, port = text.rpartition(":")
    if _HOST.fullmatch(host) and _PORT.fullmatch(port) and int(port) <= _HIGHEST_PORT:
        return Address(endpoint=text, tls=tls)
    raise InvalidArgument(f"{text!r} is not a launcher address; write unix:/path, host:port or [v6]:port", field="launcher")


def _own_sockets(environment: Mapping[str, str]) -> List[str]:
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    folders = [f"{runtime}/muster"] if runtime.startswith("/") else []
    folders.append(f"{environment.get('MUSTER_TMPDIR') or '/tmp'}/muster-{os.geteuid()}")
    return [f"{folder}/launcherd.sock" for folder in folders]


def find_address(launcher: Optional[str] = None, tls: Optional[TlsFiles] = None,
                 environment: Optional[Mapping[str, str]] = None) -> Address:
    """Returns the address to use. Raises InvalidArgument for a malformed one, and Unavailable if none was named and no
    launcherd of this user runs on this host. `environment` is that of this process if it is None."""
    variables = os.environ if environment is None else environment
    files = tls or TlsFiles(variables.get("MUSTER_TLS_CERT", ""), variables.get("MUSTER_TLS_KEY", ""),
                            variables.get("MUSTER_TLS_CA", ""))
    named = launcher or variables.get("MUSTER_LAUNCHER", "")
    if named:
        return parse_address(named, files)
    for path in _own_sockets(variables):
        try:
            check_socket(path)
        except Unavailable:
            continue
        return Address(path=path)
    raise Unavailable("no launcherd of yours runs on this host: start one with launcherd --hostfile FILE, or name one by "
                      "the argument `launcher` or MUSTER_LAUNCHER")


def check_socket(path: str) -> None:
    """Raises Unavailable if no launcher listens at the socket, and PermissionDenied if one of another user does.

    Submissions carry secrets, and everybody may make a folder of this user's name in /tmp."""
    where = f"unix:{path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(path)
        except PermissionError as why:
            raise PermissionDenied(f"the launcher at {where} belongs to another user") from why
        except OSError as why:
            raise no_answer(where, os.strerror(why.errno).lower() if why.errno else str(why)) from why
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", credentials)[1] != os.geteuid():
        raise PermissionDenied(f"the launcher at {where} belongs to another user")


def _read(what: str, path: str) -> bytes:
    if not path:
        raise InvalidArgument(f"a launcher by TCP needs certificates, but {what} is not set: give `tls`, or MUSTER_TLS_CERT, "
                              "MUSTER_TLS_KEY and MUSTER_TLS_CA", field=what)
    try:
        with open(path, "rb") as file:
            if what == "tls.key":
                _check_key(path, os.fstat(file.fileno()))
            return file.read()
    except OSError as why:
        raise InvalidArgument(f"{what}: cannot read {path}: {os.strerror(why.errno or 0)}", field=what) from why


def _check_key(path: str, about: os.stat_result) -> None:
    if about.st_uid not in (os.geteuid(), 0):
        raise PermissionDenied(f"tls.key: {path} belongs to another user, who could change the key: chown it")
    forbidden = stat.S_IRWXO | stat.S_IWGRP
    if about.st_uid != 0:
        forbidden |= stat.S_IRWXG
    if about.st_mode & forbidden:
        raise PermissionDenied(f"tls.key: {path} is a private key that other users may read or write: run chmod 600 on it")


@dataclasses.dataclass(frozen=True)
class TlsTexts:
    """The contents of TlsFiles. Secret."""

    certificate: bytes
    key: bytes
    authority: bytes


def read_tls(files: TlsFiles) -> TlsTexts:
    """Raises InvalidArgument for a file that is missing, and PermissionDenied for a key that is open to others."""
    return TlsTexts(_read("tls.certificate", files.certificate), _read("tls.key", files.key),
                    _read("tls.authority", files.authority))
