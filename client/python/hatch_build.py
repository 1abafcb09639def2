"""Generates the messages out of the protos, and takes the protos along into the sdist."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CONTRACT = Path("hookd", "v1", "hook_service.proto")
DETAILS = Path("hookd", "_details.proto")


class GenerateMessages(BuildHookInterface[Any]):
    """Runs before each target is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generates into `src`, where git ignores it, so that an editable install finds it too."""
        root = Path(self.root)
        protos = contract_root(root)
        if self.target_name == "sdist":
            build_data["force_include"][str(protos / CONTRACT)] = str("proto" / CONTRACT)
        else:
            generate([protos, root / "src"], [CONTRACT, DETAILS], root / "src")


def contract_root(root: Path) -> Path:
    """The folder of the wire contract: beside this one in a checkout, inside it in an sdist."""
    for protos in (root / "proto", root.parent.parent / "proto"):
        if (protos / CONTRACT).is_file():
            return protos
    raise FileNotFoundError(f"{CONTRACT} is in none of the places where it belongs, seen from {root}")


def generate(includes: list[Path], protos: list[Path], out: Path) -> None:
    """Writes a module and its types for each of these protos."""
    import grpc_tools
    from grpc_tools import protoc

    # Types that are complete, and that carry the contract's comments; protoc's own have neither.
    typed = shutil.which("protoc-gen-mypy", path=os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"])))
    if typed is None:
        raise FileNotFoundError("`protoc-gen-mypy`, of the package mypy-protobuf, is not to be found")
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    arguments = [f"-I{folder}" for folder in [*includes, well_known]]
    arguments += [f"--plugin=protoc-gen-mypy={typed}", f"--python_out={out}", f"--mypy_out=quiet:{out}"]
    arguments += map(str, protos)
    if protoc.main(["protoc", *arguments]) != 0:
        raise RuntimeError("protoc failed; what it said stands above")
