"""What the stand-ins know of the cluster that is not there: a file of names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

STATE = Path(os.environ["GUIDE_CLUSTER"])


def read() -> dict[str, Any]:
    """`objects` as kind/name in lower case, and the `releases` of Helm, oldest first."""
    return json.loads(STATE.read_text()) if STATE.exists() else {"objects": [], "releases": []}


def write(state: dict[str, Any]) -> None:
    """Keeps it."""
    STATE.write_text(json.dumps(state))
