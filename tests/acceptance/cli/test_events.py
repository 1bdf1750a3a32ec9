"""Events as people meet them at a terminal."""

from __future__ import annotations

import pytest

from tests.acceptance.cli.world import World, eventually


@pytest.mark.req("EVT-1", "EVT-4", "RUN-5")
def test_events_are_sent_listed_and_shown(world: World) -> None:
    world.up(until="Try:")
    assert world.run("events").lines == ["no event on record"]
    sent = world.run("events", "send", "--service", "web", "--name", "ServiceDown", "--label", "zone=a")
    assert sent.code == 0, sent.err
    assert sent.lines[0] == "kept: 1 new, 0 known already"
    assert "E-1  critical  web, step W-" in sent.lines[1]
    told = world.json("events", "send", "--shape", "uptime-kuma", "--service", "web", "--json")
    assert (told["accepted"], told["events"][0]["source"], told["events"][0]["service"]) == (1, "uptime-kuma", "web")
    unknown = world.run("events", "send", "--service", "nobody", "--resolved")
    assert "nobody (no service)" in unknown.out
    eventually(lambda: bool(world.json("events", "show", "E-1", "--json")["remediation_log"]))
    shown = world.json("events", "show", "E-1", "--json")
    assert (shown["class"], shown["labels"]["zone"], shown["state"]) == ("down", "a", "firing")
    body = world.folder / "body.json"
    body.write_text("[1, 2]")
    for words, code, says in (
        (("events", "send", str(body)), 2, "a list"),
        (("events", "send", "--shape", "nagios", "--service", "web"), 2, "alertmanager"),
    ):
        refused = world.run(*words)
        assert (refused.code, refused.out) == (code, ""), (words, refused)
        assert says in refused.err, (words, refused.err)
