"""notify.yml, read strictly: what is taken, what is refused, and where it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetwarden.adapters.files.notify import NotifyFile
from fleetwarden.adapters.files.yaml_tree import parse
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.notify_file import NotifyDocument, Route, Target, read_notify_file

GOOD = """\
version: 1
targets:
  oncall: {url_file: oncall.url}
  chat: {url: "json://127.0.0.1:9/hook"}
  pager: {plugin: pagers}
routes:
  - {group: web, severity: [critical, error], to: [oncall, chat]}
  - {group: "db-*", to: pager}
  - {severity: critical, to: [oncall]}
"""


def read(text: str) -> NotifyDocument:
    return read_notify_file(parse(text, "notify.yml"), digest="d")


def problems(text: str) -> list[str]:
    with pytest.raises(Misconfigured) as caught:
        read(text)
    return [str(one) for one in caught.value.problems]


@pytest.mark.req("PLB-5")
def test_every_route_that_matches_is_used_and_each_target_once() -> None:
    document = read(GOOD)
    assert document.targets["oncall"] == Target(name="oncall", url_file="oncall.url", line=3)
    assert document.routes[1] == Route(to=("pager",), group="db-*")
    assert document.told("web", "critical") == ("oncall", "chat")
    assert document.told("web", "warning") == ()
    assert document.told("db-1", "info") == ("pager",)
    assert document.told("db-1", "critical") == ("pager", "oncall")
    assert document.told("", "critical") == ("oncall",)  # a route with a group is not for what has none
    assert read("version: 1\n") == NotifyDocument(digest="d")


@pytest.mark.req("PLB-5")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "notify.yml:1  the file is a list, a mapping with targets: and routes: is needed"),
        ("version: 2\n", "notify.yml:1  version: 2 is unknown, this release reads version: 1"),
        ("target: {}\n", "notify.yml:1  unknown key 'target' (did you mean 'targets'?)"),
        ("targets: {a: {}}\n", "targets.a: exactly one of url_file, url and plugin is needed, 0 are given"),
        ("targets:\n  a: {url: x://y, url_file: z}\n", "notify.yml:2  targets.a: exactly one of url_file, url and"),
        ("targets: {a: {url_flie: z}}\n", "unknown key 'url_flie' (did you mean 'url_file'?)"),
        ("targets: {a: {url: 7}}\n", "targets.a.url: a whole number, text is needed"),
        ("targets: {a: {url: hook}}\n", "targets.a.url: this is no address of the form scheme://…"),
        ("targets: {a b: {url: x://y}}\n", 'targets: "a b" is no name'),
        ("targets:\n  a: {url: x1://y}\n  a: {url: x1://z}\n", "notify.yml:3  targets.a stands here twice"),
        ("routes: {}\n", "routes: a mapping is a mapping, a list of routes is needed"),
        ("routes: [{to: [b]}]\n", 'routes[0].to: "b" is no target of this file'),
        ("targets: {oncall: {url: x1://y}}\nroutes: [{to: [oncal]}]\n", "(did you mean 'oncall'?)"),
        ("routes: [{severity: [fatal], to: []}]\n", 'routes[0].severity: "fatal" is none of critical, error'),
        ("routes: [{group: web}]\n", "routes[0]: to: is missing, so nobody would be told"),
        ("routes: [{severity: [], to: [a]}]\n", "routes[0].severity: an empty list matches nothing"),
        ("targets: {a: {url: x1://y}}\nroutes: [{group: 'w[eb', to: a}]\n", "routes[0].group: a [ is never closed"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, told: str) -> None:
    assert any(told in one for one in problems(text)), problems(text)


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize("field", ["url: 'nourl CANARY1'", "url: [CANARY1]", "urll: 'json://u:CANARY1@h'"])
def test_no_problem_shows_an_address(field: str) -> None:
    assert "CANARY1" not in "\n".join(problems(f"targets: {{a: {{{field}}}}}\n"))
    assert "CANARY1" not in repr(Target(name="a", url="json://u:CANARY1@h"))


@pytest.mark.req("PLB-5", "REC-14")
def test_a_bad_file_keeps_the_last_good_one_and_a_first_bad_one_makes_notices_wait(tmp_path: Path) -> None:
    path = tmp_path / "notify.yml"
    file = NotifyFile(tmp_path)
    assert (file.exists, file.unreadable, file.current()) == (False, False, NotifyDocument())
    path.write_text(GOOD)
    assert file.refresh() is True
    good = file.current()
    path.write_text(GOOD + "  - {to: [nobody]}\n")
    assert file.refresh() is False
    assert (file.current(), file.unreadable) == (good, False)
    assert [one.line for one in file.problems] == [10]
    assert file.stays == "the last good one stays in force"
    later = NotifyFile(tmp_path)
    assert (later.unreadable, later.current()) == (True, NotifyDocument())
    assert "notices wait" in later.stays
    path.write_text("nonsense: 1\n")
    later.refresh()
    assert later.unreadable
    path.write_text(GOOD)
    later.refresh()
    assert not later.unreadable
    path.unlink()
    assert later.refresh() is True
    assert (later.current(), later.unreadable) == (NotifyDocument(), False)
