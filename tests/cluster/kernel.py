"""The system calls that Python 3.11 lacks: namespaces, mounts, host name, death signal."""

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
HOST_NAMESPACES = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_SYS_MOUNT_SETATTR = 442  # the same on every architecture
_SYS_PIDFD_OPEN = 434
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def unshare(flags):
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def setns(fd, flags):
    _check(_libc.setns(fd, flags), f"setns({flags:#x})")


def mount(source, target, fstype=None, flags=0, data=None):
    encode = lambda text: None if text is None else os.fsencode(text)
    _check(_libc.mount(encode(source), encode(target), encode(fstype), ctypes.c_ulong(flags), encode(data)),
           f"mount {fstype or 'bind'} {source} on {target}")


def tmpfs(target, mode, data=""):
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode:o}" + (f",{data}" if data else ""))


def bind(source, target, readonly=False):
    mount(source, target, flags=MS_BIND)
    if readonly:
        mount(None, target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def detach(target):
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def detach_all(target):
    """Takes away everything that is mounted on target (and below), however many layers."""
    while os.path.ismount(target):
        detach(target)


class _MountAttr(ctypes.Structure):
    _fields_ = [("attr_set", ctypes.c_uint64), ("attr_clr", ctypes.c_uint64),
                ("propagation", ctypes.c_uint64), ("userns_fd", ctypes.c_uint64)]


def make_tree_readonly(path):
    """Every mount below path becomes read-only, in this mount namespace only."""
    attr = _MountAttr(attr_set=_MOUNT_ATTR_RDONLY)
    result = _libc.syscall(ctypes.c_long(_SYS_MOUNT_SETATTR), ctypes.c_int(_AT_FDCWD), os.fsencode(path),
                           ctypes.c_uint(_AT_RECURSIVE), ctypes.byref(attr), ctypes.c_size_t(ctypes.sizeof(attr)))
    if result < 0:  # kernels before 5.12
        mount(None, path, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def sethostname(name):
    raw = os.fsencode(name)
    _check(_libc.sethostname(raw, len(raw)), f"sethostname {name}")


def die_with_parent(signal_number):
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def pidfd_open(pid):
    """os.pidfd_open exists since Python 3.9 but only where its builders' kernel headers had it."""
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    fd = _check(_libc.syscall(ctypes.c_long(_SYS_PIDFD_OPEN), ctypes.c_int(pid), ctypes.c_uint(0)), "pidfd_open")
    os.set_inheritable(fd, False)
    return fd
