"""What a cluster brings: an authority with a certificate for hookd, and keys that sign the tokens of service accounts."""

from __future__ import annotations

import datetime
import json
import time

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import RSAAlgorithm


class Authority:
    """Certifies names of servers."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
        self.certificate = (
            self.builder(self.key.public_key())
            .subject_name(self.name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def builder(self, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        number = x509.random_serial_number()
        builder = x509.CertificateBuilder().issuer_name(self.name).public_key(key).serial_number(number)
        return builder.not_valid_before(now - day).not_valid_after(now + day)

    def pem(self) -> bytes:
        """The authority's own certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def secret(self, names: list[str], uris: tuple[str, ...] = ()) -> dict[str, bytes]:
        """A Secret as cert-manager writes it: a certificate for hosts or callers, its key, and the authority."""
        said = [*[x509.DNSName(it) for it in names], *[x509.UniformResourceIdentifier(it) for it in uris]]
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            self.builder(key.public_key())
            .subject_name(x509.Name([]))
            .add_extension(x509.SubjectAlternativeName(said), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        form = serialization.PrivateFormat.PKCS8
        return {
            "tls.crt": certificate.public_bytes(serialization.Encoding.PEM),
            "tls.key": key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()),
            "ca.crt": self.pem(),
        }


class Issuer:
    """Signs tokens as an API server does for `serviceAccountToken` in a projected volume."""

    URL = "https://kubernetes.default.svc.cluster.local"

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwks(self) -> str:
        """Its public key, as `/openid/v1/jwks` has it."""
        key = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return json.dumps({"keys": [{**key, "use": "sig", "kid": self.key_id, "alg": "RS256"}]})

    def token(self, audience: str, namespace: str = "agents", account: str = "default") -> str:
        """A token for a pod with this service account."""
        now = int(time.time())
        claims = {
            "iss": self.URL,
            "aud": [audience],
            "sub": f"system:serviceaccount:{namespace}:{account}",
            "iat": now,
            "nbf": now,
            "exp": now + 3600,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": account, "uid": "1"}},
        }
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": self.key_id})
