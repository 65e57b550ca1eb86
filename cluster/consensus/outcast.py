"""Why the others will not have a node, in words that name the way out."""

from __future__ import annotations


class Outcast(Exception):
    """To start this node again as it is changes nothing."""


def old_copy(directory: str, *, seen_by: str) -> Outcast:
    return Outcast(
        f"the data directory {directory} is an old copy: {seen_by} has seen a later start of it, so"
        " votes and acknowledgements of this node are missing. Run"
        f" `raftflow node rebuild {directory}` and start this node again: it then joins as a new"
        " one and fetches everything from the others"
    )


def no_member(node_id: str, why: str, *, directory: str, address: str) -> Outcast:
    return Outcast(
        f"{node_id} {why}. To have it back, run `raftflow node rebuild {directory}` and"
        f" `raftflow node add {node_id}={address}`, and start it with --join; otherwise nothing"
        " here is needed any more"
    )
