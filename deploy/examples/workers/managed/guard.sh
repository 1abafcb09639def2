#!/usr/bin/env bash
# Keeps agents out of what tools make: installed packages, build results, lock files.
#
# A worker of hookd: it reads one event a line from stdin and writes one answer a line to stdout, until stdin ends. No
# program is started for an event: one jq, which stays too, makes one line of each, the path as a JSON string.
set -uo pipefail

if ! command -v jq >/dev/null; then
    echo 'guard.sh: jq is not installed, so no path can be checked' >&2
    exit 1
fi

jq --unbuffered --compact-output '.toolCall.params.file_path' | while IFS= read -r path; do
    case "$path" in
        null | [!\"]*)
            echo '{"decision":"block","reason":"there is no path to look at"}' ;;
        *[\"/]node_modules/* | *[\"/]dist/* | *[\"/]package-lock.json\" | *[\"/]Cargo.lock\")
            echo '{"decision":"block","reason":"a tool makes this file"}' ;;
        *)
            echo '{"blocked":false}' ;;
    esac
done
