"""The command line as a list: every command and group, and the options that may stand before them."""

from __future__ import annotations

from typing import Annotated

import typer

import fleetwarden
from fleetwarden.cli import ending, fleet, serving, starting_out
from fleetwarden.cli.action import action
from fleetwarden.cli.approvals import approvals
from fleetwarden.cli.backtest import backtest
from fleetwarden.cli.calling import Common, ConfigOption, TokenOption, UrlOption
from fleetwarden.cli.doctor import doctor
from fleetwarden.cli.freeze import freeze
from fleetwarden.cli.importing import importing
from fleetwarden.cli.lab import lab
from fleetwarden.cli.ledger import GROUPS
from fleetwarden.cli.looking import history, plan
from fleetwarden.cli.notify import notify
from fleetwarden.cli.override import adopt, override, reassert
from fleetwarden.cli.playbooks import playbooks
from fleetwarden.cli.policy import policy
from fleetwarden.cli.recover import recover
from fleetwarden.cli.sealed import ledger
from fleetwarden.cli.shadow import shadow
from fleetwarden.cli.signals import signals
from fleetwarden.cli.storage import db
from fleetwarden.cli.storm import storm
from fleetwarden.cli.tokens import tokens
from fleetwarden.cli.versions import logs, versions

__all__ = ["app"]

app = typer.Typer(
    name="fleetwarden",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: quick, and a bracket in it is a bracket
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fleetwarden {fleetwarden.__version__}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    config: ConfigOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A control plane where every change to a running fleet is a governed action: decided, written down, done once.

    Exit codes: 0 ok, 1 a negative answer or a failed action, 2 a usage or configuration error.
    """
    ctx.obj = Common(config=config, url=url, token=token)


app.command("init")(starting_out.init)
app.command("up")(serving.up)
app.command("down")(ending.down)
app.command("status")(fleet.status)
app.command("explain")(fleet.explain)
app.command("plan")(plan)
app.command("backtest")(backtest)
app.command("lab")(lab)
app.command("history")(history)
app.command("versions")(versions)
app.command("logs")(logs)
app.command("adopt")(adopt)
app.command("reassert")(reassert)
app.command("doctor")(doctor)
for _group in (
    approvals,
    override,
    action,
    freeze,
    storm,
    playbooks,
    policy,
    *GROUPS,
    signals,
    notify,
    shadow,
    importing,
    ledger,
    recover,
    tokens,
    db,
):
    app.add_typer(_group)
