"""Asks, forks, asks in the child, and asks again: `fork.py ADDRESS KIND FIFO`. Prints a line for each answer. The FIFO
hears of the command that a slow call starts."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import threading

import hookd

address, kind, begun = sys.argv[1:]
BLOCK = hookd.OnUnavailable.BLOCK
client = hookd.Client(address, on_unavailable=BLOCK)
async_client = hookd.AsyncClient(address, on_unavailable=BLOCK)


def say(gate: hookd.Gate) -> None:
    error = gate.decision.error
    print(type(gate).__name__, error and error.kind.name, flush=True)


def ask(tool: str = "bash") -> hookd.Gate:
    return client.session("s").pre_tool_use(tool, {})


async def ask_async(tool: str = "bash") -> hookd.Gate:
    return await async_client.session("s").pre_tool_use(tool, {})


def ask_in_pool(_: int) -> str:
    gate = ask()
    return f"{type(gate).__name__} {gate.decision.error and gate.decision.error.kind.name}"


def wait_until_it_runs() -> None:
    with open(begun, encoding="ascii") as fifo:
        fifo.read()


def fork_and_ask(asks: str) -> None:
    pid = os.fork()
    if pid == 0:
        if asks == "threads":
            say(ask())
        else:
            # The loop of the parent is not the child's.
            asyncio.events._set_running_loop(None)
            say(asyncio.run(ask_async()))
        sys.stdout.flush()
        os._exit(0)
    if os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
        print("ended by a signal", flush=True)


async def on_asyncio(asks: str, *, in_a_call: bool = False) -> None:
    say(await ask_async())
    calls = [asyncio.create_task(ask_async("slow"))] if in_a_call else []
    if in_a_call:
        await asyncio.to_thread(wait_until_it_runs)
    fork_and_ask(asks)
    await asyncio.gather(*calls)
    say(await ask_async())


def main() -> None:
    match kind:
        case "threads" | "threads to asyncio":
            say(ask())
            fork_and_ask("asyncio" if kind.endswith("asyncio") else "threads")
            say(ask())
        case "asyncio" | "asyncio to threads":
            asyncio.run(on_asyncio("threads" if kind.endswith("threads") else "asyncio"))
        case "pool":
            say(ask())
            with multiprocessing.get_context("fork").Pool(1) as pool:
                print(*pool.map(ask_in_pool, [1]), flush=True)
            say(ask())
        case "threads, in a call":
            say(ask())
            thread = threading.Thread(target=lambda: ask("slow"))
            thread.start()
            wait_until_it_runs()
            fork_and_ask("threads")
            thread.join()
            say(ask())
        case _:
            asyncio.run(on_asyncio("asyncio", in_a_call=True))


main()
