#!/usr/bin/env bash
# Builds the TypeScript client and runs the tests of its adapters: the published packages of the frameworks, their own loops,
# scripted models, no network. On a fresh machine too: it needs cargo, node and npm. HOOKD_BIN names a hookd to test against,
# which is then not built. Arguments go to node's test runner.
set -euo pipefail
cd "$(dirname "$0")"

if [ -z "${HOOKD_BIN:-}" ]; then
  (cd ../.. && cargo build --locked -p hookd)
fi
npm ci --loglevel=error --ignore-scripts --no-audit --no-fund
rm -rf build dist
npm run --silent build
node_modules/.bin/tsc -p tsconfig.test.json
node --test --test-reporter=spec --test-concurrency=2 --test-timeout=120000 "$@" build/test/adapters/*.test.js
