"""What a type checker says of programs that use the library."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import LIMIT

WHOLE = Path(__file__).parent / "programs" / "whole.py"
CASES = re.findall(r"        case hookd\.(?:Run|Ask|Refuse|Continue|Halt)\(.*?return [^\n]*\n", WHOLE.read_text(), re.DOTALL)


def mypy(program: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file", "", str(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=program.parent)


def pyright(program: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("node") is None:
        pytest.skip("pyright needs node")
    (program.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(program.parent)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)


@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_gate_is_matched_whole(check: object, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WHOLE.read_text())
    said = check(program)  # type: ignore[operator]
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize("check", [mypy, pyright])
@pytest.mark.parametrize("left_out", CASES, ids=[case.split("hookd.")[1].split("(")[0] for case in CASES])
def test_a_case_that_is_left_out_is_a_fault_of_types(check: object, left_out: str, tmp_path: Path) -> None:
    assert len(CASES) == 5
    program = tmp_path / "program.py"
    program.write_text(WHOLE.read_text().replace(left_out, ""))
    said = check(program)  # type: ignore[operator]
    assert said.returncode != 0 and "assert_never" in said.stdout, said.stdout
