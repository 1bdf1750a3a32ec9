"""What the value of a setting has to look like, one function a kind.  A ValueError says what is expected.

A secret's value stands in no message.
"""

from __future__ import annotations

import ipaddress
from typing import Protocol, TypeVar

from fleetwarden.domain.identifiers import name_problem
from fleetwarden.domain.process_block import host_problem

__all__ = [
    "ACTUATORS",
    "WEAK_TOKEN_CHARACTERS",
    "actuators",
    "fleet_name",
    "host",
    "long_enough",
    "lower",
    "networks",
    "store_url",
    "web_url",
    "words",
]

ACTUATORS = ("dryrun", "process")
LATER_ACTUATORS = ("docker", "k8s", "kubernetes")
WEAK_TOKEN_CHARACTERS = 16


class Hidden(Protocol):
    """A value that shows as asterisks unless it is asked for."""

    def get_secret_value(self) -> str: ...


Secret = TypeVar("Secret", bound=Hidden)


def actuators(value: object) -> object:
    """`process`, `dryrun`, or a comma list of substrates that may act."""
    if not isinstance(value, str):
        return value
    words = [word.strip().lower() for word in value.split(",")]
    for word in words:
        if word in LATER_ACTUATORS:
            raise ValueError(f"{word} is not supported yet; known now: {', '.join(ACTUATORS)}")
        if word not in ACTUATORS and word not in (plugged := _plugged()):
            raise ValueError(f"{word!r} is no actuator; known: {', '.join((*ACTUATORS, *plugged, *LATER_ACTUATORS))}")
    if "dryrun" in words and len(set(words)) > 1:
        raise ValueError("dryrun changes nothing and stands alone: leave it out to let the others act")
    return tuple(dict.fromkeys(words))


def _plugged() -> tuple[str, ...]:
    """Actuators that are installed beside us."""
    from fleetwarden.app import plugins  # asked for only where a word is none of ours

    return plugins.installed(plugins.ACTUATORS)


def words(value: object) -> object:
    """A comma list of names; an empty text is none."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(word for one in value.split(",") if (word := one.strip())))


def lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def store_url(value: Secret) -> Secret:
    scheme, found, rest = value.get_secret_value().partition("://")
    if not found or scheme not in ("sqlite", "postgresql") or not rest.strip("/"):
        raise ValueError("neither sqlite:///PATH nor postgresql://USER@HOST/DATABASE, nor the path of a file")
    if scheme == "sqlite" and not rest.startswith("/"):
        raise ValueError("a file needs three slashes: sqlite:///PATH")
    if scheme == "sqlite" and rest.endswith(":memory:"):
        raise ValueError("a store in memory forgets what was done: name a file")
    return value


def web_url(value: str) -> str:
    if not value.startswith(("http://", "https://")) or any(character.isspace() for character in value):
        raise ValueError("no URL that begins with http:// or https://")
    return value


def fleet_name(value: str) -> str:
    if problem := name_problem(value):
        raise ValueError(problem)
    return value


def host(value: str) -> str:
    if problem := host_problem(value):
        raise ValueError(problem)
    return value


def networks(value: object) -> object:
    """A comma list of addresses and networks: `10.0.0.2, 172.28.0.0/24`."""
    if not isinstance(value, str):
        return value
    words = [word.strip() for word in value.split(",") if word.strip()]
    for word in words:
        try:
            network = ipaddress.ip_network(word, strict=False)
        except ValueError:
            raise ValueError(f"{word!r} is no address and no network, such as 10.0.0.2 or 172.28.0.0/24") from None
        if network.prefixlen == 0:
            raise ValueError(f"{word} is everybody: name the proxy")
    return tuple(dict.fromkeys(words))


def long_enough(token: str) -> str:
    """A token that cannot be guessed."""
    if len(token) < WEAK_TOKEN_CHARACTERS:
        raise ValueError(f"has fewer than {WEAK_TOKEN_CHARACTERS} characters: it can be guessed")
    return token
