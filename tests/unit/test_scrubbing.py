"""Secrets in what programs write."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.scrubbing import MASK, scrubbed

SECRET = "s3cr3t-Value_42"


@pytest.mark.req("ACT-6")
@pytest.mark.parametrize(
    "line",
    [
        "connecting to postgresql://app:s3cr3t-Value_42@db:5432/app",
        "amqp://:s3cr3t-Value_42@queue",
        "GET https://s3cr3t-Value_42@example.org/feed",
        "Authorization: Bearer s3cr3t-Value_42",
        "> authorization: Basic s3cr3t-Value_42==",
        '{"Authorization": "Token s3cr3t-Value_42"}',
        "proxy-authorization: Digest username=x, response=s3cr3t-Value_42",
        "Cookie: session=s3cr3t-Value_42; theme=dark",
        "password=s3cr3t-Value_42",
        "DB_PASSWORD: s3cr3t-Value_42",
        'client_secret = "s3cr3t-Value_42"',
        "{'api_key': 's3cr3t-Value_42 with blanks'}",
        "--token s3cr3t-Value_42 --verbose",
        "aws_secret_access_key=s3cr3t-Value_42",
        "https://example.org/?access_token=s3cr3t-Value_42&page=2",
        "sent Bearer s3cr3t-Value_42 along",
        "fw_s3cr3t-Value_42",
        "ghp_s3cr3t-Value_42aaaaaaaa",
        "eyJhbGciOiJIUzI1NiJ9.s3cr3t-Value_42.abc",
        "-----BEGIN RSA PRIVATE KEY-----s3cr3t-Value_42",
    ],
)
def test_what_looks_like_a_secret_is_masked(line: str) -> None:
    clean = scrubbed(line)
    assert SECRET not in clean
    assert MASK in clean


@pytest.mark.req("ACT-6")
@pytest.mark.parametrize(
    "line",
    [
        "listening on http://127.0.0.1:9100/healthz",
        "GET /tokens 200 in 3 ms",
        "the password was wrong",
        "job 17 done by worker@host",
        "Traceback (most recent call last):",
        '  File "/srv/app.py", line 3, in main',
    ],
)
def test_what_does_not_is_left_as_it_is(line: str) -> None:
    assert scrubbed(line) == line


def test_what_surrounds_a_secret_stays_readable() -> None:
    assert scrubbed("dial postgresql://app:x@db:5432 failed") == f"dial postgresql://app:{MASK}@db:5432 failed"
    assert scrubbed("user=ada password=x retries=3") == f"user=ada password={MASK} retries=3"


def test_control_characters_and_long_lines_are_tamed() -> None:
    assert scrubbed("\x1b[31mred\x00") == "�[31mred�"
    assert len(scrubbed("x" * 100_000)) <= 4097


@given(st.text(max_size=300))
def test_any_text_is_survived_and_is_the_same_when_cleaned_twice(line: str) -> None:
    once = scrubbed(line)
    assert scrubbed(once) == once
    assert "\0" not in once


def test_no_line_takes_long() -> None:
    """Patterns are bounded: what is made to be slow is not.  The bound is generous, the fault would be minutes."""
    began = time.process_time()
    for hostile in ("a_" * 2048, "password" * 512, "http://" * 600, "authorization:" * 300, '"token":"' * 400):
        scrubbed(hostile)
    assert time.process_time() - began < 30
