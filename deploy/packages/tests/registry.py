"""A registry of npm with a few packages, on this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


class Registry:
    """Serves the `*.tgz` of a folder, each as the only version of its package."""

    def __init__(self, folder: Path) -> None:
        packages = {}
        for file in folder.glob("*.tgz"):
            with tarfile.open(file) as archive:
                member = archive.extractfile("package/package.json")
                assert member is not None
                packages[f"/{json.load(member)['name']}"] = file

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = unquote(self.path)
                if path in packages:
                    body = json.dumps(described(packages[path], registry.address)).encode()
                elif (file := folder / path.removeprefix("/files/")) in packages.values():
                    body = file.read_bytes()
                else:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        registry = self
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self) -> Registry:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def install(self, prefix: Path, *options: str) -> None:
        """`npm install @hookd/cli` into an empty folder, with nothing from elsewhere or from before."""
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", prefix, "--cache", prefix / "cache"]
        command += ["--registry", self.address, *options, "@hookd/cli"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr

    def install_by_pnpm(self, folder: Path, pnpm: Path, environment: dict[str, str]) -> None:
        """The same by pnpm, which is told to run the package's script."""
        manifest = {"name": "project", "private": True, "pnpm": {"onlyBuiltDependencies": ["@hookd/cli"]}}
        (folder / "package.json").write_text(json.dumps(manifest))
        command = [pnpm, "add", "--registry", self.address, "--store-dir", folder / "store", "@hookd/cli"]
        environment = environment | {"npm_config_cache": str(folder / "cache")}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr


def described(file: Path, address: str) -> dict[str, object]:
    """What a registry says of a package."""
    with tarfile.open(file) as archive:
        member = archive.extractfile("package/package.json")
        assert member is not None
        manifest = json.load(member)
    digest = base64.b64encode(hashlib.sha512(file.read_bytes()).digest()).decode()
    manifest["dist"] = {"tarball": f"{address}/files/{file.name}", "integrity": f"sha512-{digest}"}
    version = manifest["version"]
    return {"name": manifest["name"], "dist-tags": {"latest": version}, "versions": {version: manifest}}
