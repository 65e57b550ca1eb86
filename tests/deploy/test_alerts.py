"""deploy/alerts.yaml: each rule fires when it should, asks for metrics that nodes have, and has a
page that says what to do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml
from exported import used_but_not_exported
from needs import need

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "alerts.yaml"
UNIT_TESTS = sorted(Path(__file__).with_name("alerts").glob("*.yaml"))


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def promtool(*arguments: str) -> None:
    done = subprocess.run(
        [need("promtool"), *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules() -> None:
    promtool("check", "rules", str(RULES))


def test_each_fires_when_it_should_and_not_beside_that() -> None:
    promtool("test", "rules", *map(str, UNIT_TESTS))


def test_none_is_left_untested() -> None:
    fired = {
        case["alertname"]
        for file in UNIT_TESTS
        for test in yaml.safe_load(file.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert fired == {rule["alert"] for rule in rules()}


def test_each_has_its_metrics() -> None:
    assert used_but_not_exported(rule["expr"] for rule in rules()) == {}


def test_each_has_a_severity_a_summary_and_a_page() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "alerts.md").read_text(), re.M)
    assert headings == [rule["alert"] for rule in rules()], "docs/alerts.md: one section a rule"
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert page == "docs/alerts.md"
        assert anchor in {heading.lower() for heading in headings}
