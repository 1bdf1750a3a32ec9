"""Names and ids in addresses and bodies, as the OpenAPI document describes them.

The patterns of ids only describe: what reads an id says better what is wrong with it, and takes a little more (`d-12`,
blanks around it).  So does that of names, where a name is looked up among those that there are; `KeptName` is for a
service that may be gone, and is held to the pattern.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from pydantic import Field

__all__ = ["NAME_PATTERN", "ActionId", "JobId", "KeptName", "Name", "id_pattern", "short_id"]

NAME_PATTERN = "^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"


def id_pattern(*prefixes: str) -> str:
    """What an id with one of these prefixes, or without any, looks like."""
    return f"^({'|'.join(prefixes)})?[0-9]{{1,18}}$"


def short_id(prefix: str) -> Any:
    """A printed id in an address: `D-12`, or its number."""
    pattern = id_pattern(f"{prefix}-", *(("action_approval:",) if prefix == "A" else ()))
    return Path(json_schema_extra={"pattern": pattern}, examples=[f"{prefix}-12"])


Name = Annotated[str, Path(json_schema_extra={"pattern": NAME_PATTERN})]
KeptName = Annotated[str, Path(pattern=NAME_PATTERN)]
ActionId = Annotated[str, short_id("X")]
JobId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        examples=["action_approval:17"],
        json_schema_extra={"pattern": id_pattern("action_approval:", "A-")},
    ),
]
