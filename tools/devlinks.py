"""Lay the git-ignored link tree that lets type checkers see `raftflow.*` as packages."""

from pathlib import Path

PACKAGES = ("engine", "raftlog", "cluster", "dashboard", "proto", "testing")


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    tree = root / ".dev" / "raftflow"
    tree.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        link = tree / name
        if not link.is_symlink():
            link.symlink_to(Path("..") / ".." / name)


if __name__ == "__main__":
    main()
