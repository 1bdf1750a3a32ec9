"""The `scaling:` blocks of a backtest: the one that the files declare, and others to hold beside it.

Read by the rules of a plane, so that what is played here is what would be in force.  Reads files and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.adapters.files.documents import read_document, read_tree
from fleetwarden.adapters.files.signals import SIGNALS
from fleetwarden.domain import registry
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.fleet import Fleet, ScalingError
from fleetwarden.domain.located import Node, located
from fleetwarden.domain.located_values import close
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.signal_file import SignalsDocument, read_signals_file

__all__ = ["DECLARED", "alternative", "declared_block", "declared_signals"]

DECLARED = "declared"


def declared_block(registry_file: Path, override_file: Path | None, folder: Path, service: str) -> ScalingBlock | None:
    """The block of that service, with the override file laid over it; None if the service declares none.

    Raises Misconfigured for files or a block that cannot be used, and for a service that is not declared.
    """
    layer = read_tree(override_file) if override_file is not None and override_file.exists() else None
    fleet = registry.read_fleet(read_tree(registry_file), layer, str(folder.absolute()), "")
    if fleet.error:
        raise Misconfigured(fleet.error, fleet.problems)
    found = fleet.services.get(service)
    if found is None:
        own = [one for one in fleet.problems if service in fleet.rejected]
        raise Misconfigured(f"{registry_file} declares no service {service!r}{_near(service, fleet)}", own)
    if found.scaling_error is not None:
        raise _invalid(found.scaling_error, f"the scaling block of {service} cannot be used")
    return found.scaling


def _near(service: str, fleet: Fleet) -> str:
    scaled = sorted(name for name, one in fleet.services.items() if one.scaling is not None)
    return close(service, fleet.services) or (f": {', '.join(scaled[:5])} have a scaling block" if scaled else "")


def declared_signals(folder: Path, default_url: str) -> SignalsDocument:
    """`signals.yml` of the folder; an empty document where there is none.  Raises Misconfigured."""
    document = read_document(folder / SIGNALS, SIGNALS)
    if not document.exists:
        return SignalsDocument()
    return read_signals_file(document.tree(), digest=document.fingerprint, default_url=default_url)


def alternative(text: str, service: str, declared: ScalingBlock | None) -> tuple[str, ScalingBlock]:
    """One block to compare, with the name it goes by.

    `{cooldown_s: 60}` is laid over the declared block key by key, and `null` takes a key out of it.  Anything else is a
    file: a whole block, `scaling:` with one, or a registry that declares the service.  Raises Misconfigured.
    """
    if text.lstrip().startswith("{"):
        node = yaml_tree.parse(text, "--compare")
        if not node.mapping:
            raise Misconfigured(f"--compare {text}: a mapping such as {{cooldown_s: 60}} is needed")
        return _short(text), _read(_laid_over(node, declared), f"--compare {_short(text)}")
    path = Path(text)
    node = read_tree(path)
    inner = _inner(node, service)
    return path.name, _read(inner, f"{text} cannot be used")


def _inner(node: Node, service: str) -> Node:
    """The block within a file."""
    if not node.mapping:
        raise Misconfigured(f"{node.file} cannot be used", [Problem(node.file, node.line, "it is no mapping")])
    if (only := node.get("scaling")) is not None:
        return only
    services = node.get("services")
    if services is None:
        return node
    for one in services.items() if services.is_list else ():
        name = one.get("name") if one.mapping else None
        block = one.get("scaling") if one.mapping else None
        if name is not None and name.value == service:
            if block is None:
                raise Misconfigured(
                    f"{node.file} cannot be used",
                    [Problem(one.file, one.line, f"{service} has no scaling block there")],
                )
            return block
    raise Misconfigured(f"{node.file} declares no service {service!r}")


def _laid_over(node: Node, declared: ScalingBlock | None) -> Node:
    """The declared block with these keys instead of its own."""
    own: Mapping[str, object] = {} if declared is None else declared.raw
    fresh = {key.value: (key, value) for key, value in node.pairs()}
    kept = [(_text(key, node), _plain(value, node)) for key, value in own.items() if key not in fresh]
    pairs = (*kept, *(pair for pair in node.pairs() if pair[1].value is not None))
    return Node(tuple(pairs), node.file, node.line, mapping=True)


def _text(key: str, beside: Node) -> Node:
    return Node(key, beside.file, beside.line, text=key)


def _plain(value: object, beside: Node) -> Node:
    return located(value, beside.file, beside.line)


def _read(node: Node, what: str) -> ScalingBlock:
    block = read_block(node, on_kubernetes=True)
    if isinstance(block, ScalingError):
        raise _invalid(block, what)
    return block


def _invalid(error: ScalingError, what: str) -> Misconfigured:
    field = f"scaling.{error.field}: " if error.field else "scaling: "
    return Misconfigured(what, [Problem(error.file, error.line, f"{field}{error.reason}")])


def _short(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= 60 else f"{said[:57]}…"
