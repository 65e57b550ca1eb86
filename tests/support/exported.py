"""Which metrics a node exports, for what asks for them by name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from raftflow.cluster.metrics import Metrics

NAME = re.compile(r"\b((?:workflowd|process)_[a-z_]+)\b(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=|!)")
# What Prometheus adds when it scrapes, or is told to.
OF_THE_SCRAPE = {"job", "instance", "cluster"}


def exported() -> dict[str, set[str]]:
    """Every series name, with its labels. Those of sampled metrics are not known here."""
    found: dict[str, set[str]] = {}
    for metric in Metrics().registry.collect():
        labels = {label for sample in metric.samples for label in sample.labels}
        suffixes = {
            "counter": ("_total",),
            "histogram": ("_bucket", "_sum", "_count"),
        }.get(metric.type, ("",))
        for suffix in suffixes:
            found[metric.name + suffix] = labels
    return found


def used_but_not_exported(expressions: Iterable[str]) -> dict[str, str]:
    """Names that no node has, with the expression that asks for them."""
    known = exported()
    missing: dict[str, str] = {}
    for expression in expressions:
        for name, labels in NAME.findall(expression):
            if name not in known:
                missing[name] = expression
            wanted = set(LABEL.findall(labels)) - OF_THE_SCRAPE
            if known.get(name) and wanted - known[name]:
                missing[f"{name}{sorted(wanted - known[name])}"] = expression
    return missing
