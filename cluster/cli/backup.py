"""`raftflow backup`: keep the whole state of a cluster, judge what was kept, begin anew from it.

A backup is a file with the state at one entry and a manifest, in a directory of their own. The
place for it may be a directory or an object store: only this program writes there, no node.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftflow.cluster.backup import manifest as manifests
from raftflow.cluster.backup.manifest import MANIFEST, STATE, BackupError, Manifest
from raftflow.cluster.backup.places import Place, inside, place
from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import client_options, output_option
from raftflow.cluster.cli.output import Printer
from raftflow.cluster.cli.progress import measuring
from raftflow.cluster.config_sources import SETTINGS, load
from raftflow.cluster.printable import printable

if TYPE_CHECKING:
    # SQLite and the log cost a quarter of a second that only a restore should pay.
    from raftflow.cluster.backup.restoring import Restoration

BACKUP = "/api/cluster/backup"
HEADER = "X-Raftflow-Backup"
RESTORE_SETTINGS = ("node_id", "data_dir", "peers", "cluster_id", "raft_addr")


@click.group()
def backup() -> None:
    """Back up a cluster, verify a backup, restore a new cluster from one.

    A PLACE is a directory, or the URL of an object store: s3://BUCKET/PATH, gs://, az:// and what
    else obstore knows (pip install 'raftflow[backup]'; credentials as for the store's own tools).
    A BACKUP is what `create` printed: a place and a name in it.
    """


@backup.command()
@click.argument("where", metavar="PLACE")
@client_options
def create(client: Client, printer: Printer, where: str) -> None:
    """Copy the state of the cluster to PLACE, while it works.

    Any node makes the copy: everything that was acknowledged before is in it, at one entry of the
    log. Prints where the backup is.
    """
    with _told(where):
        place(where)  # a place that cannot be is said before a node copies anything
        headers, content = client.download(BACKUP)
        manifest = manifests.decode(headers.get(HEADER, "").encode())
        location = inside(where, manifest.name)
        target = place(location)
        with measuring(manifest.size) as progress:
            from raftflow.cluster.backup.judging import checked

            target.write(STATE, checked(content, manifest, progress))
        target.write(MANIFEST, iter([manifests.encode(manifest)]))
    _tell(printer, location, manifest, f"{location}: entry {manifest.index}, {manifest.size} bytes")


@backup.command(name="list")
@click.argument("where", metavar="PLACE")
@output_option
def list_(printer: Printer, where: str) -> None:
    """List the backups in PLACE, oldest first."""
    found, unreadable = [], []
    with _told(where):
        for name in place(where).backups():
            location = inside(where, name)
            try:
                found.append((location, _manifest(place(location))))
            except BackupError as error:
                unreadable.append((location, str(error)))
    found.sort(key=lambda each: (each[1].created_at, each[1].index))
    if printer.format == "json":
        readable = [{"backup": each, **asdict(manifest)} for each, manifest in found]
        printer.document(readable + [{"backup": each, "error": why} for each, why in unreadable])
        return
    for each, why in unreadable:
        printer.note(f"{each}: {why}")
    printer.rows(
        ("created", "cluster", "entry", "bytes", "release", "backup"),
        [
            (m.created_at, m.cluster_id, m.index, m.size, m.version, location)
            for location, m in found
        ],
    )


@backup.command()
@click.argument("location", metavar="BACKUP")
@output_option
def verify(printer: Printer, location: str) -> None:
    """Read all of BACKUP: is it what was copied, is every record sound, does it agree with itself?

    From an object store it is fetched into a temporary directory (TMPDIR). Exit status 1 when
    anything is damaged. Invariants that do not hold are told, and no damage of the backup: the
    cluster was like that (`raftflow doctor`).
    """
    from raftflow.cluster.backup.judging import checked, judge

    with _told(location), tempfile.TemporaryDirectory(prefix="raftflow-") as scratch:
        source = place(location)
        manifest = _manifest(source)
        manifest.require_readable()
        with measuring(2 * manifest.size) as progress:
            content = checked(source.read(STATE), manifest, progress)
            path = source.path_of(STATE)
            if path is None:
                path = Path(scratch) / STATE
                _write(path, content)
            else:
                for _ in content:
                    pass
            verdict = judge(path, manifest, progress)
    for each in verdict.violations:
        printer.note(f"invariant does not hold: {each}")
    _tell(
        printer,
        location,
        manifest,
        f"{location}: whole; entry {manifest.index}, digest {manifest.digest}, {verdict.runs} runs",
        runs=verdict.runs,
        violations=list(verdict.violations),
    )


def _restore_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for known in reversed(SETTINGS):
        if known.name in RESTORE_SETTINGS:
            command = click.option(*known.flags, known.name, metavar="VALUE", help=known.help)(
                command
            )
    return command


@backup.command()
@click.argument("location", metavar="BACKUP")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="RAFTFLOW_CONFIG",
    show_envvar=True,
    help="The TOML file of the node.",
)
@_restore_options
@output_option
def restore(printer: Printer, location: str, file: Path | None, **flags: str | None) -> None:
    """Make the data directory of one node of a new cluster, which begins where BACKUP ends.

    On the machine of each node, with the settings with which the node will be started (flags,
    environment, TOML file): --peers says who the members are. The directory must be empty. The
    new cluster has an id of its own, so that no node of the old one can take part; with
    --cluster-id it has that one.

    \b
    Example, on each of three machines:
      raftflow backup restore s3://backups/shop/NAME --node-id n2 --data-dir /var/lib/raftflow \\
        --peers n1=10.0.0.1:9233,n2=10.0.0.2:9233,n3=10.0.0.3:9233
    """
    from raftflow.cluster.backup.restoring import Restoration
    from raftflow.cluster.consensus.identity import IdentityError
    from raftflow.raftlog.errors import JournalError

    config = load(flags=flags, env=os.environ, file=file)
    with _told(location):
        source = place(location)
        manifest = _manifest(source)
        restoration = Restoration(config, manifest)
        try:
            restoration.begin()
            _fill(restoration, source, manifest)
        except (IdentityError, JournalError) as error:
            raise CommandError(str(error)) from None
        finally:
            restoration.close()
    if restoration.cluster_id == manifest.cluster_id:
        warning = (
            f"WARNING: the new cluster has the id of the old one, {manifest.cluster_id}: no node"
            " must ever start with data of the old one again"
        )
        click.echo(printable(warning), err=True)
        settings = "the same settings"
    else:
        settings = (
            f"cluster_id {restoration.cluster_id} (or none) in its settings, and peer certificates"
            f" for that id where there are any; --cluster-id {manifest.cluster_id} here keeps the"
            " old one"
        )
    _tell(
        printer,
        location,
        manifest,
        f"{config.data_dir}: node {config.node_id} of cluster {restoration.cluster_id} begins after"
        f" entry {manifest.index}; start it with {settings}",
        new_cluster_id=restoration.cluster_id,
        data_dir=str(config.data_dir),
    )


def _fill(restoration: Restoration, source: Place, manifest: Manifest) -> None:
    from raftflow.cluster.backup.judging import checked, judge

    try:
        with measuring(2 * manifest.size) as progress:
            restoration.write_state(checked(source.read(STATE), manifest, progress))
            judge(restoration.state, manifest, progress)
    except BaseException:
        restoration.give_up()
        raise
    restoration.finish()


def _manifest(source: Place) -> Manifest:
    try:
        content = b"".join(source.read(MANIFEST))
    except BackupError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise BackupError(
            f"no backup is there (no {MANIFEST}); `raftflow backup list` names those of a place"
        ) from None
    return manifests.decode(content)


def _write(path: Path, pieces: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)


def _tell(printer: Printer, location: str, manifest: Manifest, sentence: str, **more: Any) -> None:
    printer.said(sentence, backup=location, **asdict(manifest), **more)


@contextmanager
def _told(where: str) -> Iterator[None]:
    try:
        yield
    except BackupError as error:
        text = str(error)
        raise CommandError(text if where in text else f"{where}: {text}") from None
    except OSError as error:
        raise CommandError(f"{error.filename or where}: {error.strerror or error}") from None
