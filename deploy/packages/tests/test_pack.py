"""What `pack` makes, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from conftest import PROGRAMS, ROOT, pack

VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
# What `pack` looks at besides its own folder.
LOOKED_AT = (
    "Cargo.toml",
    "LICENSE",
    "client/python/pyproject.toml",
    "client/python/src/hookd/_version.py",
    "client/typescript/package.json",
    "client/typescript/package-lock.json",
)


def manifest(package: Path) -> dict[str, object]:
    with tarfile.open(package) as archive:
        member = archive.extractfile("package/package.json")
        assert member is not None
        loaded: dict[str, object] = json.load(member)
        return loaded


def compiled(folder: Path, source: str, *options: str) -> Path:
    """A folder with a small program under both names."""
    folder.mkdir()
    for name in ("hookd", "hookctl"):
        subprocess.run(
            ["cc", *options, f'-DNAME="{name}"', "-x", "c", "-o", folder / name, "-"],
            input=f"#include <stdio.h>\nint main(void) {{ {source} }}",
            text=True,
            check=True,
            timeout=60,
        )
    return folder


def test_the_packages_hold_the_programs_and_no_more(packed: Path) -> None:
    names = sorted(path.name for path in packed.iterdir())
    assert names[:2] == [f"hookd-cli-{VERSION}.tgz", f"hookd-cli-linux-x64-{VERSION}.tgz"]
    (wheel,) = names[2:]
    tag = re.fullmatch(rf"hookd_bin-{re.escape(VERSION)}-py3-none-(manylinux_2_\d+_x86_64)\.whl", wheel)
    assert tag, wheel
    with zipfile.ZipFile(packed / wheel) as archive:
        info = f"hookd_bin-{VERSION}"
        held = {entry.filename: entry.external_attr >> 16 & 0o111 for entry in archive.infolist() if not entry.is_dir()}
        assert f"Tag: py3-none-{tag[1]}" in archive.read(f"{info}.dist-info/WHEEL").decode().splitlines()
    assert held == {
        f"{info}.data/scripts/hookd": 0o111,
        f"{info}.data/scripts/hookctl": 0o111,
        **{f"{info}.dist-info/{name}": 0 for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")},
    }
    with tarfile.open(packed / names[1]) as archive:
        modes = {member.name: member.mode & 0o111 for member in archive}
    assert modes == {
        "package/bin/hookd": 0o111,
        "package/bin/hookctl": 0o111,
        "package/package.json": 0,
        "package/LICENSE": 0,
    }
    platform = manifest(packed / names[1])
    assert [platform[key] for key in ("os", "cpu", "libc")] == [["linux"], ["x64"], ["glibc"]]
    launchers = manifest(packed / names[0])
    assert launchers["version"] == platform["version"] == VERSION
    assert launchers["optionalDependencies"] == {platform["name"]: VERSION}


def test_the_tag_is_true_for_how_the_programs_are_linked(packed: Path) -> None:
    symbols = "".join(
        subprocess.run(["objdump", "-T", PROGRAMS / name], capture_output=True, text=True, check=True).stdout
        for name in ("hookd", "hookctl")
    )
    newest = max(int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", symbols))
    (wheel,) = packed.glob("*.whl")
    said = re.search(r"manylinux_2_(\d+)_", wheel.name)
    assert said
    # There is not a policy for every version of glibc: the next one up is true, too.
    assert newest <= int(said[1]) <= newest + 1


def test_a_static_program_is_for_every_linux(tmp_path: Path) -> None:
    programs = compiled(tmp_path / "programs", f'puts(NAME " {VERSION}"); return 0;', "-static")
    done = pack("--out", tmp_path / "out", programs)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"hookd-cli-{VERSION}.tgz",
        f"hookd-cli-linux-x64-{VERSION}.tgz",
        f"hookd_bin-{VERSION}-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl",
    ]
    assert "libc" not in manifest(tmp_path / "out" / f"hookd-cli-linux-x64-{VERSION}.tgz")


def test_programs_of_another_version_are_refused(tmp_path: Path) -> None:
    programs = compiled(tmp_path / "programs", 'puts(NAME " 9.9.9"); return 0;')
    done = pack("--out", tmp_path / "out", programs)
    expected = f"error: {programs}/hookd: says `hookd 9.9.9`, expected `hookd {VERSION}`\n"
    assert (done.returncode, done.stderr) == (1, expected)
    assert not (tmp_path / "out").exists()


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hookd").write_text("#!/bin/sh\n")
    done = pack("--out", tmp_path / "out", tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        f"error: {tmp_path}/hookd: no program for Linux: Magic number does not match\n",
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "client/python/src/hookd/_version.py",
            f'"{VERSION}"',
            '"9.9.9"',
            "client/python/src/hookd/_version.py: `__version__`",
        ),
        (
            "client/python/pyproject.toml",
            f"hookd-bin=={VERSION}",
            "hookd-bin==9.9.9",
            "client/python/pyproject.toml: the extra `bin`",
        ),
        (
            "client/typescript/package.json",
            f'"version": "{VERSION}"',
            '"version": "9.9.9"',
            "client/typescript/package.json: `version`",
        ),
        (
            "client/typescript/package-lock.json",
            f'"version": "{VERSION}"',
            '"version": "9.9.9"',
            "client/typescript/package-lock.json: `version`",
        ),
    ],
)
def test_versions_that_differ_are_refused(tmp_path: Path, file: str, old: str, new: str, said: str) -> None:
    for name in LOOKED_AT:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "deploy/packages", tmp_path / "deploy/packages")
    assert pack("--check-versions", root=tmp_path).returncode == 0
    text = (tmp_path / file).read_text()
    assert old in text
    # Where a lock file names the version twice, both are changed.
    (tmp_path / file).write_text(text.replace(old, new))
    done = pack("--check-versions", root=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {said} is `"), done.stderr
    assert done.stderr.endswith(f"(the workspace has version {VERSION})\n"), done.stderr
