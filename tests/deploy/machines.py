"""A machine for each program that a deployment starts: a root of its own, in which stand the files
that the deployment puts there; a network, a user, an environment.

What a container runtime or systemd would do with those files, as far as a program can tell. Only to
be used within the namespaces of `stage`: what is made here ends with them.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Of the machine that the tests run on, for Python and the shell.
SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "lib32")
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "localtime", "ssl")
PROGRAMS = "/opt/raftflow"
UID = 10001
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_MDWE = 24, 38, 65
PR_MDWE_REFUSE_EXEC_GAIN = 1


@dataclass(frozen=True, slots=True)
class Mount:
    """`source` "" is a new tmpfs."""

    target: str
    source: str = ""
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`names` are those under which the others reach it. `groups` are further ones of its user.
    Root keeps its rights; everybody else has none, and where `syscalls` are named, only those."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    names: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    user: int = UID
    groups: tuple[int, ...] = ()
    read_only: bool = True
    # Where the programs stand, and the files that go with them.
    programs: str = PROGRAMS
    beside: tuple[str, ...] = ()
    syscalls: tuple[str, ...] = ()
    families: tuple[str, ...] = ()  # of sockets

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Machine:
        mounts = tuple(Mount(**each) for each in fields.pop("mounts"))
        lists = ("argv", "names", "groups", "beside", "syscalls", "families")
        tuples = {name: tuple(fields.pop(name)) for name in lists}
        return cls(mounts=mounts, **tuples, **fields)


def inside(machine: Machine, hosts: str) -> list[str]:
    """The command that becomes the machine's program; prefix it with what chooses the network."""
    return [
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"),
        *("--", sys.executable, "-P", __file__, json.dumps([asdict(machine), hosts])),
    ]


def _run(*command: str | Path) -> None:
    subprocess.run([str(each) for each in command], check=True)


def _bind(source: Path, target: Path, *, read_only: bool, all_of_it: bool = False) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _run("mount", "--rbind" if all_of_it else "--bind", source, target)
    if read_only:
        _run("mount", "-o", "remount,bind,ro", target)


def _system(root: Path, needed: Iterable[Path]) -> None:
    for name in SYSTEM:
        path = Path("/") / name
        if path.is_symlink():
            (root / name).symlink_to(os.readlink(path))
        elif path.exists():
            _bind(path, root / name, read_only=True)
    _bind(Path("/dev"), root / "dev", read_only=False, all_of_it=True)
    (root / "proc").mkdir()
    _run("mount", "-t", "proc", "proc", root / "proc")
    for path in needed:
        if not any(path.is_relative_to(Path("/") / name) for name in SYSTEM):
            _bind(path, root / path.relative_to("/"), read_only=True)


def _etc(root: Path, hosts: str) -> None:
    (root / "etc").mkdir(exist_ok=True)
    for name in ETC:
        if (Path("/etc") / name).exists():
            _bind(Path("/etc") / name, root / "etc" / name, read_only=True)
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
    (root / "etc/passwd").write_text(
        f"root:x:0:0::/root:/bin/sh\nraftflow:x:{UID}:{UID}::/nonexistent:/usr/sbin/nologin\n"
    )
    (root / "etc/group").write_text(f"root:x:0:\nraftflow:x:{UID}:\n")


def _programs(root: Path, machine: Machine) -> None:
    """This tree's virtual environment, in the place of the one that was installed there."""
    place = root / machine.programs.lstrip("/")
    place.mkdir(parents=True)
    for name in ("bin", "lib"):
        (place / name).symlink_to(Path(sys.prefix) / name)
    for each in machine.beside:
        (place / "deploy").mkdir(exist_ok=True)
        shutil.copy(each, place / "deploy")


def become(machine: Machine, hosts: str) -> None:
    """Build the root, go there, give up all rights, and be the program."""
    root = Path("/mnt")  # of this namespace
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "machine", root)
    # First what is empty: this tree may lie under /tmp.
    for mount in sorted(machine.mounts, key=lambda each: bool(each.source)):
        target = root / mount.target.lstrip("/")
        if mount.source:
            _bind(Path(mount.source), target, read_only=mount.read_only)
        else:
            target.mkdir(parents=True)
            _run("mount", "-t", "tmpfs", "-o", "mode=1777,size=64m", "tmpfs", target)
    _system(root, (Path(sys.base_prefix), Path(sys.prefix), ROOT))
    _etc(root, hosts)
    _programs(root, machine)
    if machine.read_only:
        _run("mount", "-o", "remount,bind,ro", root)
    os.chroot(root)
    os.chdir("/")
    if machine.user:
        _give_up_rights(machine)
    os.execvpe(machine.argv[0], machine.argv, machine.environment)


def _give_up_rights(machine: Machine) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def prctl(*arguments: int) -> None:
        padded = (*arguments, *(0,) * (5 - len(arguments)))
        if libc.prctl(*padded) != 0:
            raise OSError(ctypes.get_errno(), f"prctl{arguments}")

    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for capability in range(last + 1):
        prctl(PR_CAPBSET_DROP, capability)
    os.setgroups(machine.groups)
    os.setresgid(machine.user, machine.user, machine.user)
    os.setresuid(machine.user, machine.user, machine.user)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if machine.syscalls:
        prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN)
        _filter(machine)


def _filter(machine: Machine) -> None:
    """As systemd does it: what is not named fails with EPERM."""
    import pyseccomp as seccomp  # for those alone who name system calls

    allowed = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    for name in machine.syscalls:
        try:
            number = seccomp.resolve_syscall(seccomp.system_arch(), name)
        except ValueError:
            continue  # of another architecture, or newer than the library
        if number < 0:
            continue
        if name != "socket" or not machine.families:
            allowed.add_rule(seccomp.ALLOW, name)
            continue
        for family in machine.families:
            is_it = seccomp.Arg(0, seccomp.EQ, int(getattr(socket, family)))
            allowed.add_rule(seccomp.ALLOW, name, is_it)
    allowed.load()


if __name__ == "__main__":
    _fields, _hosts = json.loads(sys.argv[1])
    become(Machine.of(_fields), _hosts)
