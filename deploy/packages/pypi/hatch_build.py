"""Says for which platform the wheel is: one with programs in it is not for any machine."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TagPlatform(BuildHookInterface[Any]):
    """Takes the platform from `HOOKD_PACKAGE_PLATFORM`, where `pack` puts it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Any Python 3, no ABI of it, this platform."""
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['HOOKD_PACKAGE_PLATFORM']}"
