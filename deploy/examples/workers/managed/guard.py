"""Keeps shell commands away from files that hold secrets.

A worker of hookd: it reads one event a line from stdin and writes one answer a line to stdout, until stdin ends.
"""

import json
import re
import sys

SECRETS = re.compile(r"""(?:^|[\s/'"=:@<>])(\.env|\.netrc|\.pgpass|id_rsa|id_ed25519|\.aws/credentials)(?![\w-])""")


def judge(event):
    command = event["toolCall"]["params"].get("command")
    if not isinstance(command, str):
        return {"decision": "block", "reason": "there is no command to look at"}
    found = SECRETS.search(command)
    if found:
        return {"decision": "block", "reason": f"{found.group(1)} may hold secrets"}
    return {"blocked": False}


def main():
    answers = sys.stdout
    # Whatever else prints, a library for instance, must not stand between the answers.
    sys.stdout = sys.stderr
    for line in sys.stdin:
        # What goes wrong here ends the program with a traceback: the call fails, and the next one gets a new worker.
        print(json.dumps(judge(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
