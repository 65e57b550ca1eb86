"""Nothing that the package offers was left out. It looks at what the other modules did."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.surface import Exercised, public

pytestmark = pytest.mark.cluster

LEFT_OUT = {
    "Worker.__init__(ca_file)": "for an https address: nodes do not serve TLS yet",
}


def test_every_public_name_and_parameter_was_exercised(
    request: pytest.FixtureRequest, exercised: Exercised
) -> None:
    here = Path(__file__)
    ran = {item.path for item in request.session.items}
    absent = [path.name for path in here.parent.glob("test_*.py") if path not in ran]
    if absent:
        pytest.skip(f"only when all modules run; absent: {', '.join(absent)}")
    names = set(public())
    assert len(names) > 80, "the package is not read as it was"
    missing = sorted(names - exercised.names - set(LEFT_OUT))
    assert not missing, f"write a test that uses {', '.join(missing)}"
    unneeded = sorted(set(LEFT_OUT) & exercised.names)
    assert not unneeded, f"{', '.join(unneeded)} is exercised now: drop the exception"
