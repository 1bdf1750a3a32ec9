"""Hosts as network namespaces: a bridge with the database's address, and one cable (veth) to each host.

Names carry the process id of the test run, so that runs side by side do not meet.  Everything is removed at the end;
deleting a namespace takes its cable along.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["Network", "network"]


class Network:
    """`address`: where the database listens; `subnet`: the hosts.  `within`: what runs a command on a host."""

    def __init__(self, names: Sequence[str]) -> None:
        self._mark = f"{os.getpid() % 100_000:05d}"
        self._bridge = f"fwb{self._mark}"
        number = os.getpid() % 200 + 20
        self.address = f"10.213.{number}.1"
        self.subnet = f"10.213.{number}.0/24"
        self.names = list(names)
        self.within = {name: ["ip", "netns", "exec", self._space(name)] for name in names}
        self._prefix = f"10.213.{number}."

    def _space(self, name: str) -> str:
        return f"fw{self._mark}{name}"

    def _cable(self, name: str) -> str:
        return f"fw{self._mark}{name}v"

    def make(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for last, name in enumerate(self.names, 11):
            space, cable = self._space(name), self._cable(name)
            _ip("netns", "add", space)
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", cable, "master", self._bridge, "up")
            _ip("-n", space, "addr", "add", f"{self._prefix}{last}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "link", "set", "eth0", "up")

    def cut(self, name: str) -> None:
        """Pull the cable of a host: nothing arrives on either side, and nobody is told."""
        _ip("link", "set", self._cable(name), "down")

    def mend(self, name: str) -> None:
        _ip("link", "set", self._cable(name), "up")

    def remove(self) -> None:
        for name in self.names:
            _ip("link", "del", self._cable(name), must=False)
            _ip("netns", "del", self._space(name), must=False)
        _ip("link", "del", self._bridge, must=False)


@contextmanager
def network(names: Sequence[str]) -> Iterator[Network]:
    """A network with these hosts, for the length of the block."""
    made = Network(names)
    try:
        made.make()
        yield made
    finally:
        made.remove()


def _ip(*words: str, must: bool = True) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not must, f"ip {' '.join(words)}: {done.stderr}"
