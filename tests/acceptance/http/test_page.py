"""The page, as somebody with a browser and without scripts meets it, and as somebody who means harm does."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fleetwarden.app.identity import Role
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.fleet import Fleet, Mode
from fleetwarden.testing import a_fleet, a_policy, a_service
from fleetwarden.testing.substrate import Answer, Delivery
from tests.acceptance.http.world import ORIGIN, Browser, World

ATTACK = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}</textarea>'


class Seen(HTMLParser):
    """What a browser would build of a page: tags with their attributes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all_of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.req("RUN-3", "RUN-4")
def test_without_a_session_there_is_a_form_for_a_token_and_nothing_of_the_fleet(world: World) -> None:
    world.ask_for_restart()
    shown = world.bare.get("/")
    assert shown.status_code == 200
    assert "web" not in Seen(shown.text).text
    [form] = Seen(shown.text).all_of("form")
    assert (form["method"], form["action"]) == ("post", "/login")


@pytest.mark.req("RUN-3")
def test_signing_in_sets_a_cookie_that_no_script_reads_and_no_other_site_sends(world: World) -> None:
    answer = Browser(world).sign_in(world.secrets[Role.VIEWER])
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert world.secrets[Role.VIEWER] not in cookie


@pytest.mark.parametrize("token", ["", "fw_wrong", "x" * 100_000, " ", "fw_ünï", ATTACK])
def test_what_is_no_token_opens_no_session(world: World, token: str) -> None:
    browser = Browser(world)
    answer = browser.sign_in(token)
    assert answer.status_code == 401
    assert "no valid token" in answer.text
    assert "set-cookie" not in answer.headers
    assert "Sign in" in browser.page()


def test_a_token_that_may_not_look_opens_no_session(world: World) -> None:
    answer = Browser(world).sign_in(world.secrets[Role.INGEST])
    assert answer.status_code == 403
    assert "needs the role viewer" in html.unescape(answer.text)


@pytest.mark.req("RUN-3")
def test_a_session_ends_with_its_token_its_time_or_by_signing_out(world: World) -> None:
    admin = world.client()
    revoked, old, left = Browser(world), Browser(world), world.browser(Role.VIEWER)
    revoked.sign_in(world.token("going", Role.VIEWER))
    old.sign_in(world.token("staying", Role.VIEWER))
    assert "Fleet" in revoked.page()
    assert "Fleet" in old.page()
    admin.delete("/tokens/going")
    assert "The token of this session has ended" in revoked.page()
    kept = dict(left.http.cookies)
    assert left.send("/logout").status_code == 303
    left.http.cookies.update(kept)  # also for somebody who kept the cookie
    assert "Sign in" in left.page()
    world.clock.advance(12 * 3600)
    assert "Sign in" in old.page()


def test_a_form_of_a_session_whose_token_was_revoked_does_nothing(world: World) -> None:
    browser = Browser(world)
    browser.sign_in(world.token("going", Role.OPERATOR))
    secret = browser.form_secret()
    world.client().delete("/tokens/going")
    answer = browser.http.post("/page/freeze", data={"form_secret": secret, "on": "yes"})
    assert answer.status_code == 401
    assert world.client().get("/freeze").json()["frozen"] is False


@pytest.mark.req("RUN-4")
def test_the_page_says_in_plain_words_what_waits_and_why(world: World) -> None:
    world.ask_for_restart()
    text = Seen(world.browser(Role.VIEWER).page()).text
    for words in (
        "1 service",
        "1 degraded",
        "nothing frozen",
        "1 waiting for approval",
        "A-1 restart web#0",
        "web#0 is down",
        "1/2",
        "static",
        "needs the role approver",
    ):
        assert words in text
    for word in ("recovery_pending", "queue_approval", "restart_service", "None"):
        assert word not in text


@pytest.mark.req("RUN-4", "POL-7")
def test_granting_on_the_page_restarts_exactly_once(world: World) -> None:
    job_id = world.ask_for_restart()
    browser = world.browser(Role.APPROVER)
    answer = browser.send("/page/approvals", job_id=job_id, decision="approved", reason="only the cache")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "A-1 is granted" in browser.message()
    for _ in range(3):
        world.look()
    assert world.called() == ["restart_service web"]
    assert "Waiting for approval" not in browser.page()
    [vote] = world.client().get(f"/approvals/{job_id}").json()["votes"]
    assert (vote["by"], vote["reason"]) == ("approver-person", "only the cache")


@pytest.mark.req("RUN-4", "POL-7")
def test_denying_on_the_page_ends_it(world: World) -> None:
    job_id = world.ask_for_restart()
    browser = world.browser(Role.APPROVER)
    browser.send("/page/approvals", job_id=job_id, decision="denied")
    assert "rejected" in browser.message()
    assert world.client().get(f"/approvals/{job_id}").json()["status"] == "rejected"


@pytest.mark.req("RUN-4")
def test_a_refusal_is_shown_with_its_reason_and_what_would_help(world: World) -> None:
    job_id = world.ask_for_restart()
    self_made = Browser(world)
    self_made.sign_in(world.token("robot", Role.APPROVER, person="reconciler"))
    self_made.send("/page/approvals", job_id=job_id, decision="approved")
    assert "cannot approve it. What would help: another approver grants it" in self_made.message()
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN))
    browser = world.browser(Role.APPROVER)
    browser.send("/page/approvals", job_id=job_id, decision="approved")
    assert "A-1 is not carried out" in browser.message()


@pytest.mark.req("POL-17")
@pytest.mark.parametrize("decision", [None, "", "yes"])
def test_a_form_without_a_decision_decides_nothing(world: World, decision: str | None) -> None:
    job_id = world.ask_for_restart()
    browser = world.browser(Role.APPROVER)
    data = {"form_secret": browser.form_secret(), "job_id": job_id} | (
        {} if decision is None else {"decision": decision}
    )
    browser.http.post("/page/approvals", data=data)
    assert "nothing was decided" in browser.message()
    assert world.client().get(f"/approvals/{job_id}").json()["status"] == "pending"


@pytest.mark.req("POL-12")
def test_one_click_freezes_everything_and_one_lifts_it(world: World) -> None:
    browser = world.browser(Role.OPERATOR)
    browser.send("/page/freeze", on="yes")
    text = Seen(browser.page()).text
    assert "Frozen: nothing acts" in text
    assert "frozen by operator-person" in text
    browser.send("/page/freeze", on="no")
    assert "The freeze is lifted" in browser.message()
    assert world.client().get("/freeze").json()["frozen"] is False
    browser.send("/page/freeze", on="perhaps")
    assert "nothing was changed" in browser.message()


@pytest.mark.req("POL-12")
def test_the_button_lifts_the_freeze_of_the_fleet_and_leaves_those_of_parts(world: World) -> None:
    world.client().post("/freeze", json={"on": True, "service": "web"})
    browser = world.browser(Role.OPERATOR)
    assert "Freeze everything" in Seen(browser.page()).text, "nothing is there that the button could lift"
    browser.send("/page/freeze", on="yes")
    browser.send("/page/freeze", on="no")
    assert "The freeze is lifted. Still frozen: service web." in browser.message()
    left = world.client().get("/freeze").json()["freezes"]
    assert [(one["scope"], one["value"]) for one in left] == [("service", "web")]


@pytest.mark.req("RUN-3")
def test_who_may_only_look_gets_no_buttons_and_a_forged_form_changes_nothing(world: World) -> None:
    job_id = world.ask_for_restart()
    viewer = world.browser(Role.VIEWER)
    assert {form["action"] for form in Seen(viewer.page()).all_of("form")} == {"/logout"}
    viewer.send("/page/approvals", job_id=job_id, decision="approved")
    assert "needs the role approver" in viewer.message()
    viewer.send("/page/freeze", on="yes")
    assert "needs the role operator" in viewer.message()
    assert world.client().get(f"/approvals/{job_id}").json()["status"] == "pending"
    assert world.client().get("/freeze").json()["frozen"] is False


FOREIGN = {
    "another origin": {"Origin": "http://evil.example"},
    "another port": {"Origin": "http://127.0.0.1:9100"},
    "no origin that it would name": {"Origin": "null"},
    "another site": {"Sec-Fetch-Site": "cross-site"},
    "another port, as a browser says it": {"Sec-Fetch-Site": "same-site"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("address", ["/login", "/logout", "/page/approvals", "/page/freeze"])
def test_a_form_sent_by_another_page_is_refused(refusing: World, address: str, headers: dict[str, str]) -> None:
    browser = refusing.browser()
    answer = browser.send(address, headers=headers, on="yes", token=refusing.secrets[Role.ADMIN])
    assert answer.status_code == 403
    assert refusing.client().get("/freeze").json()["frozen"] is False
    assert "Fleet" in browser.page()


@pytest.mark.parametrize("address", ["/logout", "/page/approvals", "/page/freeze"])
def test_a_form_without_the_secret_of_its_session_is_refused(refusing: World, address: str) -> None:
    browser, other = refusing.browser(), refusing.browser(Role.VIEWER)
    for secret in ({}, {"form_secret": ""}, {"form_secret": other.form_secret()}, {"form_secret": "ü"}):
        answer = browser.http.post(address, data={"on": "yes", **secret})
        assert answer.status_code == 403
        assert "nothing was done" in answer.text
    assert refusing.client().get("/freeze").json()["frozen"] is False
    assert "Fleet" in browser.page()


def test_a_form_of_this_page_passes_with_the_headers_that_a_browser_sends(world: World) -> None:
    browser = world.browser(Role.OPERATOR)
    headers = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
    assert browser.send("/page/freeze", headers=headers, on="yes").status_code == 303
    assert world.client().get("/freeze").json()["frozen"] is True


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe",
        b"a=%FF%FE",
        b"on=yes&on=no",
        b"&".join(b"f%d=1" % n for n in range(50)),
        b"reason=%00",
        b"x" * 300_000,
    ],
)
def test_a_form_that_cannot_be_read_does_nothing(refusing: World, body: bytes) -> None:
    browser = refusing.browser()
    secret = browser.form_secret().encode()
    answer = browser.http.post("/page/freeze", content=body + b"&form_secret=" + secret)
    assert answer.status_code in (400, 403, 413)
    assert refusing.client().get("/freeze").json()["frozen"] is False


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[World]:
    """A fleet in which every text that somebody else writes tries to be markup."""
    world = World(tmp_path, a_service("web", version=ATTACK, source=ATTACK), a_service("dry", mode=Mode.DRY_RUN))
    fleet = a_fleet(*world.configuration.current().fleet.services.values(), warnings=(Problem(ATTACK, 1, ATTACK),))
    world.configuration.declare(fleet=fleet, policy=a_policy(Tier.AUTO, name=ATTACK))
    for name in ("web", "dry"):
        world.substrate.boot(name)
    world.substrate._deliver = lambda call: Delivery(answer=Answer.REFUSED)
    world.substrate.name = ATTACK
    world.substrate.crash("web", 0)
    world.look()
    world.configuration.declare(policy=a_policy(Tier.APPROVAL_REQUIRED, name=ATTACK))
    world.clock.advance(60)
    world.look()
    mallory = world.client_of(world.token("mallory", Role.ADMIN, person=ATTACK))
    mallory.post("/freeze", json={"on": True, "reason": ATTACK})
    world.configuration.freeze(ATTACK)
    yield world
    world.close()


def test_no_text_becomes_markup(attacked: World) -> None:
    browser = Browser(attacked)
    browser.sign_in(attacked.token("eve", Role.ADMIN, person=ATTACK))
    browser.send("/page/approvals", job_id=ATTACK, decision=ATTACK, reason=ATTACK)
    for page in (browser.page(), browser.page("?still=1"), browser.page("?still=" + ATTACK)):
        seen = Seen(page)
        assert not seen.all_of("script")
        assert not seen.all_of("img")
        assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on")]
        assert seen.text.count("<script>alert(1)</script>") >= 6  # it is shown, as text
        assert "{{ 7*7 }}" in seen.text


def test_the_page_needs_no_script_and_nothing_from_elsewhere(world: World) -> None:
    world.ask_for_restart()
    page = world.browser().page()
    seen = Seen(page)
    assert not seen.all_of("script")
    assert not re.search(r"\bstyle=|https?://", page)
    [style] = [one["href"] for one in seen.all_of("link") if one["rel"] == "stylesheet"]
    answer = world.bare.get(str(style))
    assert answer.headers["content-type"].startswith("text/css")
    assert "@import" not in answer.text
    assert "url(" not in answer.text


def test_every_field_has_a_label_every_column_a_head_and_every_section_a_title(world: World) -> None:
    world.ask_for_restart()
    seen = Seen(world.browser().page())
    labelled = {one["for"] for one in seen.all_of("label")}
    fields = [one for one in seen.all_of("input") if one.get("type") != "hidden"]
    assert fields
    assert {one["id"] for one in fields} <= labelled
    assert all(one.get("scope") in ("col", "row") for one in seen.all_of("th"))
    ids = [attributes["id"] for _, attributes in seen.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {one["aria-labelledby"] for one in seen.all_of("section")} <= set(ids)
    assert seen.all_of("html")[0]["lang"] == "en"


def refreshes(page: str) -> bool:
    return any(one.get("http-equiv") == "refresh" for one in Seen(page).all_of("meta"))


def has_text_field(page: str) -> bool:
    return any(one.get("type") != "hidden" for one in Seen(page).all_of("input"))


def test_the_page_refreshes_itself_but_never_under_somebodys_fingers(world: World) -> None:
    browser = world.browser()
    quiet = browser.page()
    assert (refreshes(quiet), has_text_field(quiet)) == (True, False)
    world.ask_for_restart()
    waiting = browser.page()
    assert (refreshes(waiting), has_text_field(waiting)) == (False, True)
    chosen = browser.page("?still=0")
    assert (refreshes(chosen), has_text_field(chosen)) == (True, False)
    still = browser.page("?still=1")
    assert (refreshes(still), has_text_field(still)) == (False, True)


def test_an_unknown_outcome_is_called_unknown_and_says_how_it_is_settled(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    world.substrate.boot("web", 2)
    world.substrate._deliver = lambda call: Delivery(lands=False)
    world.substrate.crash("web", 0)
    world.look()
    text = Seen(world.browser(Role.VIEWER).page()).text
    assert "1 outcome unknown" in text
    assert "Outcome unknown" in text
    assert "fleetwarden recover settle" in text
    assert "recovery_pending" not in text


def test_a_dry_run_says_would(tmp_path: Path) -> None:
    world = World(tmp_path, a_service("dry", mode=Mode.DRY_RUN), tier=Tier.AUTO)
    try:
        world.substrate.boot("dry")
        world.substrate.crash("dry", 0)
        world.look()
        text = Seen(world.browser(Role.VIEWER).page()).text
    finally:
        world.close()
    assert "would restart dry#0 (dry run)" in text
    assert "nothing was changed" in text
    assert world.called() == []


def test_a_fleet_without_services_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        world.configuration.declare(fleet=Fleet())
        text = Seen(world.browser(Role.VIEWER).page()).text
    finally:
        world.close()
    assert "No services are declared" in text
