#!/bin/sh
# Guard: keeps agents from writing below any `node_modules`. Reads the event on stdin, answers on stdout.
# Where it cannot tell, it fails: the rule is managed, so its failure blocks the call.
set -eu

if ! command -v jq >/dev/null; then
  echo "block-node-modules.sh: jq is not installed, so no path can be checked" >&2
  exit 1
fi

jq -c '
  .toolCall.params.file_path
  | if type != "string" then error("block-node-modules.sh: the call has no file_path") else . end
  | ascii_downcase | split("/") + split("\\") | any(. == "node_modules")
  | if . then { blocked: true, blockReason: "Cannot write to node_modules" } else { blocked: false } end
'
