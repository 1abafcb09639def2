"""Volumes as a kubelet makes them: directories whose files are links through `..data`, which is swapped as a whole."""

from __future__ import annotations

import base64
import itertools
import os
import shutil
from pathlib import Path
from typing import Any

Object = dict[str, Any]
# Whether files can be given to another group, as a kubelet does with `fsGroup`.
IS_ROOT = os.getuid() == 0
COUNTER = itertools.count(1)


class Cluster:
    """ConfigMaps and Secrets by kind and name, with the bytes of each key."""

    def __init__(self, objects: list[Object]) -> None:
        self.data: dict[tuple[str, str], dict[str, bytes]] = {}
        for it in objects:
            if it["kind"] in ("ConfigMap", "Secret"):
                self.put(it["kind"], it["metadata"]["name"], it.get("data", {}))

    def put(self, kind: str, name: str, data: dict[str, str | bytes]) -> None:
        """Makes an object, or puts another in its place. The data of Secrets is taken as it is, not in base 64."""
        self.data[kind, name] = {key: it if isinstance(it, bytes) else it.encode() for key, it in data.items()}


class Volume:
    """A volume of a pod, in a directory of this machine."""

    def __init__(self, directory: Path, source: Object, group: int | None) -> None:
        self.directory, self.source, self.group = directory, source, group
        directory.mkdir(parents=True)
        if "emptyDir" in source:
            self.own(directory, 0o777)

    def refresh(self, cluster: Cluster) -> None:
        """Brings it up to what the cluster has now, in the order in which a kubelet does it (its atomic writer)."""
        if "emptyDir" in self.source:
            return
        files = self.files(cluster)
        new = self.directory / f"..2026_12_01_00_00_00.{next(COUNTER)}"
        new.mkdir()
        for name, (content, mode) in files.items():
            (new / name).write_bytes(content)
            self.own(new / name, mode)
        self.own(new, 0o755)
        link = self.directory / "..data"
        old = os.readlink(link) if link.is_symlink() else None
        os.symlink(new.name, self.directory / "..data_tmp")
        os.rename(self.directory / "..data_tmp", link)
        for name in files:
            if not (self.directory / name).is_symlink():
                os.symlink(f"..data/{name}", self.directory / name)
        for path in list(self.directory.iterdir()):
            if not path.name.startswith("..") and path.name not in files:
                path.unlink()
        if old:
            shutil.rmtree(self.directory / old)

    def files(self, cluster: Cluster) -> dict[str, tuple[bytes, int]]:
        """Names, contents and modes."""
        [(kind, source)] = [(key, it) for key, it in self.source.items() if key != "name"]
        mode = source.get("defaultMode", 0o644)
        result = {}
        for part in source["sources"] if kind == "projected" else [{kind: source}]:
            for name, content in self.part(part, cluster).items():
                result[name] = (content, mode)
        return result

    def part(self, part: Object, cluster: Cluster) -> dict[str, bytes]:
        """What one source gives. What is not there keeps a pod from starting, since nothing is optional."""
        [(kind, source)] = part.items()
        if kind == "serviceAccountToken":
            return {source["path"]: base64.b64encode(b"the token of the pod")}
        kinds = {"configMap": ("ConfigMap", "name"), "secret": ("Secret", "secretName")}
        kind, key = kinds[kind]
        data = cluster.data[kind, source[key]]
        items = source.get("items", [{"key": key, "path": key} for key in data])
        return {item["path"]: data[item["key"]] for item in items}

    def own(self, path: Path, mode: int) -> None:
        """Gives a path its mode and its group."""
        path.chmod(mode)
        if IS_ROOT and self.group is not None:
            os.chown(path, 0, self.group)
