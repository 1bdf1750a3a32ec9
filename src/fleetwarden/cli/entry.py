"""The way in and the way out: every failure of a command becomes one plain message and an exit code.

0 ok; 1 a negative answer or a failed action; 2 a usage or configuration error.  Nobody sees a stack trace unless
FLEETWARDEN_DEBUG=1 asks for it.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback

from fleetwarden.cli.screen import Screen, clean
from fleetwarden.domain.errors import FleetError, Misconfigured

__all__ = ["DEBUG", "INTERRUPTED", "exit_code", "explain_failure", "main"]

DEBUG = "FLEETWARDEN_DEBUG"
INTERRUPTED = 130  # as a shell says of a command that Ctrl-C ended


def main() -> None:
    """Run the command line and exit."""
    sys.exit(_run())


def _run() -> int:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a terminal that lacks a character still gets the rest of the line
    # What only a log would tell is none of a command's answer; `up` adds the handlers that it writes to.
    logging.getLogger("fleetwarden").addHandler(logging.NullHandler())
    from fleetwarden.cli.application import app

    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe has enough.  Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001  an entry point catches everything
        if os.environ.get(DEBUG):
            traceback.print_exc()
        explain_failure(error, Screen.of_terminal(sys.stderr))
        return exit_code(error)
    return 0


def exit_code(error: BaseException) -> int:
    return 2 if isinstance(error, Misconfigured) else 1


def explain_failure(error: BaseException, screen: Screen) -> None:
    """What went wrong, where, and what would satisfy it."""
    if not isinstance(error, FleetError):
        told = clean(error) or "no message"
        screen.line(f"fleetwarden failed unexpectedly: {type(error).__name__}: {told}", tone="bad")
        screen.line(f"{DEBUG}=1 shows where; please report it")
        return
    screen.line(error.message, tone="bad")
    for problem in getattr(error, "problems", ()):
        screen.line(f"  {problem}", indent=4)
    if error.hint:
        screen.line(f"→ {error.hint}", indent=2)
