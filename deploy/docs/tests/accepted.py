"""Ends with 1 where a YAML file of a guide is not accepted by what it is for: `accepted.py FILE`, in the folder of the guide."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml
from chart import render

PROGRAMS = Path(os.environ["HOOKD_PROGRAMS"])


def main() -> None:
    path = sys.argv[1]
    content = yaml.safe_load(Path(path).read_text())
    if "hooks" in content or "defaults" in content:
        tier = next(tier for tier in ("managed", "team", "shared", "local") if tier in Path(path).parts)
        subprocess.run([PROGRAMS / "hookctl", "check", "--tier", tier, path], check=True)
    elif "image" in content:
        assert render(content).objects
    else:
        subprocess.run([PROGRAMS / "hookd", "--config", path, "--check"], check=True)


main()
