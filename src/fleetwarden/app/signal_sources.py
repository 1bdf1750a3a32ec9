"""Which provider answers for scaling signals, built from what was injected, `signals.yml` and the settings.

An injected provider answers alone.  Else each signal has exactly one source, the one that its definition names, and a
source that fails is never replaced by another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from fleetwarden.adapters.files.signals import SignalsFile
from fleetwarden.adapters.signal_sources.attestation import KeyedAuthenticator
from fleetwarden.adapters.signal_sources.one_by_one import as_provider
from fleetwarden.adapters.signal_sources.prometheus import PrometheusSource, read_all
from fleetwarden.app.settings import Settings
from fleetwarden.controllers.local_gauges import QueueGauges
from fleetwarden.controllers.pushed_signals import PushedSignals
from fleetwarden.domain.errors import Retryable, StoreUnavailable
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.shipped_signals import shipped_signals, with_shipped
from fleetwarden.domain.signal_file import LOCAL, PUSHED, SignalsDocument
from fleetwarden.domain.signal_query import SignalFault
from fleetwarden.domain.signals import Definition, NoSample, Pair, Reading, SampleFault
from fleetwarden.ports.signals import ScalingSignalProvider, SignalProvider
from fleetwarden.ports.stores import Store

__all__ = ["DefinedSignals", "SignalSources", "build"]


OWN = (PUSHED, LOCAL)  # sources that no server answers for


class DefinedSignals:
    """Answers by the document in force: each definition from its own source."""

    name = "signals.yml"

    def __init__(
        self, document: Callable[[], SignalsDocument], folder: Path, store: Store, gauges: QueueGauges | None = None
    ) -> None:
        self._document = document
        self._folder = folder
        self._gauges = gauges
        self._pushed = PushedSignals(store, monotonic=time.monotonic, caps=lambda: document().caps)
        self._lock = Lock()
        self._known: dict[str, PrometheusSource] = {}
        self._digest = ""

    def signal_values(self, pairs: Sequence[Pair], at: Micros) -> Mapping[Pair, Reading]:
        """See ScalingSignalProvider.  Raises Retryable only if every source that was asked failed."""
        document = self._document()
        by_source: dict[str, dict[Pair, Definition]] = {}
        answers: dict[Pair, Reading] = {}
        for pair in pairs:
            definition = document.definition(pair.service, pair.signal)
            if definition is None:
                answers[pair] = NoSample(
                    service=pair.service,
                    signal=pair.signal,
                    fault=SampleFault.UNDEFINED,
                    reason=f"signals.yml does not declare {pair.signal} for {pair.service}",
                )
            else:
                by_source.setdefault(definition.source, {})[pair] = definition
        servers = [(self._source(document, name), asked) for name, asked in by_source.items() if name not in OWN]
        failed: list[str] = []
        for found, why in read_all(servers, within_s=document.caps.timeout_s):
            answers |= found
            failed += [why] if why else []
        if PUSHED in by_source:
            found, why = self._read_pushed(by_source[PUSHED])
            answers |= found
            failed += [why] if why else []
        if LOCAL in by_source and self._gauges is not None:
            answers.update(self._gauges.signal_values(list(by_source[LOCAL]), at))
        if failed and len(failed) == len(by_source):
            raise Retryable("; ".join(failed))
        return answers

    def _read_pushed(self, pairs: Mapping[Pair, Definition]) -> tuple[dict[Pair, Reading], str]:
        """The answers, and why there are none.  Raises StoreUnavailable: without the store nothing goes on at all."""
        try:
            return self._pushed.read(pairs), ""
        except StoreUnavailable:
            raise
        except Retryable as error:
            fault = SampleFault.TIMED_OUT if error.code == SignalFault.TIMED_OUT else SampleFault.SOURCE_FAILED
            none: dict[Pair, Reading] = {
                pair: NoSample(
                    service=pair.service, signal=pair.signal, fault=fault, reason=error.message, source=PUSHED
                )
                for pair in pairs
            }
            return none, error.message

    def close(self) -> None:
        """Let connections go."""
        with self._lock:
            known, self._known = list(self._known.values()), {}
        for one in known:
            one.close()

    def _source(self, document: SignalsDocument, name: str) -> PrometheusSource:
        """The server of that name; made anew when the document has changed."""
        with self._lock:
            if self._digest != document.digest:
                old, self._known, self._digest = list(self._known.values()), {}, document.digest
                for one in old:
                    one.close()
            if name not in self._known:
                spec, among = document.sources[name], len(document.sources)
                self._known[name] = PrometheusSource(spec, self._folder, among=among)
            return self._known[name]


class SignalSources:
    """What was built.  `document`: what is in force, the shipped definitions included."""

    def __init__(
        self,
        provider: ScalingSignalProvider,
        document: Callable[[], SignalsDocument],
        file: SignalsFile,
        authenticator: KeyedAuthenticator,
        close: Callable[[], None],
    ) -> None:
        self.provider = provider
        self.document = document
        self.file = file
        self.authenticator = authenticator
        self.close = close

    def declared(self, service: str, signal: str) -> Definition | None:
        """What that signal of that service is declared as."""
        return self.document().definition(service, signal)


def build(settings: Settings, store: Store, injected: SignalProvider | None) -> SignalSources:
    """The provider of this plane.  Raises Misconfigured for an injected one that cannot be read safely."""
    url = "" if settings.scaling_prometheus_url is None else str(settings.scaling_prometheus_url)
    file = SignalsFile(settings.config_dir, default_url=url)
    authenticator = KeyedAuthenticator(file.current, settings.config_dir)
    if injected is not None:  # what the file declares holds for its samples too
        provider = as_provider(injected, time.monotonic)
        return SignalSources(provider, file.current, file, authenticator, lambda: None)
    worker = "" if url else settings.fleet_worker_service or ""
    gauges = QueueGauges(store, worker, shipped_signals(worker)) if worker else None
    known = [(file.current(), with_shipped(file.current(), worker))]  # it is asked for once a pair

    def document() -> SignalsDocument:
        current = file.current()
        of, shipped = known[0]
        if of is not current:
            shipped = with_shipped(current, worker)
            known[0] = (current, shipped)
        return shipped

    defined = DefinedSignals(document, settings.config_dir, store, gauges)
    return SignalSources(defined, document, file, authenticator, defined.close)
