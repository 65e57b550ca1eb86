"""What keeps a stopped node from starting, as far as its machine shows it. It changes nothing.

The same functions judge that judge at a start, so that the words are the same; what a start would
stop at first is not the last that is said here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import resource
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import structlog.testing

from raftflow.cluster import tls
from raftflow.cluster.api import token_file
from raftflow.cluster.cli.findings import ADVICE, PROBLEM, Finding, worst_first
from raftflow.cluster.cli.machine_findings import DISK_LOW, DISK_SOON, FREE_SPACE, MIB
from raftflow.cluster.config import Address, Config, ConfigError
from raftflow.cluster.config_sources import load
from raftflow.cluster.consensus.identity import (
    SET_ASIDE,
    IdentityError,
    read_identity,
    refuse_strangers,
    require,
)
from raftflow.cluster.consensus.outcast import REMOVED
from raftflow.cluster.consensus.recovery import has_peers
from raftflow.cluster.errors import StartRefused
from raftflow.cluster.store.connection import APPLICATION_ID, SCHEMA_VERSION
from raftflow.raftlog import dump
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.errors import JournalError

DIAL_S = 1.0
MOST_DAMAGED = 5
_FILES_BESIDE = 512  # as `affordable` of the API keeps them
_SQLITE = b"SQLite format 3\x00"
_PORTS = ("http_addr", "grpc_addr", "raft_addr", "metrics_addr")
_START = "correct it as it says, and start the node"
_CERTIFICATES = 'docs/security.md, "TLS"'


@dataclass(slots=True)
class Checkup:
    node_id: str = ""
    data_dir: str = ""
    checked: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def examine(file: Path | None, data_dir: Path | None, env: Mapping[str, str]) -> Checkup:
    """Of the node that `file` and the environment configure; without a file, of the one whose
    directory it is, as far as that alone tells."""
    made = Checkup(data_dir=str(data_dir or ""))
    flags: dict[str, str | None] = {"data_dir": str(data_dir) if data_dir else None}
    try:
        if file is None and data_dir is not None:
            flags |= _of_directory(data_dir, env)
        config = load(flags=flags, env=env, file=file)
    except (ConfigError, IdentityError) as error:
        made.checked = ["settings"]
        made.findings = [Finding(PROBLEM, "", str(error), _START, "settings")]
        return made
    made.node_id, made.data_dir = config.node_id, str(config.data_dir)
    made.checked = ["settings"]
    running = _holder(config.data_dir)
    looks: dict[str, Callable[[], Iterator[Finding]]] = {
        "directory": lambda: _of_identity(config),
        "owner": lambda: _of_owner(config.data_dir),
        "log": lambda: _of_log(config),
        "state": lambda: _of_state(config.data_dir),
        "certificates": lambda: _of_certificates(config),
        "tokens": lambda: _of_tokens(config),
        "disk": lambda: _of_disk(config.data_dir),
        "open files": lambda: _of_files(config),
    }
    if file is None:  # whose certificates and tokens these are is not known
        del looks["certificates"], looks["tokens"]
    if running:
        what = f"process {running} runs in {config.data_dir}: the node is not stopped"
        then = "ask the cluster: `raftflow doctor --address HOST:PORT`"
        made.findings.append(Finding(ADVICE, config.node_id, what, then, "process"))
    elif file is not None:
        looks |= {"ports": lambda: _of_ports(config), "peers": lambda: _of_peers(config)}
    for name, look in looks.items():
        made.checked.append(name)
        made.findings += [
            replace(each, node=config.node_id, check=each.check or name) for each in look()
        ]
    made.findings = worst_first(made.findings)
    return made


def _of_directory(data_dir: Path, env: Mapping[str, str]) -> dict[str, str | None]:
    """Its own word for whose it is, where nobody else says it."""
    found = read_identity(str(data_dir))
    if found is None:
        return {}
    known = {"node_id": found.node_id, "cluster_id": found.cluster_id}
    return {name: None if env.get(f"RAFTFLOW_{name.upper()}") else it for name, it in known.items()}


def _holder(data_dir: Path) -> str:
    """The process that holds the directory; empty when none does."""
    try:
        with (data_dir / "lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read(32).decode("ascii", "replace").strip() or "unknown"
    except OSError:
        pass
    return ""


def _problem(what: str, then: str = _START) -> Finding:
    return Finding(PROBLEM, "", what, then)


def _advice(what: str, then: str) -> Finding:
    return Finding(ADVICE, "", what, then)


# ---- the directory -------------------------------------------------------------------------------


def _of_identity(config: Config) -> Iterator[Finding]:
    directory = str(config.data_dir)
    if not config.data_dir.is_dir():
        parent = next(each for each in config.data_dir.absolute().parents if each.exists())
        if config.data_dir.exists():
            yield _problem(f"{directory} is no directory", "name another with data_dir")
        elif not os.access(parent, os.W_OK | os.X_OK):
            what = f"{directory} is not there, and {parent} cannot be written by this user"
            yield _problem(
                what, f"make it, for the user of the node: `install -d -o USER {directory}`"
            )
        else:
            what = f"{directory} is not there: a start makes it, and the node begins empty"
            yield _advice(what, "if it had data, name the directory that has it (data_dir)")
        return
    try:
        found = read_identity(directory)
        if found is None:
            refuse_strangers(directory)
            return
        require(
            found,
            directory,
            cluster_id=config.cluster_id,
            node_id=config.node_id,
            only_at_birth=config.cluster_id_derived,
        )
    except IdentityError as error:
        yield _problem(str(error))
    except OSError as error:
        yield _problem(f"{error.filename or directory}: {error.strerror}", "give it to its user")
    mark = config.data_dir / "raft" / REMOVED
    if mark.exists():
        how = mark.read_text("utf-8", "replace").strip()
        what = f"its cluster has removed {config.node_id} ({how})"
        then = (
            f"to have it back: `raftflow node rebuild {directory}`, `raftflow node add"
            f" {config.node_id}={config.advertise_raft_addr}`, and start it with --join; otherwise"
            " nothing here is needed any more"
        )
        yield _problem(what, then)
    aside = sorted(each.name for each in config.data_dir.glob(f"{SET_ASIDE}*"))
    if aside:
        what = f"{directory} keeps what was set aside: {', '.join(aside)}"
        yield _advice(what, "keep it for a report, or delete it once the node is whole again")


def _of_owner(data_dir: Path) -> Iterator[Finding]:
    """A node that was once started as root leaves files that its own user cannot open."""
    if not data_dir.is_dir():
        return
    owner = data_dir.stat().st_uid
    for path in (*data_dir.glob("*"), *(data_dir / "raft").glob("*")):
        try:
            other = path.lstat().st_uid
        except OSError:
            continue
        if other != owner:
            what = (
                f"{path} belongs to {_user(other)}, and {data_dir} to {_user(owner)}: as that user"
                " the node cannot use it"
            )
            yield _problem(what, f"`chown -R {_user(owner)} {data_dir}`, and start it as that user")
            return


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _of_log(config: Config) -> Iterator[Finding]:
    directory = str(config.data_dir / "raft")
    try:
        if not os.path.isdir(directory) or not dump.holds_log(directory, OsDisk()):
            return
        found = dump.verify(directory, OsDisk())
    except (JournalError, OSError) as error:
        yield _problem(str(error))
        return
    damaged = [each for each in found if each.severity is dump.Severity.DAMAGED]
    peers = has_peers(str(config.data_dir), config.node_id, config.voters)
    for each in damaged[:MOST_DAMAGED]:
        what = f"its log is damaged: {each.path}, offset {each.offset}: {each.message}"
        if peers:
            then = (
                "start it while most others run: it fetches what is missing from them;"
                ' docs/operating.md, "Damaged disks"'
            )
            yield _advice(what, then)
        else:
            yield _problem(what, each.remedy)
    if len(damaged) > MOST_DAMAGED:
        more = f"and {len(damaged) - MOST_DAMAGED} more places"
        yield _advice(more, f"`raftflow log verify {config.data_dir}` names them all")


def _of_state(data_dir: Path) -> Iterator[Finding]:
    """The head of the file alone: to open it would change what is beside it."""
    path = data_dir / "state.db"
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        return
    except OSError as error:
        yield _problem(f"{path}: {error.strerror}", "give it to the user of the node")
        return
    if not head:
        return  # it was just made
    application = int.from_bytes(head[68:72], "big")
    schema = int.from_bytes(head[60:64], "big")
    if head[:16] != _SQLITE or application not in (0, APPLICATION_ID):
        what = f"{path} is not a raftflow store, or its first page is damaged"
        then = "move it away and start the node while most others run: it fetches the state"
        yield _problem(what, then)
    elif schema > SCHEMA_VERSION:
        what = f"{path} has schema version {schema}, and this release knows {SCHEMA_VERSION}"
        yield _problem(what, "start it with the release that wrote it, or a newer one")


# ---- what it is given ----------------------------------------------------------------------------


def _of_certificates(config: Config) -> Iterator[Finding]:
    found = _cluster_of(config)
    for make in (tls.api_credentials, tls.peer_credentials):
        try:
            with structlog.testing.capture_logs():
                credentials = make(_as_started(config, found))
        except StartRefused as error:
            yield _problem(str(error), f"{_START}; {_CERTIFICATES}")
            continue
        for use, ends in credentials.loaded.ends.items() if credentials else ():
            left = ends - datetime.now(UTC)
            if left.days < 14:
                over = "is over" if left.total_seconds() < 0 else f"is over in {left.days} days"
                what = f"its certificate ({use}) {over}: {ends:%Y-%m-%d %H:%M} UTC"
                then = "`raftflow cert rotate`; docs/security.md"
                yield _problem(what, then) if left.days < 3 else _advice(what, then)


def _cluster_of(config: Config) -> str:
    """The cluster that its directory is of, where it says so."""
    with contextlib.suppress(IdentityError, OSError):
        found = read_identity(str(config.data_dir))
        return found.cluster_id if found else ""
    return ""


def _as_started(config: Config, cluster_id: str) -> Config:
    """As a start does it: a directory keeps the id that it has."""
    derived = config.cluster_id_derived and cluster_id
    return replace(config, cluster_id=cluster_id) if derived else config


def _of_tokens(config: Config) -> Iterator[Finding]:
    if not config.auth_token_file:
        return
    with structlog.testing.capture_logs() as warned:
        try:
            token_file.load(config.auth_token_file)
        except StartRefused as error:
            yield _problem(str(error), f'{_START}; docs/security.md, "Tokens"')
    for each in warned:
        what = f"auth_token_file {each['file']} has mode {each['mode']}"
        yield _advice(what, str(each["remedy"]))


# ---- the machine ---------------------------------------------------------------------------------


def _of_disk(data_dir: Path) -> Iterator[Finding]:
    there = next(each for each in (data_dir, *data_dir.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    if free < DISK_SOON:
        what = f"the disk of {data_dir} has {free // MIB:,} MiB left"
        yield _problem(what, FREE_SPACE) if free < DISK_LOW else _advice(what, FREE_SPACE)
    state = os.statvfs(there)
    if state.f_files and state.f_favail < 1_000:
        what = f"the disk of {data_dir} has room for {state.f_favail} more files (inodes)"
        yield _problem(what, "delete small files there, or move the directory to another disk")


def _of_files(config: Config) -> Iterator[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * config.limits.connections + _FILES_BESIDE
    if hard != resource.RLIM_INFINITY and hard < needed:
        what = f"a process of this shell may have {hard:,} files open; the node wants {needed:,}"
        then = (
            f"`ulimit -Hn {needed}`, or LimitNOFILE={needed} in its systemd unit: else it takes"
            " fewer connections than limits.connections says"
        )
        yield _advice(what, then)


def _of_ports(config: Config) -> Iterator[Finding]:
    for name in _PORTS:
        address: Address = getattr(config, name)
        try:
            _bind(address)
        except OSError as error:
            yield _not_bound(name, address, error)


def _bind(address: Address) -> None:
    family, kind, protocol, _, where = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(where)


def _not_bound(name: str, address: Address, error: OSError) -> Finding:
    if error.errno == errno.EADDRINUSE:
        what = f"{name} {address} is taken by another process"
        return _problem(
            what, f"`ss -ltnp 'sport = :{address.port}'` names it; end it, or set {name}"
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        what = f"{name} {address}: that is no address of this machine ({error.strerror})"
        then = f"set {name} to one that `ip address` shows (or 0.0.0.0) and advertise_{name}"
        return _problem(what, then)
    return _problem(f"{name} {address} cannot be bound: {error.strerror}", f"set {name} to another")


def _of_peers(config: Config) -> Iterator[Finding]:
    """Nobody leads without a majority: who it has to be, and whether they are there."""
    others = [peer for peer in config.voters if peer.id != config.node_id]
    away: dict[str, str] = {}
    for peer in others:
        try:
            socket.create_connection((peer.raft.host, peer.raft.port), timeout=DIAL_S).close()
        except OSError as error:
            away[f"{peer.id} at {peer.raft}"] = error.strerror or str(error)
    if not away:
        return
    said = "; ".join(f"{peer}: {why}" for peer, why in away.items())
    majority = len(config.voters) // 2 + 1
    then = "start them, or see that their Raft ports are reached from here; a start waits for them"
    if len(others) - len(away) + 1 < majority and not config.join:
        what = f"no majority of {majority} would be there with this node: {said}"
        yield _advice(what, then)
    else:
        yield _advice(f"it would not reach {said}", then)
