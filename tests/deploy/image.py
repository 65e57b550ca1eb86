"""What deploy/Dockerfile says of the image: its programs, its environment, its user."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache

from tests.deploy.machines import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"


@dataclass(frozen=True, slots=True)
class Image:
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: dict[str, str]
    user: int
    health: tuple[str, ...]
    volumes: tuple[str, ...]
    ports: tuple[int, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """What stands in /opt/raftflow/deploy."""
        beside = [*(ROOT / "deploy" / "docker").iterdir(), ROOT / "deploy" / "secrets.sh"]
        return tuple(str(path) for path in beside if path.is_file())


def instructions() -> list[tuple[str, str]]:
    """Of all stages, with lines that go on joined."""
    text = re.sub(r"(?m)^#.*\n", "", DOCKERFILE.read_text())
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [
        (word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines if line)
    ]


@cache
def image() -> Image:
    known = instructions()
    last = max(n for n, (word, _) in enumerate(known) if word == "FROM")
    said: dict[str, list[str]] = {}
    for word, rest in known[last:]:
        said.setdefault(word, []).append(rest)
    environment = dict(pair.split("=", 1) for line in said["ENV"] for pair in line.split())
    environment["PATH"] = environment["PATH"].replace("$PATH", "/usr/local/bin:/usr/bin:/bin")
    return Image(
        entrypoint=tuple(json.loads(said["ENTRYPOINT"][-1])),
        command=tuple(json.loads(said["CMD"][-1])),
        environment=environment,
        user=int(said["USER"][-1].partition(":")[0]),
        health=tuple(json.loads(said["HEALTHCHECK"][-1].partition("CMD ")[2])),
        volumes=tuple(said["VOLUME"]),
        ports=tuple(int(port) for port in said["EXPOSE"][-1].split()),
    )
