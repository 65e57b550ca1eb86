"""Take the pictures of the documents: three nodes of this tree, a worker, and a little scene.

usage: make screenshots   (needs chromium; takes two minutes)
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browsing import DESK, Visitor, chromium, visitor  # noqa: E402
from dev_cluster import HttpError  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402
from site_nodes import IDS, TOKENS, Site, site_in  # noqa: E402

IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 250_000
PHONE = (390, 780)
# Long enough for the charts to have a line, and for elections to lie apart.
SCENE_S = 90.0
PAUSE_S = 0.7
TRIP = "trip-2041"


@dataclass(frozen=True)
class Picture:
    name: str
    route: str
    ready: str  # what is there once it can be taken


PICTURES = (
    Picture("cluster", "#/cluster", ".chart-line"),
    Picture("runs", "#/runs", "table.runs tbody tr"),
    Picture("run", f"#/run/{TRIP}/", ".why .chain > li"),
    Picture("queues", "#/queues", "tbody tr"),
)
LOOKS = {"": (DESK, "light"), "-dark": (DESK, "dark"), "-phone": (PHONE, "light")}


def play(site: Site) -> None:
    """What a shop does within a minute and a half, with its usual troubles."""
    chance = random.Random(7)
    site.work(worker_id="packer-1")
    site.work(worker_id="packer-2")
    site.call("POST", "/api/namespaces", {"name": "shop", "retention_ms": 7 * 86_400_000})
    site.start("route-18", "Delivery", input="route-18")
    site.start("pickup-77", "Pickup", input="pickup-77")
    site.start("meter-3", "Meter", input="1")
    for number in (1, 2, 3):
        site.start(f"attic-{number}", "Order", input=f"attic-{number}", task_queue="attic")
    until = time.monotonic() + SCENE_S
    others = [node for node in IDS if node != site.nodes.leader()]
    number = 1040
    while (left := until - time.monotonic()) > 0:
        number += 1
        order(site, number, chance)
        if others and left < SCENE_S * len(others) / 3:
            site.call("POST", "/api/cluster/transfer", {"to": others.pop()})
        time.sleep(PAUSE_S)
    site.start(TRIP, "Trip", input=TRIP)
    site.wait_for_step(TRIP, "passport-shown")
    signal = {"name": "pasport-shown", "payload": "C01X"}
    site.call("POST", f"/api/workflows/{TRIP}/signal", signal)


def order(site: Site, number: int, chance: random.Random) -> None:
    name = f"order-{number}"
    declined = " declined" if chance.random() < 0.15 else ""
    region = {"region": chance.choice(("north", "south"))}
    site.start(name, "Order", input=f"{name}{declined}", search_attributes=region)
    earlier = f"order-{number - 3}"
    luck = chance.random()
    if number <= 1043 or luck < 0.15:
        return
    payload = "yes" if luck < 0.92 else "no"
    try:
        if luck < 0.22:
            site.call("POST", f"/api/workflows/{earlier}/pause", {"reason": "stock-taking"})
        else:
            body = {"name": "approved", "payload": payload}
            site.call("POST", f"/api/workflows/{earlier}/signal", body)
    except HttpError as error:
        # It may have ended, and a leader hands over meanwhile.
        if error.status not in (409, 503):
            raise


def take(picture: Picture, suffix: str, here: Visitor) -> Path:
    here.open(picture.route)
    here.page.locator(f"#view {picture.ready}").first.wait_for()
    here.until("the page is told by events", lambda: "live" in here.text())
    # Numbers that count up on the way in have arrived.
    here.page.wait_for_timeout(1500)
    target = IMAGES / f"{picture.name}{suffix}.png"
    here.page.screenshot(path=target, animations="disabled", caret="hide")
    size = target.stat().st_size
    assert size <= MOST_BYTES, f"{target.name} has {size} bytes"
    return target


@contextmanager
def looking(browser: Browser, site: Site, suffix: str) -> Iterator[Visitor]:
    size, scheme = LOOKS[suffix]
    base, token = site.base, TOKENS["root"]
    with visitor(browser, base, token=token, size=size, scheme=scheme) as here:
        yield here
        assert here.unexpected() == []


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    # Chromium first: without it nobody waits for a scene.
    with (
        chromium() as browser,
        tempfile.TemporaryDirectory() as directory,
        site_in(Path(directory)) as site,
    ):
        play(site)
        site.nodes.leader()
        for suffix in LOOKS:
            with looking(browser, site, suffix) as here:
                for picture in PICTURES:
                    print(take(picture, suffix, here).relative_to(ROOT), flush=True)


if __name__ == "__main__":
    main()
