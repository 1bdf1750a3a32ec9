"""`backtest`: a recorded load played against a service's scaling block, and against others beside it.

Reads files, or a Prometheus; no plane is asked and nothing is changed but the page that --html names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetwarden.cli.calling import Call, unconnected
from fleetwarden.cli.options import Duration
from fleetwarden.cli.times import parsed
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import SECOND, Micros, instant

if TYPE_CHECKING:
    from fleetwarden.domain.scaling_block import ScalingBlock
    from fleetwarden.domain.signal_file import SignalsDocument
    from fleetwarden.domain.signals import Aggregation
    from fleetwarden.lab.recordings import Recording

__all__ = ["backtest"]

STEP_S = 15.0


ServiceArgument = Annotated[str, typer.Argument(metavar="SERVICE", help="A service of the configuration folder.")]
SignalsOption = Annotated[
    Path | None, typer.Option("--signals", metavar="FILE.csv", help="Recorded signals: time,value.")
]
PrometheusOption = Annotated[
    str | None, typer.Option("--prometheus", metavar="URL", help="Or a server, or a source of signals.yml.")
]
QueryOption = Annotated[
    list[str] | None,
    typer.Option("--query", metavar="Q", help="Instead of the declared one; SIGNAL=Q where there are several."),
]
SpanOption = Annotated[
    float | None, typer.Option("--range", metavar="SPAN", parser=Duration, help="So long until now: 7d.")
]
StartOption = Annotated[str | None, typer.Option("--start", metavar="TIME", help="Or from 2026-11-01T00:00:00Z.")]
EndOption = Annotated[str | None, typer.Option("--end", metavar="TIME", help="Until then.  Default: now.")]
StepOption = Annotated[
    float | None, typer.Option("--step", metavar="SPAN", parser=Duration, help="Between samples.  Default: 15s.")
]
CompareOption = Annotated[
    list[str] | None,
    typer.Option("--compare", metavar="FILE|{…}", help="A block to hold beside it, or changes: {cooldown_s: 60}."),
]
EveryOption = Annotated[float | None, typer.Option("--every", metavar="SPAN", parser=Duration, help="A tick so often.")]
ReplicasOption = Annotated[int | None, typer.Option("--replicas", metavar="N", min=0, max=100000, help="At the start.")]
ReadyAfterOption = Annotated[
    float | None,
    typer.Option("--ready-after", metavar="SPAN", parser=Duration, help="What a new replica takes to be ready."),
]
RecordedReplicasOption = Annotated[
    int | None, typer.Option("--recorded-replicas", metavar="N", min=1, max=100000, help="Behind recorded averages.")
]
PageOption = Annotated[Path | None, typer.Option("--html", metavar="OUT", help="Write a page with a picture.")]


class _Asked:
    """Where the load comes from, as it was typed."""

    def __init__(
        self,
        csv: Path | None,
        prometheus: str | None,
        queries: Sequence[str],
        span: float | None,
        start: str | None,
        end: str | None,
        step: float | None,
    ) -> None:
        self.csv, self.prometheus, self.queries = csv, prometheus, queries
        self.span, self.start, self.end, self.step = span, start, end, step
        if (csv is None) == (prometheus is None):
            raise Misconfigured("one source is needed", hint="--signals FILE.csv, or --prometheus URL --range 7d")
        if csv is not None:
            beside = {"--query": queries, "--range": span, "--start": start, "--end": end, "--step": step}
            for name, given in beside.items():
                if given:
                    raise Misconfigured(f"{name} goes with --prometheus; a file is replayed whole")
        elif (span is None) == (start is None):
            raise Misconfigured("one range is needed", hint="--range 7d, or --start 2026-11-01T00:00:00Z [--end …]")
        elif span is not None and end is not None:
            raise Misconfigured("--range ends now; give --start beside --end")


@unconnected
def backtest(
    call: Call,
    service: ServiceArgument,
    signals: SignalsOption = None,
    prometheus: PrometheusOption = None,
    query: QueryOption = None,
    span: SpanOption = None,
    start: StartOption = None,
    end: EndOption = None,
    step: StepOption = None,
    compare: CompareOption = None,
    every: EveryOption = None,
    replicas: ReplicasOption = None,
    ready_after: ReadyAfterOption = None,
    recorded_replicas: RecordedReplicasOption = None,
    page: PageOption = None,
) -> None:
    """Play a recorded load against the scaling block: replicas, actions, what was short and what was idle."""
    from fleetwarden.cli.backtest_screen import show
    from fleetwarden.lab.comparison import compare as played
    from fleetwarden.lab.comparison import wanted_signals
    from fleetwarden.lab.recordings import at_ticks
    from fleetwarden.lab.report import page as written

    asked = _Asked(signals, prometheus, query or (), span, start, end, step)
    if page is not None and not page.absolute().parent.is_dir():
        raise Misconfigured(f"--html {page}: its folder does not exist")
    blocks = _blocks(call, service, compare or ())
    names = wanted_signals(blocks)
    document = _document(call)
    recording, notes = _recording(call, asked, service, names, document)
    max_age_s = min((one.max_age_s for name in names if (one := document.definition(service, name))), default=120.0)
    ticks = at_ticks(recording, every_us=None if every is None else round(every * SECOND), max_age_s=max_age_s)
    found = played(
        service,
        recording.name,
        ticks,
        blocks,
        _aggregations(service, names, document),
        replicas=replicas,
        ready_after_s=ready_after or 0.0,
        recorded_replicas=recorded_replicas,
        notes=notes,
    )
    if page is not None:
        _write(page, written(found))
    if call.as_json:
        call.show_json(found.plain())
        return
    show(call.screen, found)
    if page is not None:
        call.screen.line(f"a page with a picture: {page}", indent=2)
    elif call.screen.width is not None:
        call.screen.line("--html FILE writes a page with a picture", indent=2)


def _blocks(call: Call, service: str, compared: Sequence[str]) -> list[tuple[str, ScalingBlock]]:
    """The declared block first, and those to hold beside it."""
    from fleetwarden.lab.blocks import DECLARED, alternative, declared_block

    settings = call.settings
    override = settings.fleet_desired_state_path or settings.config_dir / "desired-state.yml"
    declared = declared_block(settings.fleet_registry_path, override, settings.config_dir, service)
    blocks = [] if declared is None else [(DECLARED, declared)]
    blocks += [alternative(one, service, declared) for one in compared]
    if not blocks:
        raise Misconfigured(
            f"{service} has no scaling block",
            hint="give it one, or try one: --compare '{min: 1, max: 6, signal: jobs_waiting, target: 100}'",
        )
    return blocks


def _document(call: Call) -> SignalsDocument:
    from fleetwarden.lab.blocks import declared_signals

    settings = call.settings
    url = "" if settings.scaling_prometheus_url is None else str(settings.scaling_prometheus_url)
    return declared_signals(settings.config_dir, url)


def _aggregations(service: str, names: Sequence[str], document: SignalsDocument) -> dict[str, Aggregation]:
    """As declared; what nobody declared is a total, as `recommend` has it."""
    from fleetwarden.domain.signals import Aggregation

    found = {name: document.definition(service, name) for name in names}
    return {name: Aggregation.FLEET_TOTAL if one is None else one.aggregation for name, one in found.items()}


def _recording(
    call: Call, asked: _Asked, service: str, names: Sequence[str], document: SignalsDocument
) -> tuple[Recording, list[str]]:
    if asked.csv is not None:
        from fleetwarden.lab.csv_recordings import read_csv

        return read_csv(asked.csv, names), []
    from fleetwarden.app.running import system_clock
    from fleetwarden.lab.prometheus_recordings import Range, definitions_for, read_range, source_of

    now = system_clock().now()
    end = now if asked.end is None else _moment(asked.end, "--end")
    start = end - round((asked.span or 0) * SECOND) if asked.start is None else _moment(asked.start, "--start")
    step = STEP_S if asked.step is None else asked.step
    assert asked.prometheus is not None
    source = source_of(asked.prometheus, document, call.settings.config_dir)
    definitions = definitions_for(service, names, _queries(asked.queries, names), document)
    tenth = [0]

    def progress(share: float) -> None:
        if share < 1 and int(share * 10) > tenth[0]:
            tenth[0] = int(share * 10)
            call.progress(f"read {share:.0%} of {source.name}")

    asked_range = Range(start=start, end=end, step_us=max(1, round(step * SECOND)))
    return read_range(source, definitions, service, asked_range, progress=progress)


def _queries(given: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """`Q` where there is one signal, `SIGNAL=Q` where there are several."""
    found: dict[str, str] = {}
    for one in given:
        name, equals, query = one.partition("=")
        if not equals or name.strip() not in names:
            if len(names) != 1:
                raise Misconfigured(f"--query {one!r} does not say which signal", hint=f"{names[0]}=…, {names[1]}=…")
            name, query = names[0], one
        if name.strip() in found:
            raise Misconfigured(f"--query is given twice for {name.strip()}")
        if not query.strip():
            raise Misconfigured(f"--query for {name.strip()} is empty")
        found[name.strip()] = query.strip()
    return found


def _moment(text: str, option: str) -> Micros:
    """A time with its zone, or seconds since 1970.  Raises Misconfigured."""
    said = text.strip()
    when = parsed(said.replace("z", "Z"))
    if when is not None:
        return instant(when)
    if re.fullmatch(r"[0-9]{1,11}(?:\.[0-9]{1,6})?", said, re.ASCII):
        return round(float(said) * SECOND)
    raise Misconfigured(
        f"{option} {text!r} is no time", hint="with its zone: 2026-11-01T00:00:00Z, or seconds since 1970"
    )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Misconfigured(f"--html {path} cannot be written: {error.strerror or error}") from error
