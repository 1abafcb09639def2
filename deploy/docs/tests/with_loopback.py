"""Runs a program after bringing up the loopback of this network namespace: `with_loopback.py PROGRAM ARGUMENT…`."""

import os
import subprocess
import sys

from enter_pod import loopback_up

loopback_up()
if os.getpid() == 1:
    # The first process of a namespace does not get signals that it does not handle, and its end is everybody's.
    raise SystemExit(subprocess.run(sys.argv[1:]).returncode)
os.execvp(sys.argv[1], sys.argv[1:])
