"""A guide: its fenced blocks, and the script that they are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
DOCS = HERE.parent
STAND_INS = HERE / "stand-ins"
GUIDES = sorted(path.stem for path in DOCS.glob("*.md") if re.search(r"^```sh", path.read_text(), re.MULTILINE))

FENCE = re.compile(r"^```(\w+)((?: [\w=]+)*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w./-]+)`:\n\n\Z")


class Block(NamedTuple):
    """One fenced block.

    Languages: `sh` is run (`exit=N`: and has this exit code; `cluster`: with stand-ins for helm and kubectl; `build`: not run,
    what it builds is checked), `text` is what the block before it shows, `yaml` is the file that the text before it names.
    """

    language: str
    words: tuple[str, ...]
    text: str
    file: str

    def exit_code(self) -> int:
        """What the block ends with."""
        return next((int(word.removeprefix("exit=")) for word in self.words if word.startswith("exit=")), 0)


def blocks(guide: str) -> list[Block]:
    """The blocks of a guide, in order."""
    text = (DOCS / f"{guide}.md").read_text()
    found = []
    for match in FENCE.finditer(text):
        named = NAMED.search(text, 0, match.start())
        words = tuple(match[2].split())
        found.append(Block(match[1], words, match[3], named[1] if named else ""))
    return found


def plain_script(guide: str) -> str:
    """The commands of a guide and nothing else."""
    return "".join(it.text for it in blocks(guide) if it.language == "sh" and not {"build", "cluster"} & set(it.words))


def script(guide: str, place: Path) -> str:
    """The whole guide as one script. The output of block N goes to `N.out` in `place`; each block that has ended well is in `done`."""
    lines = ["set -eu"]
    for number, block in enumerate(blocks(guide)):
        if block.language == "text" or "build" in block.words:
            continue
        written = place / f"{number}.{block.language}"
        written.write_text(block.text)
        out = shlex.quote(str(place / f"{number}.out"))
        lines.append(f"exec > {out} 2>&1")
        if block.language == "yaml":
            file = shlex.quote(block.file)
            lines += [f'mkdir -p "$(dirname {file})"', f"mv {written} {file}", f'"$PYTHON" {HERE}/accepted.py {file}']
        elif "cluster" in block.words:
            lines.append(f'( PATH={STAND_INS}:"$PATH"; . {written} )')
        elif code := block.exit_code():
            lines += ["set +e", f". {written}", "code=$?", "set -e", f'[ "$code" = {code} ]']
        else:
            lines.append(f". {written}")
        lines.append(f"echo {number} >> {place}/done")
    return "\n".join(lines) + "\n"
