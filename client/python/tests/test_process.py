"""One program under limits: what holds for every program."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from hookd._process import KILL_GRACE, Cancel, End, Finished, Program, run
from support import LIMIT

PATH = {"PATH": os.environ["PATH"]}


def ran(
    script: str | list[str],
    *,
    stdin: bytes = b"",
    timeout: float = 30.0,
    cap: int = 1 << 20,
    cancel: Cancel | None = None,
    env: dict[str, str] | None = None,
    cwd: str | None = None,
) -> Finished:
    """Runs to where nothing is left."""
    argv = ["/bin/sh", "-c", script] if isinstance(script, str) else script
    results: list[Finished] = []
    run(Program(argv, PATH if env is None else env, cwd, stdin), timeout, cap, cancel or Cancel(), results.append)
    (result,) = results
    return result


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_it_reads_its_input_and_says_how_it_ended() -> None:
    result = ran("cat; echo err >&2; exit 7", stdin=b"in\n")
    assert (result.end, result.number, result.stdout, result.stderr) == (End.EXITED, 7, b"in\n", b"err\n")
    assert (result.truncated, result.elapsed is not None and result.elapsed > 0) == (False, True)


def test_input_and_both_outputs_move_together() -> None:
    # It writes much to both before it reads, and much of what it reads comes back.
    megabytes = b"x" * (3 << 20)
    result = ran("head -c 2000000 /dev/zero >&2; cat", stdin=megabytes, cap=4 << 20)
    assert (result.end, len(result.stderr), result.stdout == megabytes) == (End.EXITED, 2_000_000, True)


def test_input_that_nobody_reads_is_no_fault() -> None:
    for script in ("exit 0", "exec <&-; sleep 0.05; exit 0"):
        assert ran(script, stdin=b"x" * (1 << 20)).end is End.EXITED


def test_output_beyond_the_cap_is_thrown_away() -> None:
    result = ran("head -c 5000000 /dev/zero; echo done >&2", cap=8)
    assert (result.end, result.number, result.stdout, result.truncated) == (End.EXITED, 0, b"\0" * 8, True)
    assert result.stderr == b"done\n"
    assert not ran("printf 12345678", cap=8).truncated


def test_the_environment_is_exactly_what_was_given() -> None:
    os.environ["SECRET_OF_THE_AGENT"] = "x"
    result = ran(["/usr/bin/env"], env={"ONLY": "this"})
    assert result.stdout == b"ONLY=this\n"


def test_it_leads_a_group_of_its_own(tmp_path: Path) -> None:
    result = ran('echo $$; ps -o pgid= -p $$ 2>/dev/null || cut -d" " -f5 /proc/$$/stat', cwd=str(tmp_path))
    pid, group = result.stdout.split()
    assert pid == group and int(pid) != os.getpgrp()


def test_time_over_ends_the_group_and_leaves_nothing(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # Neither the leader nor its child cares for SIGTERM.
    stubborn = f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 1; done"
    (tmp_path / "child").write_text(stubborn)
    script = f"sh {tmp_path}/child & echo said; {stubborn}"
    begun = time.monotonic()
    told: list[float] = []
    results: list[Finished] = []

    def finished(result: Finished) -> None:
        told.append(time.monotonic() - begun)
        results.append(result)

    run(Program(["/bin/sh", "-c", script], PATH, None, b""), 0.5, 100, Cancel(), finished)
    assert (results[0].end, results[0].stdout) == (End.TIMED_OUT, b"said\n")
    assert told[0] >= 0.5
    # The result did not wait for the grace.
    assert time.monotonic() - begun - told[0] >= 0.9 * KILL_GRACE
    for pid in pids.read_text().split():
        assert not is_alive(int(pid))


def test_sigterm_comes_first(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    assert ran(f"trap 'echo gone > {marker}; exit 0' TERM; sleep 20 & wait", timeout=0.3).end is End.TIMED_OUT
    assert marker.read_text() == "gone\n"


def test_it_can_be_cancelled_from_another_thread() -> None:
    cancel = Cancel()
    timer = threading.Timer(0.2, cancel.set)
    timer.start()
    begun = time.monotonic()
    result = ran("sleep 30", cancel=cancel)
    assert (result.end, time.monotonic() - begun < 10) == (End.CANCELLED, True)
    assert ran("echo never", cancel=cancel) == Finished(End.CANCELLED)
    timer.join()


def test_a_signal_that_was_not_ours_is_told_and_ends_the_rest(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    result = ran(f"sleep 30 & echo $! > {pid}; kill -KILL $$")
    assert (result.end, result.number) == (End.SIGNALLED, signal.SIGKILL)
    assert not is_alive(int(pid.read_text()))


def test_what_a_leader_leaves_behind_lives_on_and_holds_up_nobody(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    begun = time.monotonic()
    result = ran(f"sleep 30 & echo $! > {pid}; echo said")
    assert (result.end, result.number, result.stdout) == (End.EXITED, 0, b"said\n")
    assert time.monotonic() - begun < 10
    left = int(pid.read_text())
    assert is_alive(left)
    os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ([], "no program is named"),
        (["/nowhere/x"], "cannot start `/nowhere/x`: No such file or directory"),
        (["nowhere-to-be-found"], "cannot start `nowhere-to-be-found`: No such file or directory"),
        (["/etc/passwd"], "cannot start `/etc/passwd`: Permission denied"),
        (["a\0b"], "cannot start `a\0b`: embedded null byte"),
    ],
)
def test_what_does_not_start_is_named(argv: list[str], why: str) -> None:
    assert ran(argv) == Finished(End.DID_NOT_START, why=why)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    expected = f"cannot use the working directory `{missing}`: No such file or directory"
    assert ran("true", cwd=missing) == Finished(End.DID_NOT_START, why=expected)


def test_a_script_without_a_first_line_is_run_by_the_shell(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "hi $1"\n')
    script.chmod(0o755)
    assert ran([str(script), "there"]).stdout == b"hi there\n"
    assert ran(["script", "you"], env={"PATH": f"{tmp_path}:/usr/bin"}).stdout == b"hi you\n"


def test_time_that_is_over_starts_nothing(tmp_path: Path) -> None:
    assert ran(f"touch {tmp_path}/x", timeout=0.0) == Finished(End.TIMED_OUT)
    assert not (tmp_path / "x").exists()


def test_no_descriptor_and_no_child_is_left() -> None:
    ran("true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        ran("cat", stdin=b"x")
        ran("sleep 30", timeout=0.01)
    assert len(os.listdir("/proc/self/fd")) <= before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_many_at_a_time_do_not_wait_for_each_other() -> None:
    begun = time.monotonic()
    threads = [threading.Thread(target=ran, args=("sleep 0.5",)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert time.monotonic() - begun < 6
