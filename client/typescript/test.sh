#!/usr/bin/env bash
# Builds the TypeScript client and runs its tests, on a fresh machine too: it needs cargo, node and npm. HOOKD_BIN and
# HOOKD_SCRIPTED name servers to test against, which are then not built.
set -euo pipefail
cd "$(dirname "$0")"

if [ -z "${HOOKD_BIN:-}" ]; then
  (cd ../.. && cargo build --locked -p hookd)
fi
if [ -z "${HOOKD_SCRIPTED:-}" ]; then
  (cd ../.. && cargo build --locked -p hookd-conformance)
fi
# Scripts of dependencies have no business here; everything that is needed comes as it is.
npm ci --loglevel=error --ignore-scripts --no-audit --no-fund
rm -rf build dist
npm run --silent build
node_modules/.bin/tsc -p tsconfig.test.json
node --test --test-reporter=spec --test-concurrency=2 --test-timeout=120000 build/test/*.test.js
