"""Taking secrets out of what a program wrote, before it is kept.

Bounded patterns over single lines: addresses with a password in them, Authorization headers, words that are named like
a secret with a value beside them, and tokens that can be told by their form.  What is masked is gone for good.  It
cannot know every secret that a program may print; it must never make a line longer without need, or fail.
"""

from __future__ import annotations

import re

__all__ = ["MASK", "names_secret", "scrubbed"]

MASK = "***"
_LINE_MAX = 4096  # characters that are looked at and kept of one line
_NAMED = (
    r"(?:[A-Za-z0-9]+[_.-])*"
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)"
)
_NAMES = ("pass", "pwd", "secret", "token", "key", "credential")
# What to look for first (in lower case), the pattern, and what takes its place.
_RULES: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    # scheme://user:password@host, scheme://token@host
    (("://",), re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)([^\s/@:]{0,256}):[^\s/]{1,1024}@"), rf"\1\2:{MASK}@"),
    (("://",), re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)[^\s/@:]{8,512}@"), rf"\1{MASK}@"),
    # headers, up to the end of a quoted value or of the line
    (
        ("authorization",),
        re.compile(r"(?i)\b((?:proxy-)?authorization[\"']?\s{0,8}[:=]\s{0,8}[\"']?)[^\"'\r\n]{1,4096}"),
        rf"\1{MASK}",
    ),
    (
        ("cookie",),
        re.compile(r"(?i)\b((?:set-)?cookie[\"']?\s{0,8}[:=]\s{0,8}[\"']?)[^\"'\r\n]{1,4096}"),
        rf"\1{MASK}",
    ),
    (("bearer", "basic"), re.compile(r"(?i)\b(bearer|basic)\s{1,8}[A-Za-z0-9._~+/=-]{8,4096}"), rf"\1 {MASK}"),
    # NAME=value, "name": "value", --name value
    (_NAMES, re.compile(rf"(?i)\b({_NAMED})([\"']?\s{{0,8}}[:=]\s{{0,8}})\"[^\"]{{0,4096}}\""), rf'\1\2"{MASK}"'),
    (_NAMES, re.compile(rf"(?i)\b({_NAMED})([\"']?\s{{0,8}}[:=]\s{{0,8}})'[^']{{0,4096}}'"), rf"\1\2'{MASK}'"),
    (
        _NAMES,
        re.compile(rf"(?i)\b({_NAMED})([\"']?\s{{0,8}}[:=]\s{{0,8}})(?![\"'\s])[^\s,;&\"']{{1,4096}}"),
        rf"\1\2{MASK}",
    ),
    (_NAMES, re.compile(rf"(?i)(--{_NAMED})\s{{1,8}}[^\s-][^\s]{{0,4096}}"), rf"\1 {MASK}"),
    # by their form: our own tokens, JSON web tokens, well-known prefixes, keys
    (("fw_",), re.compile(r"\bfw_[A-Za-z0-9_-]{8,512}"), f"fw_{MASK}"),
    (("eyj",), re.compile(r"\beyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{4,4096}\.[A-Za-z0-9_-]{0,4096}"), MASK),
    (
        ("gh", "glpat", "xox", "sk-", "sk_", "akia"),
        re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-|sk_live_|AKIA)[A-Za-z0-9_-]{10,512}"),
        MASK,
    ),
    (("private key",), re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.{0,4096}"), MASK),
)


_SECRET_NAME = re.compile(rf"(?i)(?:.*[^A-Za-z])?(?:{_NAMED}|authorization|cookie)(?:[^A-Za-z].*)?", re.DOTALL)


def names_secret(name: str) -> bool:
    """Whether a field of that name holds a secret: `api_key`, `Token`, `db.password`, `adminPassword`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:256])
    return _SECRET_NAME.fullmatch(spaced) is not None


def scrubbed(line: str) -> str:
    """The line without what looks like a secret and without control characters, at most 4,096 characters of it."""
    if len(line) > _LINE_MAX:
        line = line[:_LINE_MAX] + "…"
    low = line.lower()
    for hints, pattern, masked in _RULES:
        if any(hint in low for hint in hints):
            line = pattern.sub(masked, line)
    if line.isprintable():
        return line
    return "".join(one if one == "\t" or one.isprintable() else "�" for one in line)
