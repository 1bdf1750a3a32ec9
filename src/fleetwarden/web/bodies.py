"""Bodies, read strictly: bounded while they arrive, real JSON, closed fields, right types.  Anything else is a 400.

Python's own JSON reader takes more than JSON does (NaN, doubled keys, lone surrogates, numbers of any size); whatever
no other reader would take, or no database would keep, is refused here, before anything has happened.  A message names
the field and never repeats its value.
"""

from __future__ import annotations

import asyncio
import json
import math
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect

from fleetwarden.domain.errors import Problem
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.web.plane import serving
from fleetwarden.web.problems import BodyTimeout, BodyTooLarge, Malformed
from fleetwarden.web.texts import problem_of_text

__all__ = ["ClosedBody", "body_of", "documented", "form_of", "json_body", "parsed_json", "validated"]

DEPTH_MAX = 32
WHOLE_MAX = 2**63 - 1
FORM_FIELDS_MAX = 16

B = TypeVar("B", bound="ClosedBody")


class ClosedBody(BaseModel):
    """Base of request bodies: unknown fields are refused, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


def json_body(model: type[B]) -> Any:
    """A dependency that reads the request's body as `model`.  Raises Malformed, BodyTooLarge, BodyTimeout."""

    async def read(request: Request) -> B:
        return validated(model, parsed_json(await _body_of(request)))

    return Depends(read)


def documented(model: type[ClosedBody]) -> dict[str, Any]:
    """What OpenAPI has to say of a body that a route reads by itself."""
    schema = model.model_json_schema()
    schema = _inlined(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _inlined(schema: Any, parts: dict[str, Any]) -> Any:
    """The schema with its parts in their places: a reference inside a body's schema would point to nowhere."""
    if isinstance(schema, list):
        return [_inlined(one, parts) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(parts[str(schema["$ref"]).rsplit("/", 1)[-1]], parts)
    return {name: _inlined(one, parts) for name, one in schema.items()}


def parsed_json(body: bytes) -> JsonValue:
    """The value of a JSON text.  Raises Malformed."""
    if not body.strip():
        raise Malformed("the body is empty, a JSON object is needed")
    try:
        value = json.loads(body.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise Malformed(f"the body is not UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise Malformed(
            f"the body is not JSON: {error.msg} (line {error.lineno}, column {error.colno})",
            hint="send a JSON object as UTF-8",
        ) from error
    except RecursionError as error:
        raise Malformed(f"the body is nested deeper than {DEPTH_MAX} levels") from error
    except ValueError as error:  # a whole number of thousands of digits
        raise Malformed("the body holds a number that is too large") from error
    _refuse_unkeepable(value)
    return value


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Malformed("a field stands twice in one object")
    return found


def _no_number(word: str) -> NoReturn:
    raise Malformed(f"{word} is no JSON number")


def _refuse_unkeepable(value: JsonValue) -> None:
    """Raise Malformed for depth, numbers and text that could not be kept as they are."""
    todo: list[tuple[JsonValue, int]] = [(value, 1)]
    while todo:
        one, depth = todo.pop()
        if depth > DEPTH_MAX:
            raise Malformed(f"the body is nested deeper than {DEPTH_MAX} levels")
        if isinstance(one, dict):
            todo += [(item, depth + 1) for item in one.values()]
            todo += [(key, depth) for key in one]
        elif isinstance(one, list):
            todo += [(item, depth + 1) for item in one]
        elif problem := _problem_of_scalar(one):
            raise Malformed(problem)


def _problem_of_scalar(one: JsonValue) -> str | None:
    if isinstance(one, str):
        return problem_of_text(one)
    if isinstance(one, float) and not math.isfinite(one):
        return "the body holds a number that is too large"
    if isinstance(one, int) and abs(one) > WHOLE_MAX:
        return "the body holds a whole number beyond 64 bits"
    return None


def validated(model: type[B], value: JsonValue) -> B:
    """`value` as the model.  Raises Malformed naming each field that is wrong."""
    if not isinstance(value, dict):
        raise Malformed("the body is no JSON object")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        findings = [_finding(model, one["type"], one["loc"], one["msg"]) for one in error.errors(include_input=False)]
        told = "; ".join(f"{one.file}: {one.reason}" for one in findings)
        raise Malformed(f"the body cannot be used: {told}", findings) from error


def _finding(model: type[ClosedBody], kind: str, loc: tuple[int | str, ...], message: str) -> Problem:
    where = ".".join(map(str, loc))[:100] or "body"
    if kind == "missing":
        return Problem(where, 0, "is missing")
    if kind == "extra_forbidden":
        known = [field.alias or name for name, field in model.model_fields.items()]
        close = get_close_matches(where, known, n=1)
        return Problem(where, 0, "unknown field" + (f" (did you mean {close[0]!r}?)" if close else ""))
    return Problem(where, 0, message.removeprefix("Value error, "))


async def form_of(request: Request) -> dict[str, str]:
    """The fields of an HTML form.  Raises Malformed, BodyTooLarge, BodyTimeout."""
    try:
        text = (await _body_of(request)).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX, errors="strict")
    except ValueError as error:
        raise Malformed("the form cannot be read") from error
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Malformed("a field stands twice in the form")
    for value in found.values():
        if problem := problem_of_text(value):
            raise Malformed(problem)
    return found


async def _body_of(request: Request) -> bytes:
    return await body_of(request, serving(request).body_limit_bytes)


async def body_of(request: Request, limit: int) -> bytes:
    """The whole body, refused as soon as it is known to be over the limit.  Raises as `json_body` does."""
    limits = serving(request)
    refusal = BodyTooLarge(f"the body is over {limit} bytes", hint=f"at most {limit} bytes")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > limit):
        raise refusal
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            return await _collected(request, limit, refusal)
    except ClientDisconnect as error:
        raise Malformed("the caller went away before the body was there") from error
    except TimeoutError as error:
        raise BodyTimeout(f"the body did not arrive within {limits.body_timeout_s:.0f} s") from error


async def _collected(request: Request, limit: int, refusal: BodyTooLarge) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise refusal
        parts.append(part)
    return b"".join(parts)
