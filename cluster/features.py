"""What each release added, and whether the whole cluster knows it already (CONSENSUS row 22).

A node of an older release drops what it does not know, or stops at it. So an entry is written under
the level that all members have, and a call that needs more is refused where it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from raftflow.cluster.errors import FeatureUnavailable
from raftflow.engine import commands as c
from raftflow.engine.commands import FEATURE_LEVEL, RELEASE_0_2, RELEASE_0_3, RELEASE_0_4
from raftflow.engine.retry import RetryPolicy

# The first release of each level.
RELEASES = {1: "0.1", RELEASE_0_2: "0.2", RELEASE_0_3: "0.3", RELEASE_0_4: "0.4"}


@dataclass(frozen=True, slots=True)
class Feature:
    """``name`` as its callers know it."""

    name: str
    level: int


EAGER = Feature("eager answers", RELEASE_0_2)
DELETION = Feature("deleting runs", RELEASE_0_2)
MEMBERSHIP = Feature("changing the members of the cluster", RELEASE_0_3)
TOKENS = Feature("tokens", RELEASE_0_4)
AUDIT = Feature("the audit log", RELEASE_0_4)
API_NODES = Feature("nodes that never vote", RELEASE_0_4)

# Commands that a later release added.
COMMANDS: dict[type, Feature] = {
    c.UpdateNamespace: Feature("changing a namespace", RELEASE_0_2),
    c.PauseRun: Feature("pausing runs", RELEASE_0_2),
    c.UnpauseRun: Feature("unpausing runs", RELEASE_0_2),
    c.DeleteRun: DELETION,
    c.DeliverMessage: Feature("messages between runs", RELEASE_0_2),
    c.RecordMarker: Feature("markers", RELEASE_0_2),
    c.StartChildWorkflow: Feature("child workflows", RELEASE_0_2),
    c.CancelStep: Feature("cancelling steps", RELEASE_0_2),
    c.ContinueAsNew: Feature("continue_as_new", RELEASE_0_2),
    c.UpsertSearchAttributes: Feature("search attributes", RELEASE_0_2),
    c.SetQuota: Feature("quotas of namespaces", RELEASE_0_4),
    c.MintToken: TOKENS,
    c.RevokeToken: TOKENS,
    c.RecordCall: AUDIT,
    c.ForgetAudit: AUDIT,
    c.Attributed: AUDIT,
}

# Fields that a later release added to commands of an older one. They count when they are set.
FIELDS: dict[type, dict[str, Feature]] = {
    c.StartRun: {
        "search_attributes": Feature("search attributes", RELEASE_0_2),
        "memo": Feature("memos", RELEASE_0_2),
        "signal_name": Feature("starting with a signal", RELEASE_0_2),
        "signal_payload": Feature("starting with a signal", RELEASE_0_2),
    },
    c.CancelRun: {"graceful": Feature("graceful cancels", RELEASE_0_2)},
    c.CompleteDecision: {
        "new_run_id": COMMANDS[c.ContinueAsNew],
        "eager": EAGER,
    },
    c.CompleteActivity: {"eager": EAGER},
    c.ScheduleActivity: {"priority": Feature("priorities", RELEASE_0_2)},
    RetryPolicy: {
        "jitter_milli": Feature("jitter", RELEASE_0_2),
        "jitter_seed": Feature("jitter", RELEASE_0_2),
    },
}

_DEFAULTS = {
    (kind, each.name): each.default
    for kind, added in FIELDS.items()
    for each in fields(kind)
    if each.name in added
}


def needed(command: Any) -> Feature | None:
    """The feature of the command, or of what it contains, that needs the highest level."""
    kind = type(command)
    found = [COMMANDS[kind]] if kind in COMMANDS else []
    for name, feature in FIELDS.get(kind, {}).items():
        if getattr(command, name) != _DEFAULTS[kind, name]:
            found.append(feature)
    if isinstance(command, c.CompleteDecision):
        found += [inner for each in command.commands if (inner := needed(each))]
    if isinstance(command, c.Attributed) and (inner := needed(command.command)):
        found.append(inner)
    if isinstance(command, c.ScheduleActivity) and (inner := needed(command.retry)):
        found.append(inner)
    return max(found, key=lambda feature: feature.level, default=None)


class Peer(Protocol):
    @property
    def version(self) -> str: ...

    @property
    def feature_level(self) -> int: ...


class Levels:
    """The feature level of the cluster, as far as this node knows it. It never falls.

    The configuration in the log says it, once there is one. Until then it is the least that a
    member announced. A member that was not heard of yet counts as the level of the entries that
    this node saw, since it may wait for its upgrade; while there are none, as this node's own.
    """

    def __init__(
        self,
        *,
        members: Callable[[], Mapping[str, Peer]],
        agreed: Callable[[], int] = lambda: 0,
        own: int = FEATURE_LEVEL,
    ) -> None:
        self._members = members  # this node included; level 0: not heard of
        self._agreed = agreed  # what the committed configuration says; 0: nothing
        self._own = own
        self._reached = 0  # of entries, or of all members at some time

    def saw_entry(self, level: int) -> None:
        """An entry of this level is in the log: whoever cannot read it has stopped already."""
        self._reached = max(self._reached, level)

    @property
    def level(self) -> int:
        agreed = self._agreed()
        if agreed:
            self._reached = max(self._reached, min(agreed, self._own))
            return self._reached
        announced = [peer.feature_level for peer in self._members().values()]
        unheard = self._reached or self._own
        least = min([self._own, *[level or unheard for level in announced]])
        if all(announced):
            self._reached = max(self._reached, least)
        return max(self._reached, least)

    def allows(self, feature: Feature) -> bool:
        return feature.level <= self.level

    def require(self, feature: Feature) -> None:
        """Raises FeatureUnavailable, which names who holds it back."""
        level = self.level
        if feature.level <= level:
            return
        behind = {
            node: peer.version or "not heard of yet"
            for node, peer in sorted(self._members().items())
            if peer.feature_level < feature.level
        }
        who = ", ".join([f"{node} ({release})" for node, release in behind.items()])
        raise FeatureUnavailable(
            f"{feature.name}: this needs feature level {feature.level} (release"
            f" {RELEASES[feature.level]}) on all nodes, the cluster has level {level}; "
            + (f"it waits for {who}" if who else "it is about to be raised"),
            feature=feature.name,
            needs_level=feature.level,
            level=level,
            held_back_by=tuple(behind),
        )

    def check(self, command: Any) -> None:
        """Raises FeatureUnavailable when a member would not understand the command."""
        feature = needed(command)
        if feature is not None:
            self.require(feature)
