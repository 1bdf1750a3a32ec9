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
from fleetwarden.controllers.pushed_signals import PushedSignals
from fleetwarden.domain.errors import Retryable, StoreUnavailable
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.signal_file import PUSHED, SignalsDocument
from fleetwarden.domain.signal_query import SignalFault
from fleetwarden.domain.signals import Definition, NoSample, Pair, Reading, SampleFault
from fleetwarden.ports.signals import ScalingSignalProvider, SignalProvider
from fleetwarden.ports.stores import Store

__all__ = ["DefinedSignals", "SignalSources", "build"]


class DefinedSignals:
    """Answers by the document in force: each definition from its own source."""

    name = "signals.yml"

    def __init__(self, document: Callable[[], SignalsDocument], folder: Path, store: Store) -> None:
        self._document = document
        self._folder = folder
        self._pushed = PushedSignals(store, monotonic=time.monotonic, caps=lambda: document().caps)
        self._lock = Lock()
        self._known: dict[str, PrometheusSource] = {}
        self._digest = ""

    def signal_values(self, pairs: Sequence[Pair], at: Micros) -> Mapping[Pair, Reading]:  # noqa: ARG002 -- the port's
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
        servers = [(self._source(document, name), asked) for name, asked in by_source.items() if name != PUSHED]
        failed: list[str] = []
        for found, why in read_all(servers, within_s=document.caps.timeout_s):
            answers |= found
            failed += [why] if why else []
        if PUSHED in by_source:
            found, why = self._read_pushed(by_source[PUSHED])
            answers |= found
            failed += [why] if why else []
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
                self._known[name] = PrometheusSource(document.sources[name], self._folder)
            return self._known[name]


class SignalSources:
    """What was built."""

    def __init__(
        self,
        provider: ScalingSignalProvider,
        declared: Callable[[str, str], Definition | None],
        file: SignalsFile,
        authenticator: KeyedAuthenticator,
        close: Callable[[], None],
    ) -> None:
        self.provider = provider
        self.declared = declared
        self.file = file
        self.authenticator = authenticator
        self.close = close


def build(settings: Settings, store: Store, injected: SignalProvider | None) -> SignalSources:
    """The provider of this plane.  Raises Misconfigured for an injected one that cannot be read safely."""
    url = "" if settings.scaling_prometheus_url is None else str(settings.scaling_prometheus_url)
    file = SignalsFile(settings.config_dir, default_url=url)
    authenticator = KeyedAuthenticator(file.current, settings.config_dir)

    def declared(service: str, signal: str) -> Definition | None:
        return file.current().definition(service, signal)

    if injected is not None:  # what the file declares holds for its samples too
        return SignalSources(as_provider(injected, time.monotonic), declared, file, authenticator, lambda: None)
    defined = DefinedSignals(file.current, settings.config_dir, store)
    return SignalSources(defined, declared, file, authenticator, defined.close)
