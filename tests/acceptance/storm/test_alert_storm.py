"""A storm of alerts over a fleet of which half is sick, a slow database, and a plane that is killed twice in it."""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections import Counter

import pytest

from tests.acceptance.cli.world import eventually
from tests.acceptance.crash.depth import FULL, ON_BOTH_IN_FULL
from tests.acceptance.storm.senders import Alert, Senders, alert, receiver
from tests.acceptance.storm.world import Stormy

SERVICES = [f"s{number:02}" for number in range(40 if FULL else 12)]
SICK = SERVICES[: len(SERVICES) // 2]
ALERTS = 5_000 if FULL else 400  # each is sent twice, as a pair of Alertmanagers does
IN_A_BODY = 10
WIDEST, WINDOW_S = 4, 3
POLICY = f"""\
version: 1
rules:
  - {{kind: start_service, target: "*", tier: auto, rate_limit: {{max: 100, window_s: 60}},
     blast_radius: {{max_targets: 100, window_s: 60}}}}
  - {{kind: restart_service, target: "*", tier: auto, rate_limit: {{max: 100, window_s: 60}},
     blast_radius: {{max_targets: {WIDEST}, window_s: {WINDOW_S}}}}}
"""
SECOND = 1_000_000


def storm_of(count: int) -> list[list[Alert]]:
    """Doubled and shuffled: alerts of the sick services, of well ones, and of what is not ours."""
    chance = random.Random(7)
    about = [*SICK, *SERVICES, *(f"elsewhere-{number}" for number in range(60))]
    one_each = [alert(number, about[number % len(about)], instance=f"i{number}") for number in range(count)]
    doubled = one_each * 2
    chance.shuffle(doubled)
    return [doubled[at : at + IN_A_BODY] for at in range(0, len(doubled), IN_A_BODY)]


def widest(stormy: Stormy) -> int:
    """The most distinct targets that restarts were authorised for within any window, by the ledger alone."""
    rows = stormy.rows("SELECT at, target FROM decisions WHERE kind = 'restart_service' AND verdict LIKE 'allow%'")
    uses = sorted((int(one["at"]), str(one["target"])) for one in rows)
    times = [at for at, _ in uses]
    most = 0
    for end, (at, _) in enumerate(uses):
        first = bisect_right(times, at - WINDOW_S * SECOND)
        most = max(most, len({target for _, target in uses[first : end + 1]}))
    return most


def killed_twice(stormy: Stormy, senders: Senders, bodies: int) -> None:
    """SIGKILL after a third and after two thirds of the bodies, and a new plane each time."""
    for third in (1, 2):
        eventually(lambda third=third: senders.acknowledged >= bodies * third // 3)  # type: ignore[misc]
        stormy.kill()
        stormy.up(SLOW_COMMIT_S="0.05")


@ON_BOTH_IN_FULL
@pytest.mark.req("EVT-1", "EVT-2", "EVT-3", "POL-15", "POL-5")
def test_nothing_acknowledged_is_lost_the_limits_hold_and_one_page_goes_out(stormy: Stormy) -> None:
    with receiver() as (port, pages):
        stormy.declare(SERVICES)
        stormy.write("policy.yml", POLICY)
        stormy.write(
            "notify.yml",
            "version: 1\n"
            f"targets: {{oncall: {{url: 'json://127.0.0.1:{port}/'}}}}\n"
            "routes: [{severity: [critical], to: [oncall]}]\n",
        )
        stormy.up(SLOW_COMMIT_S="0.05")
        eventually(lambda: all(stormy.world.pids(one) for one in SERVICES))
        eventually(lambda: stormy.world.ask("/status")["services_by_status"]["up"] == len(SERVICES))

        bodies = storm_of(ALERTS)
        senders = Senders(stormy.port, stormy.token, bodies)
        stormy.fell(SICK)
        senders.start()
        eventually(lambda: json.loads(storms(stormy))["open"])
        killed_twice(stormy, senders, len(bodies))
        senders.join()

        kept = stormy.events()
        sent: Counter[str] = Counter()
        for number, body in enumerate(bodies):
            for one in body:
                sent[one["fingerprint"]] += senders.sent[number]
        assert len(kept) == ALERTS
        for fingerprint, one in kept.items():
            assert 2 <= 1 + one["repeats"] <= sent[fingerprint]
        never_repeated = [one for one, times in sent.items() if times == 2]
        assert never_repeated
        assert all(kept[one]["repeats"] == 1 for one in never_repeated)
        [steps] = stormy.rows("SELECT count(*) AS n FROM work_items WHERE kind = 'fleet_event_triage'")
        assert steps["n"] == ALERTS

        assert json.loads(storms(stormy))["open"]
        eventually(lambda: pages)
        restarted = {one["target"] for one in stormy.rows("SELECT target FROM outbox WHERE kind = 'restart_service'")}
        assert len(restarted) <= WIDEST
        assert stormy.world.run("storm", "clear", "--reason", "the switch is replaced").code == 0
        eventually(lambda: all(stormy.world.pids(one) for one in SERVICES))
    assert widest(stormy) == WIDEST
    told = {one["message"] for one in pages}  # one that was in flight when the plane died may come again, as it was
    assert len(told) == 1
    assert "storm:" in told.pop()


def storms(stormy: Stormy) -> str:
    """What stands of open breakers."""
    found = stormy.rows("SELECT value FROM facts WHERE name = 'storms'")
    return str(found[0]["value"]) if found else '{"open": {}}'
