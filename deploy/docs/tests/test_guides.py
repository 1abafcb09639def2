"""Every command of the guides works, and shows what the page says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from page import DOCS, GUIDES, HERE, Block, blocks, plain_script, script

ROOT = HERE.parents[2]
PROGRAMS = Path(os.environ["HOOKD_PROGRAMS"])
LIMIT = 120
"""Seconds, in which a guide has come to its end on the slowest machine."""


def run(text: str, folder: Path, place: Path) -> tuple[int, str]:
    """Runs a script in a network of its own and ends what it leaves behind. Gives its exit code and what it wrote."""
    environment = {
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "HOME": str(place / "home"),
        "LANG": "C.UTF-8",
        "PYTHON": sys.executable,
        "PYTHONPATH": os.environ["PYTHONPATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOOKD_PROGRAMS": str(PROGRAMS),
        "GUIDE_CLUSTER": str(place / "cluster.json"),
    }
    (place / "home").mkdir()
    path = place / "guide.sh"
    path.write_text(text)
    output = place / "output"
    namespaces = ["unshare", "--net", "--mount-proc", "--kill-child"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    with output.open("wb") as out:
        shell = [*namespaces, "--pid", "--fork", sys.executable, HERE / "with_loopback.py", "sh", "-e", path]
        child = subprocess.Popen(
            shell, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        try:
            code = child.wait(LIMIT)
        finally:
            # The first process of the namespace takes all the others along, hookd too.
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    return code, output.read_text()


def shows(block: Block, output: str) -> None:
    """Holds that the lines of a `text` block stand in the output, in this order."""
    at = 0
    squeezed = re.sub(r"[ \t]+", " ", output)
    for line in block.text.splitlines():
        found = squeezed.find(re.sub(r"[ \t]+", " ", line).strip(), at)
        assert found >= 0, f"`{line}` is not in\n{output}"
        at = found + 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The empty folder in which a guide begins."""
    made = tmp_path / "guide"
    made.mkdir()
    return made


@pytest.mark.parametrize("guide", GUIDES)
def test_every_command_works_and_shows_what_the_page_says(guide: str, tmp_path: Path, folder: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    code, output = run(script(guide, place), folder, place)
    outputs = {path.stem: path.read_text() for path in place.glob("*.out")}
    done = (place / "done").read_text().split() if (place / "done").exists() else []
    ours = blocks(guide)
    ran = [str(at) for at, it in enumerate(ours) if it.language != "text" and "build" not in it.words]
    if done != ran:
        first = next(number for number in ran if number not in done)
        raise AssertionError(f"exit {code} in\n{ours[int(first)].text}\n{outputs.get(first)}\n{output}")
    assert code == 0
    for at, block in enumerate(ours):
        if block.language == "text":
            shows(block, outputs[str(at - 1)])


def test_the_first_guide_leads_from_nothing_to_a_blocked_call(tmp_path: Path, folder: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    code, output = run(plain_script("first-policy"), folder, place)
    assert code == 2, output
    before, _, blocked = output.rpartition("BLOCK  PreToolUse Bash\n")
    assert "BLOCK  PreToolUse" not in before
    assert "NONE  PreToolUse Bash\n" in before
    assert "decided by rule no-force-push (managed, " in blocked


@pytest.mark.parametrize("guide", GUIDES)
def test_blocks_are_of_a_kind_that_is_run(guide: str) -> None:
    programs = {tomllib.loads(path.read_text())["package"]["name"] for path in ROOT.glob("*/**/Cargo.toml") if "target" not in path.parts}
    for at, block in enumerate(blocks(guide)):
        assert block.language in ("sh", "text", "yaml"), block
        assert set(block.words) <= {"build", "cluster", *[word for word in block.words if word.startswith("exit=")]}, block
        assert block.language != "yaml" or block.file, f"no file is named before\n{block.text}"
        if block.language == "text":
            assert blocks(guide)[at - 1].language == "sh", f"nothing shows\n{block.text}"
        if block.exit_code():
            assert block.text.count("\n") == 1, f"of several commands one could fail unseen:\n{block.text}"
        if "build" in block.words:
            assert set(re.findall(r"-p (\S+)", block.text)) <= programs, block


def test_the_figures_of_capacity_are_those_that_were_measured() -> None:
    page = (DOCS / "capacity.md").read_text()
    _, measured = (ROOT / "tests/peers/README.md").read_text().split("## What it costs\n")
    table = page.split("| --- | --- |\n")[1].split("\n\n")[0]
    figures = [figure for row in table.splitlines() for figure in re.split("[,;] ", row.strip("| ").split(" | ")[1])]
    assert len(figures) == 8
    assert [figure for figure in figures if figure not in measured] == []
    assert f"Measured on {re.search('measured on ([0-9-]+)', page)[1]} " in measured
    [said] = re.findall(r"microseconds=(\S+)", page)
    assert f"{said} µs" == figures[0]


def test_the_index_has_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    for page in DOCS.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name
