"""Settings: every knob of a plane, with unit, range, default and reason, from the environment or the folder's `.env`.

The environment beats `.env`, `.env` beats the default.  A setting is read from the mapping that is handed in and from
nowhere else, so that a test and a plane see the same rules.  Nothing falls back to a default because it was misspelt or
out of range: that is an error which names the setting, where it was written, and why it is refused.  A setting whose
feature does not exist yet keeps its name and its default, and refuses every other value.  Secrets show as asterisks
wherever a setting is printed, and in no message.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
)

from fleetwarden.adapters.files.documents import read_document
from fleetwarden.adapters.files.yaml_tree import decode
from fleetwarden.app import setting_values
from fleetwarden.app.approval_settings import ApprovalSettings
from fleetwarden.app.env_file import parse_env
from fleetwarden.app.event_settings import EventSettings
from fleetwarden.app.outside_settings import OutsideSettings
from fleetwarden.app.scaling_settings import ScalingSettings
from fleetwarden.app.secret_files import FILE_SUFFIX, StoreAddress, read_secret
from fleetwarden.app.setting_values import ACTUATORS, WEAK_TOKEN_CHARACTERS
from fleetwarden.app.storm_settings import StormSettings
from fleetwarden.app.telling_settings import TellingSettings
from fleetwarden.domain.errors import Misconfigured, Problem

__all__ = ["ACTUATORS", "ENV_FILE", "Settings", "load_settings"]

ENV_FILE = ".env"
ENVIRONMENT = "environment"
STORE_FILE = "fleetwarden.db"
OURS = (
    "FLEET_",
    "ACTION_POLICY_",
    "DEPLOY_WATCH_",
    "INTENT_",
    "LEDGER_",
    "SCALING_",
)  # a name of ours that is unknown is a mistake
OURS_IN_ENVIRONMENT = OURS[:3]  # SCALING_… may well be somebody else's there
LATER = ("FLEET_ACTUATOR_K8S_NAMESPACE",)


LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(setting_values.lower)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Host = Annotated[str, AfterValidator(setting_values.host)]
WebUrl = Annotated[str, AfterValidator(setting_values.web_url)]


class Settings(ApprovalSettings, EventSettings, OutsideSettings, StormSettings, ScalingSettings, TellingSettings):
    """All settings of one plane or one command, valid and frozen.  Paths are absolute.

    The name in the environment is each field's alias.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=False)

    # --- files
    config_dir: Path = Field(
        alias="FLEET_CONFIG", description="The configuration folder. `--config` beats it; without either: `./fleet`."
    )
    fleet_registry_path: Path = Field(
        alias="FLEET_REGISTRY_PATH", description="The registry of services; default: the folder's `fleet.yml`."
    )
    fleet_desired_state_path: Path | None = Field(
        default=None,
        alias="FLEET_DESIRED_STATE_PATH",
        description="The override layer. A file that is named has to exist; default: the folder's, if it is there.",
    )
    action_policy_path: Path | None = Field(
        default=None,
        alias="ACTION_POLICY_PATH",
        description="The action policy. Default: the folder's `policy.yml`, else the shipped conservative one.",
    )
    fleet_config_poll_s: Finite = Field(
        default=5.0,
        ge=0.2,
        le=3600,
        alias="FLEET_CONFIG_POLL_S",
        description="Seconds between looks for changed files.",
    )

    # --- this plane
    fleet_data_dir: Path = Field(
        alias="FLEET_DATA_DIR", description="Store, logs of services and the admin token; default: `.fleetwarden`."
    )
    fleet_store_url: Annotated[SecretStr, AfterValidator(setting_values.store_url)] = Field(
        alias="FLEET_STORE_URL", description="The store: `sqlite:///PATH`, a path, or `postgresql://…`."
    )
    fleet_store_url_file: Path | None = Field(
        default=None, alias="FLEET_STORE_URL_FILE", description="A file that holds the store's address."
    )
    fleet_id: Annotated[str, AfterValidator(setting_values.fleet_name)] | None = Field(
        default=None,
        alias="FLEET_ID",
        description="The fleet's name in the marker of its processes. Default: made once and kept in the store.",
    )
    fleet_host: Host = Field(
        alias="FLEET_HOST", description="This machine's name, as `process.host` means it; default: its host name."
    )
    fleet_log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(setting_values.lower)] = (
        Field(default="info", alias="FLEET_LOG_LEVEL", description="The least severity that is logged.")
    )

    # --- API and command line
    fleet_http_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        pattern=r"^[A-Za-z0-9.:_-]+$",
        alias="FLEET_HTTP_HOST",
        description="The address that the API listens on: this machine only, unless somebody decides otherwise.",
    )
    fleet_http_port: int = Field(
        default=8800, ge=0, le=65_535, alias="FLEET_HTTP_PORT", description="Its port; 0: any that is free."
    )
    fleet_http_tls_cert_file: Path | None = Field(
        default=None,
        alias="FLEET_HTTP_TLS_CERT_FILE",
        description="The certificate chain, if the plane does TLS.",
    )
    fleet_http_tls_key_file: Path | None = Field(
        default=None, alias="FLEET_HTTP_TLS_KEY_FILE", description="Its private key."
    )
    fleet_http_proxy: Annotated[tuple[str, ...], BeforeValidator(setting_values.networks)] | None = Field(
        default=None,
        alias="FLEET_HTTP_PROXY",
        description="Addresses or networks of the proxy that ends TLS for a plane that listens beyond loopback.",
    )
    fleet_url: WebUrl | None = Field(
        default=None, alias="FLEET_URL", description="The plane that commands talk to; default: the local one."
    )
    fleet_token: SecretStr | None = Field(
        default=None, alias="FLEET_TOKEN", description="The token of commands. Default: the data folder's admin token."
    )
    fleet_admin_token: SecretStr | None = Field(
        default=None,
        alias="FLEET_ADMIN_TOKEN",
        description="The first admin token. Default: one is made, printed once and kept in the data folder.",
    )
    fleet_token_file: Path | None = Field(
        default=None, alias="FLEET_TOKEN_FILE", description="A file that holds the token of commands."
    )
    fleet_admin_token_file: Path | None = Field(
        default=None, alias="FLEET_ADMIN_TOKEN_FILE", description="A file that holds the first admin token."
    )

    # --- acting
    fleet_actuator: Annotated[tuple[str, ...], BeforeValidator(setting_values.actuators)] = Field(
        default=("dryrun",),
        alias="FLEET_ACTUATOR",
        description="What may act: `dryrun` (nothing is changed), `process`, or a comma list of substrates.",
    )
    fleet_executor_threads: int = Field(
        default=8, ge=1, le=256, alias="FLEET_EXECUTOR_THREADS", description="Calls to substrates in flight at once."
    )
    fence_gap_max_s: Finite = Field(
        default=2.0,
        ge=0.1,
        le=60,
        alias="FLEET_FENCE_GAP_MAX_S",
        description="Seconds after its fence within which a call has to begin; later it is not made at all.",
    )
    foreign_hold_s: Finite = Field(
        default=1800.0,
        ge=1,
        le=604_800,
        alias="FOREIGN_HOLD_S",
        description="Seconds for which a count that somebody else set is not put back.",
    )
    fleet_prepared_ttl_s: Finite = Field(
        default=120.0,
        ge=1,
        le=86_400,
        alias="FLEET_PREPARED_TTL_S",
        description="Seconds that an authorised action waits for the executor before it lapses.",
    )
    fleet_lease_ttl_s: Finite = Field(
        default=15.0,
        ge=3,
        le=600,
        alias="FLEET_LEASE_TTL_S",
        description="Seconds that a lease lives unless extended; on SQLite a controller's lives for two intervals.",
    )

    # --- controllers
    fleet_reconciler: bool = Field(
        default=False, alias="FLEET_RECONCILER", description="Whether declared and observed state are reconciled."
    )
    fleet_reconciler_interval: Finite = Field(
        default=120.0, ge=0.2, le=86_400, alias="FLEET_RECONCILER_INTERVAL", description="Seconds between its passes."
    )
    fleet_reconciler_max_actions: int = Field(
        default=5,
        ge=1,
        le=100_000,
        alias="FLEET_RECONCILER_MAX_ACTIONS",
        description="Actions that one pass may begin; the rest waits for the next pass.",
    )
    deploy_watch_window: Finite = Field(
        default=300.0, ge=1, le=86_400, alias="DEPLOY_WATCH_WINDOW", description="Seconds that a watch lasts."
    )

    deploy_watch_poll: Finite = Field(
        default=15.0, ge=1, le=3_600, alias="DEPLOY_WATCH_POLL", description="Seconds between the probes of a watch."
    )

    # --- features to come: the names and defaults hold already
    fleet_actuator_k8s_namespace: str = Field(
        default="platform",
        alias="FLEET_ACTUATOR_K8S_NAMESPACE",
        description="A Kubernetes namespace for display and discovery, never part of an identity.",
    )

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)
    _warnings: tuple[Problem, ...] = PrivateAttr(default=())

    @property
    def store_url(self) -> str:
        """The store's address with its password, for whoever opens it and for nobody else."""
        return self.fleet_store_url.get_secret_value()

    @property
    def store_address(self) -> str | Callable[[], str]:
        """The store's address, or what reads it anew for each connection where it lies in a file."""
        if self.fleet_store_url_file is None or not self.store_url.startswith(SERVERS):
            return self.store_url
        from fleetwarden.store.postgresql_session import place

        start = self.fleet_store_url_file.parent
        return StoreAddress(
            self.fleet_store_url_file, self.store_url, normal=lambda address: _address(address, start), place=place
        )

    @property
    def sources(self) -> Mapping[str, str]:
        """Where each setting that is not a default was written: `environment`, `.env:LINE` or `--config`."""
        return dict(self._sources)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What was written and has no effect, or should not stay as it is."""
        return self._warnings


ALIASES: Mapping[str, str] = {str(field.alias): name for name, field in Settings.model_fields.items()}
SECRETS = frozenset({"FLEET_STORE_URL", "FLEET_TOKEN", "FLEET_ADMIN_TOKEN"})
PATHS = frozenset(
    {"FLEET_REGISTRY_PATH", "FLEET_DESIRED_STATE_PATH", "ACTION_POLICY_PATH", "FLEET_DATA_DIR"}
    | {name + FILE_SUFFIX for name in SECRETS}
    | {"FLEET_HTTP_TLS_CERT_FILE", "FLEET_HTTP_TLS_KEY_FILE"}
)
SERVERS = ("postgresql://",)


class _Written(msgspec.Struct, frozen=True):
    """A setting as somebody wrote it.  A relative path starts from `start`."""

    value: str
    file: str
    line: int
    start: Path

    @property
    def source(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def problem(self, reason: str) -> Problem:
        return Problem(self.file, self.line, reason)


def load_settings(config_dir: Path | None, environ: Mapping[str, str], *, working_dir: Path | None = None) -> Settings:
    """Read and check all settings.  Raises Misconfigured with every problem found.

    `config_dir` is what `--config` named, or None.  A relative path in `.env` starts from the folder that holds it, any
    other one from the working directory.  An empty value counts as not written.
    """
    working_dir = (working_dir or Path.cwd()).absolute()
    problems: list[Problem] = []
    warnings: list[Problem] = []
    folder = _folder(config_dir, environ, working_dir)
    written = _from_env_file(folder, problems, warnings)
    written |= _from_environment(environ, working_dir, warnings)
    defaults, values = _defaults(folder, working_dir), dict[str, Any]()
    written |= _from_secret_files(written, environ, problems)
    for name, one in written.items():
        try:
            values[name] = _as_path(one, environ) if name in PATHS else one.value
        except ValueError as error:
            problems.append(one.problem(f"{name}: {error}"))
    data_dir = values.get("FLEET_DATA_DIR", defaults["FLEET_DATA_DIR"])
    defaults["FLEET_STORE_URL"] = f"sqlite:///{data_dir / STORE_FILE}"
    if "FLEET_STORE_URL" in written:
        values["FLEET_STORE_URL"] = _store(written["FLEET_STORE_URL"])
    settings = _validated(defaults | values, defaults, written, problems)
    problems += _not_yet(settings, written)
    problems += _contradictions(settings, written)
    warnings += _weak_tokens(settings, written)
    if problems:
        count = len(problems)
        raise Misconfigured(f"settings: {count} problem{'s' if count > 1 else ''}", sorted(problems))
    settings._sources.update({name: one.source for name, one in written.items()})  # noqa: SLF001 - made here
    settings._warnings = tuple(sorted(warnings))  # noqa: SLF001 - made here
    return settings


def _folder(config_dir: Path | None, environ: Mapping[str, str], working_dir: Path) -> Path:
    named = environ.get("FLEET_CONFIG", "").strip()
    if config_dir is None and not named:
        return working_dir / "fleet"
    source = "--config" if config_dir is not None else "FLEET_CONFIG"
    folder = working_dir / (config_dir if config_dir is not None else named)
    if not folder.is_dir():
        said = "does not exist" if not folder.exists() else "is no folder"
        raise Misconfigured(
            f"{source}: {folder} {said}", hint="fleetwarden init DIR makes a configuration folder to start from"
        )
    return folder


def _from_environment(environ: Mapping[str, str], working_dir: Path, warnings: list[Problem]) -> dict[str, _Written]:
    written: dict[str, _Written] = {}
    for name, value in environ.items():
        if name in ALIASES:
            if value.strip() and name != "FLEET_CONFIG":
                written[name] = _Written(value.strip(), ENVIRONMENT, 0, working_dir)
        elif name.startswith(OURS_IN_ENVIRONMENT):
            warnings.append(Problem(ENVIRONMENT, 0, f"{name} is no setting, it has no effect{_close(name)}"))
    return written


def _from_env_file(folder: Path, problems: list[Problem], warnings: list[Problem]) -> dict[str, _Written]:
    document = read_document(folder / ENV_FILE, ENV_FILE)
    written: dict[str, _Written] = {}
    if document.data is None:
        if document.problem:
            problems.append(Problem(ENV_FILE, 0, document.problem))
        return written
    try:
        assignments, found = parse_env(decode(document.data, ENV_FILE), ENV_FILE)
    except Misconfigured as error:
        problems += error.problems
        return written
    problems += found
    for one in assignments:
        if one.name == "FLEET_CONFIG":
            problems.append(
                Problem(ENV_FILE, one.line, "FLEET_CONFIG names the folder of this very file: set it outside")
            )
        elif one.name in ALIASES:
            if one.value.strip():
                written[one.name] = _Written(one.value.strip(), ENV_FILE, one.line, folder)
        elif one.name.upper().startswith(OURS) or _close(one.name):
            problems.append(Problem(ENV_FILE, one.line, f"unknown setting {one.name}{_close(one.name)}"))
        else:
            warnings.append(Problem(ENV_FILE, one.line, f"{one.name} is no setting, it has no effect"))
    return written


def _as_path(one: _Written, environ: Mapping[str, str]) -> Path:
    """An absolute path.  `~` is the home directory that the environment names."""
    path = one.start / one.value
    if one.value == "~" or one.value.startswith("~/"):
        if not environ.get("HOME"):
            raise ValueError("begins with ~, but the environment names no HOME")
        path = Path(environ["HOME"]) / one.value[2:]
    return path.resolve() if ".." in path.parts else path


def _defaults(folder: Path, working_dir: Path) -> dict[str, Any]:
    """What depends on where we are; every other default stands in `Settings`."""
    return {
        "FLEET_CONFIG": folder,
        "FLEET_REGISTRY_PATH": folder / "fleet.yml",
        "FLEET_DATA_DIR": working_dir / ".fleetwarden",
        "FLEET_HOST": socket.gethostname(),
    }


def _from_secret_files(
    written: dict[str, _Written], environ: Mapping[str, str], problems: list[Problem]
) -> dict[str, _Written]:
    """The secrets that lie in files.  One that is given both ways in one place is refused; else the environment's."""
    found: dict[str, _Written] = {}
    for name in sorted(SECRETS):
        plain, named = written.get(name), written.get(name + FILE_SUFFIX)
        if named is None:
            continue
        if plain is not None and plain.file == named.file:
            problems.append(named.problem(f"{name} and {name}{FILE_SUFFIX} are both given: leave one out"))
        elif plain is not None and plain.file == ENVIRONMENT:
            del written[name + FILE_SUFFIX]
        else:
            try:
                file = _as_path(named, environ)
                found[name] = _Written(read_secret(file), str(file), 0, file.parent)
            except ValueError as error:
                problems.append(named.problem(f"{name}{FILE_SUFFIX}: {error}"))
    return found


def _store(one: _Written) -> str:
    """The store's address, with an absolute path if it is a file."""
    return _address(one.value, one.start)


def _address(address: str, start: Path) -> str:
    for old in ("postgres://", "postgresql+psycopg://"):
        if address.startswith(old):
            address = "postgresql://" + address.removeprefix(old)
    if "://" not in address:
        return f"sqlite:///{start / address}"
    path = address.removeprefix("sqlite:///")
    return f"sqlite:///{start / path}" if path and path != address else address


def _validated(
    values: dict[str, Any], defaults: Mapping[str, Any], written: Mapping[str, _Written], problems: list[Problem]
) -> Settings:
    """The settings, or problems and the settings without what is wrong, so that the rest can be looked at, too."""
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False, include_context=False):
            name = str(one["loc"][0])
            source = written[name] if name in written else _Written(str(values[name]), f"default of {name}", 0, Path())
            shown = "" if name in SECRETS else f" {source.value[:80]!r}"
            reason = one["msg"].removeprefix("Value error, ")
            problems.append(source.problem(f"{name}{shown}: {reason[:1].lower() + reason[1:]}"))
            if name not in written:
                raise Misconfigured(f"settings: {name} has to be set", problems) from None
            del values[name]
    return Settings.model_validate(dict(defaults) | values)


def _not_yet(settings: Settings, written: Mapping[str, _Written]) -> Iterable[Problem]:
    for name in LATER:
        field = Settings.model_fields[ALIASES[name]]
        if name in written and getattr(settings, ALIASES[name]) != field.default:
            reason = f"{name} is not supported yet: leave it out (default: {_shown(field.default)})"
            yield written[name].problem(reason)


def _contradictions(settings: Settings, written: Mapping[str, _Written]) -> Iterable[Problem]:
    gap, ttl = "FLEET_FENCE_GAP_MAX_S", "FLEET_LEASE_TTL_S"
    yield from _below(settings, written, gap, ttl, "a lease outlives the start of a call")
    yield from _below(settings, written, "DEPLOY_WATCH_POLL", "DEPLOY_WATCH_WINDOW", "a watch looks before it ends")
    halves = ("FLEET_HTTP_TLS_CERT_FILE", "FLEET_HTTP_TLS_KEY_FILE")
    given = [name for name in halves if getattr(settings, ALIASES[name]) is not None]
    if len(given) == 1:
        [missing] = set(halves) - set(given)
        yield written[given[0]].problem(f"{given[0]} and {missing} belong together: give both or neither")


def _below(settings: Settings, written: Mapping[str, _Written], low: str, high: str, why: str) -> Iterable[Problem]:
    """Nothing if the one is below the other; else told of the one that is written, and where."""
    least, most = getattr(settings, ALIASES[low]), getattr(settings, ALIASES[high])
    if least >= most and low in written:
        yield written[low].problem(f"{low} ({least:g}) has to be below {high} ({most:g}): {why}")
    elif least >= most:
        yield written[high].problem(f"{high} ({most:g}) has to be above {low} ({least:g}): {why}")


def _weak_tokens(settings: Settings, written: Mapping[str, _Written]) -> Iterable[Problem]:
    token = settings.fleet_admin_token
    if token is not None and len(token.get_secret_value()) < WEAK_TOKEN_CHARACTERS:
        reason = f"FLEET_ADMIN_TOKEN has fewer than {WEAK_TOKEN_CHARACTERS} characters: it can be guessed"
        yield written["FLEET_ADMIN_TOKEN"].problem(reason)


def _close(name: str) -> str:
    found = get_close_matches(name.upper(), list(ALIASES), n=1, cutoff=0.8)
    return f" (did you mean {found[0]}?)" if found else ""


def _shown(default: object) -> str:
    return "not set" if default is None else f"{default:g}" if isinstance(default, float) else str(default)
