"""Ends while a command of its own runs: `exits.py FIFO`, which gets the id of the command's process."""

from __future__ import annotations

import sys
import time

from hookd import v1
from hookd._process import Cancel
from hookd.commands import AgentSide
from hookd.v1 import hook_service_pb2 as pb

side = AgentSide(server_programs=True)
script = f"echo $$ > {sys.argv[1]}; exec sleep 1000"
message = v1.RunCommand(command_id=1, server_program=pb.ServerProgram(argv=["/bin/sh", "-c", script]))
message.timeout.FromSeconds(1000)
side.start(message, v1.TriggerRequest(), time.monotonic() + 1000, Cancel(), lambda _: None)
# Until the other end has heard from the command.
sys.stdin.read()
