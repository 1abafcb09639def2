/** Certificates for tests, made as they run. */

import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from "node:crypto";

export interface Certified {
  readonly cert: string;
  readonly key: string;
}

interface Issuer extends Certified {
  readonly name: Buffer;
  readonly signer: KeyObject;
}

const ECDSA_SHA256 = sequence(oid("2a8648ce3d040302"));

/** A certificate authority, and the certificates that it signs. */
export function authority(): Certified & { issue(name: string): Certified } {
  const made = make("test authority", undefined);
  return { cert: made.cert, key: made.key, issue: (name) => make(name, made) };
}

function make(commonName: string, issuer: Issuer | undefined): Issuer {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const name = sequence(set(sequence(oid("550403"), tagged(0x0c, Buffer.from(commonName)))));
  const spki = publicKey.export({ type: "spki", format: "der" });
  const extensions = [
    // basicConstraints, subjectAltName (a DNS name)
    sequence(
      oid("551d13"),
      tagged(0x01, Buffer.from([0xff])),
      octets(sequence(...(issuer ? [] : [tagged(0x01, Buffer.from([0xff]))]))),
    ),
    sequence(oid("551d11"), octets(sequence(tagged(0x82, Buffer.from(commonName.replaceAll(" ", "-")))))),
    sequence(oid("551d0e"), octets(octets(createHash("sha1").update(spki).digest()))),
  ];
  const body = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))),
    tagged(0x02, Buffer.concat([Buffer.from([0x01]), randomBytes(8)])),
    ECDSA_SHA256,
    issuer?.name ?? name,
    sequence(time(-1), time(1)),
    name,
    spki,
    tagged(0xa3, sequence(...extensions)),
  );
  const signature = sign("sha256", body, issuer?.signer ?? privateKey);
  const der = sequence(body, ECDSA_SHA256, tagged(0x03, Buffer.concat([Buffer.from([0]), signature])));
  const base64 = (der.toString("base64").match(/.{1,64}/g) ?? []).join("\n");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    name,
    signer: privateKey,
  };
}

function tagged(tag: number, content: Buffer): Buffer {
  const length = content.length;
  const head =
    length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from(head), content]);
}

function sequence(...parts: Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

function set(part: Buffer): Buffer {
  return tagged(0x31, part);
}

function octets(part: Buffer): Buffer {
  return tagged(0x04, part);
}

function oid(hex: string): Buffer {
  return tagged(0x06, Buffer.from(hex, "hex"));
}

function time(days: number): Buffer {
  const at = new Date(Date.now() + days * 86_400_000).toISOString().replace(/[-:T]|\.\d+/g, "");
  return tagged(0x18, Buffer.from(at));
}
