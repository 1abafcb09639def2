"""`kubectl` for the guides: no cluster, but names that were made, files that are there, and rules that hookd would take."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa

import cluster

STATE = cluster.read()


def needs(name: str) -> None:
    """Ends with 1 where there is no such object."""
    if name not in STATE["objects"]:
        raise SystemExit(f"kubectl: there is no {name}, only {STATE['objects']}")


def make(name: str) -> None:
    """Makes an object."""
    STATE["objects"].append(name)
    cluster.write(STATE)


def keys() -> str:
    """Key sets as the API server gives them: real keys, so that hookd takes them."""
    numbers = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key().public_numbers()

    def coded(value: int) -> str:
        return base64.urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8)).rstrip(b"=").decode()

    key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": os.urandom(8).hex()}
    return json.dumps({"keys": [{**key, "n": coded(numbers.n), "e": coded(numbers.e)}]})


def main() -> None:
    said = sys.argv[1:]
    while said[0] in ("-n", "--context"):
        option, value, *said = said
        if option == "-n":
            needs(f"namespace/{value}")
    match said:
        case ["create", "namespace", name]:
            make(f"namespace/{name}")
        case ["create", "configmap", name, "--from-file", path, *rest] if rest in ([], ["--dry-run=client", "-o", "yaml"]):
            if not Path(path).exists():
                raise SystemExit(f"kubectl: there is no {path}")
            if Path(path).is_dir():
                tier = "managed" if name.endswith("managed") else "team"
                check = [Path(os.environ["HOOKD_PROGRAMS"]) / "hookctl", "check", "--tier", tier, path]
                subprocess.run(check, check=True, stdout=sys.stderr)
            if rest:
                needs(f"configmap/{name}")
                print(f"configmap/{name}")
            else:
                make(f"configmap/{name}")
        case ["apply", "-f", "-"]:
            needs(sys.stdin.read().strip())
        case ["get", "--raw", "/openid/v1/jwks"]:
            print(keys())
        case ["rollout", "status" | "restart", name] | ["logs", name, *_]:
            needs(name)
        case _:
            raise SystemExit(f"kubectl: the stand-in does not know {said}")


main()
