"""Groups of commands whose bare name lists: `fleetwarden decisions` is `fleetwarden decisions list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click import Context

__all__ = ["group"]


def group(name: str, default: str, about: str) -> typer.Typer:
    """A group that runs `default` where no command of it is named."""

    class Defaulting(TyperGroup):
        """Puts the default command in front of arguments that name none."""

        def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
            named = any(one in self.commands for one in args)
            if not named and not {"--help", "-h"} & set(args) and (not args or args[0].startswith("-")):
                args = [default, *args]
            return super().parse_args(ctx, args)

    return typer.Typer(name=name, help=about, cls=Defaulting, rich_markup_mode=None)
