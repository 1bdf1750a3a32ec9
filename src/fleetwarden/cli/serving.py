"""`up`: one plane in the foreground, from its settings to its end.

The port and the store's lock are taken before anything acts; the screen says what became ready and what did not.  The
first signal drains and leaves services running; the second ends at once, which is safe, because nothing depends on a
tidy end.  Nothing is logged to the screen, and a secret is printed once, when it is made.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from threading import Event, Thread
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.invocation import from_here
from fleetwarden.cli.wording import counted
from fleetwarden.domain.errors import Misconfigured

if TYPE_CHECKING:
    from fleetwarden.app.bootstrap import Plane
    from fleetwarden.app.settings import Settings

__all__ = ["up"]

READY_WITHIN_S = 20.0  # for the screen only: what takes longer goes on becoming ready
DRAIN_S = 30.0
SERVER_END_S = 15.0
POLL_S = 0.2
LARGE_POLL_S = 2.0  # a look at a large fleet costs more
# Each statement gives the interpreter up, and a thread that computes meanwhile (a large file, a page) keeps it so long.
# Beside such a thread an action of 74 statements takes 0.5 s with Python's own 5 ms, and 0.02 s with this; the thread
# itself hardly feels it (docs/explanation/performance.md).
SWITCH_S = 0.0001


@connected
def up(
    call: Call,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, help="Port of the API and the page; 0 takes a free one.")
    ] = None,
) -> None:
    """Run the control plane in the foreground."""
    from fleetwarden.app.logs import start_logging, stop_logging
    from fleetwarden.app.running import prepare_data_folder

    settings = _settings(call, port)
    prepare_data_folder(settings)
    sys.setswitchinterval(SWITCH_S)
    start_logging(settings)
    call.screen.may_go = True
    try:
        with _Ending() as ending:
            _run(call, settings, ending)
    finally:
        stop_logging()


def _settings(call: Call, port: int | None) -> Settings:
    settings = call.settings
    if not settings.config_dir.is_dir():
        raise Misconfigured(
            f"the configuration folder {settings.config_dir} does not exist",
            hint=f"make one: {call.command('init')}, or name one: --config DIR",
        )
    return settings if port is None else settings.model_copy(update={"fleet_http_port": port})


class _Ending:
    """Signals, as wishes: the first one asks for the end, a second one does not ask."""

    def __init__(self) -> None:
        self.wanted = Event()
        self.reread = Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._end)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: self.reread.set())
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _end(self, number: int, _: FrameType | None) -> None:
        if self.wanted.is_set() and number == signal.SIGINT:
            os.write(2, b"\nended at once; what was in flight is settled at the next start\n")
            os._exit(130)
        self.wanted.set()


def _run(call: Call, settings: Settings, ending: _Ending) -> None:
    from fleetwarden.app.bootstrap import Plane
    from fleetwarden.app.running import Announcement

    plane = Plane(settings)
    announcement = Announcement(settings, plane.store, plane.clock)
    try:
        with _Serving(plane, settings, ending.wanted) as serving:
            token = _token(call, plane, settings)  # made once the port is known to be ours, so that it is also shown
            announcement.announce(serving.url)
            body = _status(plane)
            plane.start()
            _greet(call, plane, body, f"{serving.url}    {token}", ending.wanted)
            if not announcement.taken:
                told = f"! another plane answers for this data folder; this one: --url {serving.url}"
                call.progress(told, tone="warn")
            _wait(plane, ending, serving)
            left = _still_running(plane)
            call.progress("")  # behind the ^C of a terminal
            call.progress("ending: nothing more is begun, what is under way may finish (Ctrl-C again does not wait)")
    finally:
        drained = plane.stop(DRAIN_S)
        announcement.release()
    if serving.error is not None:
        raise serving.error
    if not drained:
        call.progress("! something was still under way; its outcome is settled at the next start", tone="warn")
    keep = f"; {counted(left, 'service')} keep{'s' if left == 1 else ''} running" if left else ""
    stops = f", {call.command('down --services')} stops {'it' if left == 1 else 'them'}" if left else ""
    call.progress(f"the plane has ended{keep}{stops}")


def _still_running(plane: Plane) -> int:
    """Services that live at the last look and that this plane could stop."""
    services = _status(plane)["services"]
    return sum(1 for one in services if one["acts"] and (one.get("observed") or {}).get("existing"))


def _wait(plane: Plane, ending: _Ending, serving: _Serving) -> None:
    """Until somebody wants the end, or the server has ended by itself."""
    while not ending.wanted.is_set() and serving.is_alive():
        if ending.reread.is_set():
            ending.reread.clear()
            plane.wakes.wake("configuration")
        plane.clock.wait(ending.wanted, 1.0)


class _Serving:
    """The HTTP side on a thread of its own, so that the main thread is free for signals."""

    def __init__(self, plane: Plane, settings: Settings, wanted: Event) -> None:
        self.url = ""
        self.error: BaseException | None = None
        self._plane = plane
        self._settings = settings
        self._wanted = wanted
        self._ends = Event()
        self._known = Event()  # it answers, or it failed
        self._thread = Thread(target=self._serve, name="http", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._known.wait()
        if self.error is not None:
            raise self.error
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(SERVER_END_S)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _serve(self) -> None:
        from fleetwarden.web.server import Beyond, serve

        settings = self._settings
        try:
            serve(
                self._plane,
                host=settings.fleet_http_host,
                port=settings.fleet_http_port,
                on_ready=self._ready,
                on_shutdown=self._wanted.set,
                ends=self._ends,
                beyond=Beyond(
                    settings.fleet_http_tls_cert_file, settings.fleet_http_tls_key_file, settings.fleet_http_proxy or ()
                ),
            )
        except BaseException as error:  # noqa: BLE001  handed to the main thread, which says it
            self.error = error
        finally:
            self._known.set()
            self._wanted.set()

    def _ready(self, url: str) -> None:
        self.url = url
        self._known.set()


def _token(call: Call, plane: Plane, settings: Settings) -> str:
    """See that an admin can get in, and return what the screen says of the token.

    The secret is in its file before it opens anything: a plane that dies in between leaves nobody locked out.
    """
    from fleetwarden.app.first_token import first_admin_token
    from fleetwarden.app.identity import Unauthenticated, new_secret
    from fleetwarden.app.running import forget_token, keep_token, kept_token, token_file

    if settings.fleet_admin_token is not None:
        first_admin_token(plane.store, settings, "")
        return "token: the one in FLEET_ADMIN_TOKEN"
    where = from_here(token_file(settings))
    kept = kept_token(settings)
    secret = kept or new_secret()
    if kept is None:
        keep_token(settings, secret)
    made = first_admin_token(plane.store, settings, secret)
    if made is not None:
        return f"token {made}  (saved in {where})" if kept is None else f"token in {where}"
    if kept is None:
        forget_token(settings)
        return f"no token is kept here; a lost one is replaced with {call.command('token create --local')}"
    try:
        plane.authenticate(kept)
    except Unauthenticated:
        return f"the token in {where} is not valid any more: {call.command('token create --local')} makes another"
    return f"token in {where}"


def _greet(call: Call, plane: Plane, body: Mapping[str, Any], console: str, wanted: Event) -> None:
    """The first screen: banner, a line a service as it settles (bounded), console, things to try.

    `body`: the status right before the plane began.
    """
    from fleetwarden.cli import plane_screen

    plane_screen.show_banner(call.screen, body)
    services = _lines(call, plane, body, wanted)
    if wanted.is_set():
        return
    plane_screen.show_console(call.screen, console)
    if services:
        plane_screen.show_tries(call.screen, services, call.command)
    call.screen.flush()


def _status(plane: Plane) -> Mapping[str, Any]:
    from fleetwarden.app.identity import local_admin

    return plane.fleet.status(local_admin())


def _lines(call: Call, plane: Plane, body: Mapping[str, Any], wanted: Event) -> list[Mapping[str, Any]]:
    """A line for each service as it settles; what has not after a while says where it stands."""
    from fleetwarden.cli.plane_screen import LINES_MAX, settled, show_outcome

    names = [one["name"] for one in body["services"]]
    if not names:
        call.progress("no services are declared")
        return []
    width = max(len(name) for name in names[:LINES_MAX])
    told: set[str] = set()
    services = list(body["services"])
    moves = body["reconciler"] == "on"
    pause_s = POLL_S if len(names) <= LINES_MAX else LARGE_POLL_S
    for late in _rounds(plane, wanted, within_s=READY_WITHIN_S if moves else 0.0, pause_s=pause_s):
        fresh = _status(plane)
        services = list(fresh["services"])
        if fresh["last_pass_s"] is None and not late:
            continue  # nobody has looked yet
        for one in services[:LINES_MAX]:
            if one["name"] not in told and (late or settled(one)):
                told.add(one["name"])
                show_outcome(call.screen, one, call.command, width=width, began=body["at"])
                call.screen.flush()
        if late or all(one["name"] in told or settled(one) for one in services):
            break
    if len(services) > LINES_MAX:
        rest = services[LINES_MAX:]
        ready = sum(1 for one in rest if one["status"] == "up")
        call.progress(f"  and {len(rest)} more services, {ready} of them up:  {call.command('status')}")
    return services


def _rounds(plane: Plane, wanted: Event, *, within_s: float, pause_s: float) -> Iterator[bool]:
    """Looks to be taken; true says that it is the last one."""
    until = plane.clock.monotonic() + within_s
    while not wanted.is_set():
        late = plane.clock.monotonic() >= until
        yield late
        if late:
            return
        plane.clock.wait(wanted, pause_s)
