"""Which PySyncObj the core was written against: the sources of what it overrides or relies on."""

from __future__ import annotations

import hashlib
import inspect

from pysyncobj import SyncObj
from pysyncobj import syncobj as engine

REVIEWED_VERSION = "0.3.17"
# sha256 of the sources of what is overridden and of what is called, by `_fingerprint`.
REVIEWED_SOURCES = {
    "__init__": "09df12cd7fd7d727",
    "_applyCommand": "827f207d515b2d64",
    "_checkCommandsToApply": "a386a8079361d204",
    "_onTick": "cc9eb08232d005ba",
    "doTick": "bef78c2ba06d784b",
    "_SyncObj__applyLogEntries": "073db677773b5a2d",
    "_SyncObj__doApplyCommand": "1ea7aa506e950d0a",
    "_SyncObj__onMessageReceived": "ddfe34b6c0282179",
    "_SyncObj__sendNextNodeIdx": "68aaeefc267b8896",
    "_SyncObj__generateRaftTimeout": "92ed37d3620e781a",
    "_SyncObj__onNodeConnected": "2655afb481b4c69b",
    "_SyncObj__onNodeDisconnected": "a81c0475ba2218cc",
    "_SyncObj__onBecomeLeader": "5a3fd97bc17dc1cf",
    "_SyncObj__setCurrentTerm": "0ad5bf456ac06bd3",
    "_SyncObj__setState": "2c1f239f7bd79b39",
    "_SyncObj__sendAppendEntries": "9cb9073128c392fa",
    "_SyncObj__parseChangeClusterRequest": "b2d5d695b12e592f",
    "_SyncObj__doChangeCluster": "247d4d4101b8cd3c",
    "_SyncObj__tryLogCompaction": "c2f8a0ec14cc7312",
    "_SyncObj__loadDumpFile": "ec66e83905de703b",
    "_SyncObj__getCurrentLogIndex": "e5af22ca246686bd",
    "_SyncObj__getCurrentLogTerm": "1cb8867e6a13d397",
    "_SyncObj__onLeaderChanged": "53b7685e1d897887",
}


def _fingerprint(name: str) -> str:
    return hashlib.sha256(inspect.getsource(getattr(SyncObj, name)).encode()).hexdigest()[:16]


def check_engine() -> None:
    """Refuse any PySyncObj that is not the one that was reviewed."""
    if engine.VERSION != REVIEWED_VERSION:
        raise ImportError(f"pysyncobj {engine.VERSION} is not the reviewed {REVIEWED_VERSION}")
    for name, expected in REVIEWED_SOURCES.items():
        if _fingerprint(name) != expected:
            raise ImportError(f"pysyncobj's {name} is not the one that was reviewed")
