"""Parsers of option values that several commands take.  A bad value is a usage error that says what is expected."""

from __future__ import annotations

import typer

from fleetwarden.cli.durations import span_s

__all__ = ["Duration"]


def Duration(text: str) -> float:  # noqa: N802  its name is what the help shows
    """Seconds of `90s`, `10m`, `2h` or `7d`.  Raises typer.BadParameter."""
    try:
        return span_s(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
