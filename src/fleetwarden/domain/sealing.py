"""What a seal over the ledger is made of: digests of rows, a Merkle tree over a range, and the chain of seals.

Pure arithmetic over values that stand in the ledger.  A row is digested where it is written and never chained there,
so that writers do not wait for each other; a range of rows is sealed afterwards, and only seals are chained.  The
verifier (`fleetwarden.ledger_verifier`) computes all of this again and shares no line with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import Micros, canonical_json, digest

__all__ = ["FORMAT", "Leaf", "Seal", "content_digest", "merkle_root", "sealed"]

FORMAT = 1
_LEAF, _NODE = b"\x00", b"\x01"  # a node can never be taken for a leaf


class Leaf(Record):
    """One row's place in the ledger: `position` counts from 1 without a gap, `ref` is the row's number in `kind`."""

    position: int
    kind: str
    ref: int
    digest: str


class Seal(Record):
    """A sealed range of positions, both ends included.  `previous` is the digest of the seal before, "" for the first.

    `digest` is that of all other fields and of the format.
    """

    number: int
    first: int
    last: int
    count: int
    root: str
    previous: str
    at: Micros
    digest: str


def content_digest(table: str, row: Mapping[str, int | str | None]) -> str:
    """The digest of a row's canonical content: its table and the columns that never change."""
    return digest({"row": row, "table": table})


def merkle_root(leaves: Sequence[Leaf]) -> str:
    """The root over leaves in their order; an odd one out is carried up as it is.  Raises ValueError without any."""
    if not leaves:
        raise ValueError("a seal covers one row at least")
    level = [_hash(_LEAF, canonical_json([one.position, one.kind, one.ref, one.digest])) for one in leaves]
    while len(level) > 1:
        pairs = [_hash(_NODE, left + right) for left, right in zip(level[::2], level[1::2], strict=False)]
        level = pairs if len(level) % 2 == 0 else [*pairs, level[-1]]
    return "sha256:" + level[0].hex()


def _hash(prefix: bytes, body: bytes) -> bytes:
    return hashlib.sha256(prefix + body).digest()


def sealed(leaves: Sequence[Leaf], before: Seal | None, at: Micros) -> Seal:
    """The seal over these leaves, behind `before`.  Its time never goes back.  Raises ValueError for a gap."""
    first = 1 if before is None else before.last + 1
    if [one.position for one in leaves] != list(range(first, first + len(leaves))):
        raise ValueError(f"the leaves of a seal are the positions from {first} on, without a gap")
    body = {
        "number": 1 if before is None else before.number + 1,
        "first": first,
        "last": first + len(leaves) - 1,
        "count": len(leaves),
        "root": merkle_root(leaves),
        "previous": "" if before is None else before.digest,
        "at": at if before is None else max(at, before.at),
    }
    return Seal(**body, digest=digest({"format": FORMAT, **body}))  # type: ignore[arg-type]
