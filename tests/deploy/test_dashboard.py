"""deploy/grafana/raftflow.json: a dashboard of queries that Prometheus takes and metrics that nodes
have."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml
from exported import used_but_not_exported
from needs import need

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "raftflow.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    asked = [target["expr"] for panel in PANELS for target in panel["targets"]]
    return asked + [each["expr"] for each in DASHBOARD["annotations"]["list"]]


def test_the_metrics_are_those_of_a_node() -> None:
    assert len(queries()) > 40
    assert used_but_not_exported(queries()) == {}


def test_prometheus_takes_the_queries(tmp_path: Path) -> None:
    """As recording rules, with a value in the place of each of Grafana's variables."""
    plain = [
        re.sub(r"\$(job|cluster)\b", ".*", query).replace("$__rate_interval", "5m")
        for query in queries()
    ]
    assert not [query for query in plain if "$" in query]
    rules = [{"record": f"panel:{n}", "expr": query} for n, query in enumerate(plain)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        [need("promtool"), "check", "rules", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_have_a_place_of_their_own_and_say_what_they_show() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken.get((x, y))}"
                taken[x, y] = panel["title"]
    for panel in PANELS:
        assert panel["title"], panel["id"]
        assert panel["description"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]


def test_its_variables_are_declared() -> None:
    declared = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(DASHBOARD))) - {"__rate_interval", "__all"}
    assert used == declared
