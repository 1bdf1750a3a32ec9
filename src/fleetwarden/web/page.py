"""The one page: the fleet, what waits for a person, and the freeze button, for a browser without scripts.

A token opens a session; the cookie holds only the session's random id, cannot be read by a script and is sent by no
other site.  Every form carries the session's own secret and comes from this very address, or is refused.  What a form
led to is shown on the next page, refusals with what would satisfy them.  The page never shows less than there is: what
cannot be read makes it say so.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import jinja2
from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from fleetwarden.app.identity import Caller, Forbidden, Role, Unauthenticated, require, secret_digest
from fleetwarden.domain import freezing
from fleetwarden.domain.errors import FleetError
from fleetwarden.web.bodies import form_of
from fleetwarden.web.callers import SECRET_LENGTH_MAX
from fleetwarden.web.page_view import read_page
from fleetwarden.web.plane import plane_of
from fleetwarden.web.problems import Malformed, status_of
from fleetwarden.web.sessions import Session, Sessions
from fleetwarden.web.texts import REASON_MAX

__all__ = ["router"]

Act: TypeAlias = Callable[[Request, Caller, dict[str, str]], str]  # does what a form asks, and says what came of it
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("fleetwarden.web"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_STYLE = files("fleetwarden.web").joinpath("static/page.css").read_bytes()

router = APIRouter(include_in_schema=False)


def _html(template: str, status: int = 200, **shown: Any) -> Response:
    return Response(_TEMPLATES.get_template(template).render(**shown), status, media_type="text/html")


def _sessions(request: Request) -> Sessions:
    found = request.app.state.sessions
    assert isinstance(found, Sessions)
    return found


def _cookie_name(request: Request) -> str:
    """One name for each port, because cookies know none: two planes on one machine keep their sessions apart."""
    server = request.scope.get("server")
    return f"fleetwarden_{server[1] if server else 0}"


def _session(request: Request) -> Session | None:
    session_id = request.cookies.get(_cookie_name(request), "")
    return _sessions(request).find(session_id) if session_id else None


def _caller(request: Request, session: Session) -> Caller:
    """Who opened the session, if that token still holds.  Raises Unauthenticated, StoreUnavailable."""
    return plane_of(request).recognise(session.token_digest)


def _back() -> Response:
    """To the page, by GET, so that a reload repeats nothing."""
    return RedirectResponse("/", 303)


def same_origin(request: Request) -> None:
    """A dependency of every form: refuse one that another page sent.  Raises Forbidden."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    foreign = site is not None and site not in ("same-origin", "none")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        foreign = True
    if foreign:
        raise Forbidden("this form was sent from another page", hint="open the page itself and send it from there")


@router.get("/")
def show_page(request: Request) -> Response:
    """The fleet, or a form that asks for a token."""
    session = _session(request)
    if session is None:
        return _html("login.html", refusal="")
    try:
        caller = _caller(request, session)
        still = {"0": False, "1": True}.get(request.query_params.get("still", ""))
        shown = read_page(plane_of(request), caller, still=still)
    except Unauthenticated:
        return _html("login.html", refusal="The token of this session has ended.")
    except FleetError as error:
        return _html("refused.html", status_of(error), refusal=_told(error))
    message = _sessions(request).message_of(session)
    return _html("fleet.html", page=shown, form_secret=session.form_secret, message=message)


@router.post("/login", dependencies=[Depends(same_origin)])
async def log_in(request: Request) -> Response:
    """Open a session for a token that may look."""
    form = await form_of(request)
    return await run_in_threadpool(_log_in, request, form.get("token", "").strip())


def _log_in(request: Request, secret: str) -> Response:
    try:
        if len(secret) > SECRET_LENGTH_MAX:
            raise Unauthenticated("no valid token")
        caller = plane_of(request).authenticate(secret)
        require(caller, Role.VIEWER)
    except Unauthenticated:
        return _html("login.html", 401, refusal="That is no valid token.")
    except FleetError as error:
        return _html("login.html", status_of(error), refusal=_told(error))
    session_id = _sessions(request).open(secret_digest(secret))
    answer = _back()
    answer.set_cookie(
        _cookie_name(request), session_id, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return answer


@router.post("/logout", dependencies=[Depends(same_origin)])
async def log_out(request: Request) -> Response:
    """End the session."""
    session = _session(request)
    if session is not None:
        if not session.sent_form((await form_of(request)).get("form_secret", "")):
            return _foreign_form()
        _sessions(request).end(request.cookies[_cookie_name(request)])
    answer = _back()
    answer.delete_cookie(_cookie_name(request), httponly=True, samesite="strict")
    return answer


@router.post("/page/approvals", dependencies=[Depends(same_origin)])
async def answer_approval(request: Request) -> Response:
    """Grant or deny what waits."""
    return await _act(request, _answer_approval)


def _answer_approval(request: Request, caller: Caller, form: dict[str, str]) -> str:
    answered = plane_of(request).approving.answer(
        caller, form.get("job_id", ""), decision=form.get("decision"), reason=form.get("reason", "")
    )
    return str(answered["message"])


@router.post("/page/freeze", dependencies=[Depends(same_origin)])
async def set_freeze(request: Request) -> Response:
    """Freeze everything, or lift it."""
    return await _act(request, _set_freeze)


def _set_freeze(request: Request, caller: Caller, form: dict[str, str]) -> str:
    administration, reason = plane_of(request).administration, form.get("reason", "")
    if len(reason) > REASON_MAX:
        raise Malformed(f"a reason is text of at most {REASON_MAX} characters")
    if form.get("on") == "yes":
        flying = administration.freeze(caller, reason=reason, for_s=None)["in_flight"]
        return "Frozen: nothing further begins." + (f" In flight: {', '.join(flying)}." if flying else "")
    if form.get("on") != "no":
        raise Malformed("the form says neither freeze nor lift", hint="nothing was changed")
    left = administration.thaw(caller, reason=reason, scope="all")
    if left["freeze_file"]:
        return f"Still frozen by the file {left['freeze_file']}."
    parts = [freezing.words(one["scope"], one["value"]) for one in left["freezes"] if one["scope"] != "all"]
    if len(parts) < len(left["freezes"]):
        return "Still frozen: an administrator has to release the restored store."
    return "The freeze is lifted." + (f" Still frozen: {', '.join(parts)}." if parts else "")


async def _act(request: Request, act: Act) -> Response:
    """One form of a session: checked, done, and its outcome kept for the next page."""
    session = _session(request)
    if session is None:
        return _back()
    form = await form_of(request)
    if not session.sent_form(form.get("form_secret", "")):
        return _foreign_form()
    return await run_in_threadpool(_told_act, request, session, form, act)


def _told_act(request: Request, session: Session, form: dict[str, str], act: Act) -> Response:
    try:
        told, good = act(request, _caller(request, session), form), True
    except Unauthenticated:
        return _html("login.html", 401, refusal="The token of this session has ended; nothing was done.")
    except FleetError as error:
        told, good = _told(error), False
    _sessions(request).tell(session, told, good=good)
    return _back()


def _foreign_form() -> Response:
    told = "This form does not belong to this session: nothing was done. Load the page again and send it from there."
    return _html("refused.html", 403, refusal=told)


def _told(error: FleetError) -> str:
    """A refusal as a sentence, with what would satisfy it."""
    return f"{error.message}. What would help: {error.hint}." if error.hint else f"{error.message}."


@router.get("/static/page.css")
def show_style() -> Response:
    """The page's one style sheet."""
    return Response(_STYLE, media_type="text/css")
