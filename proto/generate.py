"""Generate the protobuf stubs: `python -m raftflow.proto.generate [--check]`.

Every `.proto` below this folder becomes `*_pb2.py` and `*_pb2.pyi` next to it, and `*_pb2_grpc.py`
when it declares a service. protoc thinks that the import root is this folder; Python knows it as
`raftflow.proto`, so the imports between the stubs are rewritten. With `--check` nothing is written:
the exit status says whether the committed stubs are those that the `.proto` files give.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
STUB_SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python -m raftflow.proto.generate [--check]\n")
        return 2
    wanted = _generate()
    present = {path.relative_to(ROOT): path.read_text() for path in _stubs(ROOT)}
    stale = sorted(path for path in wanted | present if wanted.get(path) != present.get(path))
    if arguments == ["--check"]:
        for path in stale:
            sys.stderr.write(f"proto/{path} is not what its .proto gives; run `make proto`\n")
        return 1 if stale else 0
    for path in stale:
        if path in wanted:
            (ROOT / path).write_text(wanted[path])
        else:
            (ROOT / path).unlink()
    print(f"{len(wanted)} stubs, {len(stale)} changed")
    return 0


def _generate() -> dict[Path, str]:
    protos = sorted(ROOT.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        _protoc(protos, "--python_out", "--pyi_out", out=out)
        services = [path for path in protos if re.search(r"^service\s", path.read_text(), re.M)]
        if services:
            _protoc(services, "--grpc_python_out", out=out)
        return {path.relative_to(out): _rewritten(path.read_text()) for path in _stubs(out)}


def _protoc(protos: list[Path], *plugins: str, out: Path) -> None:
    from grpc_tools import protoc  # only developers have it

    # googleapis-common-protos ships google/api/*.proto beside its stubs.
    site = _folder("google.api.http_pb2").parent.parent
    builtin = _folder("grpc_tools.protoc") / "_proto"
    status = protoc.main(
        ["protoc", f"-I{ROOT}", f"-I{builtin}", f"-I{site}"]
        + [f"{plugin}={out}" for plugin in plugins]
        + [str(path) for path in protos]
    )
    if status != 0:
        sys.exit(status)


def _folder(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        sys.exit(f"{module} is missing; run `make install`")
    return Path(spec.origin).parent


def _stubs(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*_pb2*") if path.name.endswith(STUB_SUFFIXES)]


def _rewritten(source: str) -> str:
    """`from workflow.v1 import x_pb2` becomes `from raftflow.proto.workflow.v1 import x_pb2`."""
    packages = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir()))
    pattern = rf"^from ({packages})(?=[\w.]* import )"
    return re.sub(pattern, r"from raftflow.proto.\1", source, flags=re.M)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
