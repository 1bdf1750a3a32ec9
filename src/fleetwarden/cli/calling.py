"""One call of one command: which plane or folder it is about, with which token, and where its answer goes.

Every command takes `--config`, `--url`, `--token` and `--json`, before or after its name; `connected` adds them, so
that no command can forget one.  Settings, the client and the store are made only when a command asks for them.  The
admin token of a data folder is sent to the plane that holds that folder and to nobody else.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec
from urllib.parse import urlsplit

import typer

from fleetwarden.cli import invocation
from fleetwarden.cli.authority import Authority, RemoteAuthority, opened
from fleetwarden.cli.client import PlaneClient
from fleetwarden.cli.screen import Screen
from fleetwarden.domain.errors import Misconfigured, NotFound, Retryable

if TYPE_CHECKING:
    from fleetwarden.app.running import RunningPlane
    from fleetwarden.app.settings import Settings

__all__ = ["Call", "Common", "NoPlane", "connected", "unconnected"]

P = ParamSpec("P")

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="DIR", help="The configuration folder.  Default: $FLEET_CONFIG, else ./fleet."),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The plane to talk to.  Default: $FLEET_URL, else this folder's plane."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", metavar="TOKEN", help="Default: $FLEET_TOKEN, else the data folder's admin token."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="The answer as JSON: the same facts as over HTTP, times in UTC.")
]


class NoPlane(Retryable):
    """The command needs a running plane, and none holds this data folder."""

    code = "no_plane"


class Common:
    """What was given before the command's name."""

    def __init__(self, config: Path | None = None, url: str | None = None, token: str | None = None) -> None:
        self.config, self.url, self.token = config, url, token


class Call:
    """The surroundings of one command."""

    def __init__(
        self,
        *,
        config: Path | None = None,
        url: str | None = None,
        token: str | None = None,
        as_json: bool = False,
        screen: Screen | None = None,
    ) -> None:
        self.config = config
        self.as_json = as_json
        self.screen = screen or Screen.of_terminal()
        self._url, self._token = url, token

    @cached_property
    def settings(self) -> Settings:
        """The settings of this folder.  Raises Misconfigured with every problem."""
        from fleetwarden.app.settings import load_settings

        return load_settings(self.config, os.environ)

    @cached_property
    def prefix(self) -> str:
        """What a hint begins with, so that it works when it is pasted."""
        return invocation.prefix(config=self.config, url=self._url)

    def command(self, rest: str) -> str:
        """A command as it has to be typed here."""
        return f"{self.prefix} {rest}"

    def words(self, text: object) -> str:
        """A sentence of the plane with the commands in it made pasteable."""
        return invocation.pasteable(str(text or ""), self.prefix)

    def running(self) -> RunningPlane | None:
        """Who holds this data folder now, or None.  Raises Misconfigured where a folder was named and the plane that
        is found runs another one."""
        from fleetwarden.app.running import refuse_another_folder, running_plane

        found = running_plane(self.settings)
        if found is not None and (self.config is not None or os.environ.get("FLEET_CONFIG")):
            refuse_another_folder(self.settings, found)
        return found

    def remote(self) -> PlaneClient | None:
        """A client for the plane that was named or that runs here; None if none was named and none runs.

        Raises Retryable if what holds the data folder has no address (a plane that starts, another command).
        """
        url = self._url or os.environ.get("FLEET_URL") or self._setting("fleet_url")
        if url:
            return PlaneClient(url, self._token_for(url))
        running = self.running()
        if running is None:
            return None
        if not running.url:
            raise Retryable(
                f"process {running.pid} on {running.host} holds the data folder and has no address yet",
                hint="a plane that starts, or another command: try again in a moment",
            )
        return PlaneClient(running.url, self._token_for(running.url))

    @property
    def names_a_plane(self) -> bool:
        """Whether an address was given, so that it is not this folder's own plane that is meant."""
        return self._url is not None or bool(os.environ.get("FLEET_URL") or self._setting("fleet_url"))

    def remote_if_ready(self) -> PlaneClient | None:
        """As `remote`, with None also for a plane that has no address yet."""
        if not self.names_a_plane:
            running = self.running()
            if running is None or not running.url:
                return None
        return self.remote()

    def plane(self) -> PlaneClient:
        """A client for the plane.  Raises NoPlane."""
        client = self.remote()
        if client is None:
            raise NoPlane("no plane runs here", hint=f"start one: {self.command('up')}")
        return client

    def _setting(self, name: str) -> str | None:
        value = getattr(self.settings, name)
        return None if value is None else str(getattr(value, "get_secret_value", lambda: value)())

    def _token_for(self, url: str) -> str:
        """The token to send to that address: a given one, else the local one if the local plane answers there."""
        given = self._token or os.environ.get("FLEET_TOKEN")
        if given:
            return given
        try:
            configured = self._setting("fleet_token")
            if configured:
                return configured
            running = self.running()
        except Misconfigured:
            return ""  # this folder says nothing; the plane that was named will say that a token is needed
        if running is None or _place(running.url) != _place(url):
            return ""
        from fleetwarden.app.running import kept_token

        return self._setting("fleet_admin_token") or kept_token(self.settings) or ""

    @contextmanager
    def authority(self, *, makes: bool = False) -> Iterator[Authority]:
        """The plane, or its store while no plane runs.  `makes`: there need not be a store yet.

        Raises NotFound if nothing has run here yet.
        """
        client = self.remote()
        if client is not None:
            yield RemoteAuthority(client)
            return
        self.prepare_store(makes=makes)
        with opened(self.settings) as local:
            yield local

    def prepare_store(self, *, makes: bool) -> None:
        """Look that there is a store to open, or a folder to make one in.  Raises NotFound, Misconfigured."""
        from fleetwarden.app.running import prepare_data_folder

        if makes:
            prepare_data_folder(self.settings)
        elif not self.has_store():
            raise NotFound(
                f"no plane runs here, and none has yet: there is no store in {self.settings.fleet_data_dir}",
                hint=f"start one: {self.command('up')}",
            )

    def has_store(self) -> bool:
        """Whether a plane ever ran here, as far as can be seen without opening anything."""
        from fleetwarden.app.running import database_file

        file = database_file(self.settings)
        return file is None or file.exists()

    def progress(self, text: str, *, tone: str = "") -> None:
        """A line about work that goes on; nothing where the answer is JSON."""
        if not self.as_json:
            self.screen.line(text, indent=2, tone=tone)
            self.screen.flush()

    def answer(self, body: Any, words: str) -> None:
        """The end of a command: its JSON, or one sentence."""
        if self.as_json:
            self.show_json(body)
        else:
            self.screen.line(words, indent=2)

    def show_json(self, body: Any) -> None:
        """The answer as it is, indented, keys as they came."""
        self.screen.raw(json.dumps(body, indent=2, ensure_ascii=False))


def _place(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url if "//" in url else f"http://{url}")
    try:
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        return parts.scheme, parts.hostname, -1


def connected(command: Callable[Concatenate[Call, P], None]) -> Callable[..., None]:
    """Make a command of a function whose first parameter is its Call: adds the options that all commands share."""
    return _made(command, _shared)


def unconnected(command: Callable[Concatenate[Call, P], None]) -> Callable[..., None]:
    """The same for a command that never talks to a plane: without the options that name one."""
    return _made(command, _shared_by_all)


def _made(command: Callable[Concatenate[Call, P], None], options: Callable[..., None]) -> Callable[..., None]:
    own = inspect.signature(command, eval_str=True)
    shared = inspect.signature(options, eval_str=True)
    parameters = [*list(own.parameters.values())[1:], *shared.parameters.values()]

    def run(*, ctx: typer.Context, config: Any, as_json: Any, url: Any = None, token: Any = None, **given: Any) -> None:
        first: Common = ctx.find_object(Common) or Common()
        call = Call(
            config=config or first.config, url=url or first.url, token=token or first.token, as_json=bool(as_json)
        )
        command(call, **given)  # type: ignore[call-arg]

    run.__name__ = getattr(command, "__name__", "command")
    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    )
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _shared(
    ctx: typer.Context,
    config: ConfigOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """The options that every command has, as a signature."""


def _shared_by_all(ctx: typer.Context, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """The options of a command that reads files only, as a signature."""
