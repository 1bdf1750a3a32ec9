"""Settings: names and defaults that people rely on, where each may be written, and how a wrong one is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetwarden.app.settings import ALIASES, LATER, PATHS, SECRETS, Settings, load_settings
from fleetwarden.domain.errors import Misconfigured, Problem

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "fleet"
    made.mkdir()
    return made


def load(folder: Path, env: str = "", /, **environ: str) -> Settings:
    if env:
        (folder / ".env").write_text(env)
    return load_in(Path("/work-dir"), folder, **environ)


def load_in(working_dir: Path, config_dir: Path | None, /, **environ: str) -> Settings:
    return load_settings(config_dir, environ, working_dir=working_dir)


def problems(folder: Path, env: str = "", /, **environ: str) -> tuple[Problem, ...]:
    with pytest.raises(Misconfigured) as caught:
        load(folder, env, **environ)
    assert caught.value.problems
    return caught.value.problems


# ------------------------------------------------------------------------------------------------ names and defaults
@pytest.mark.req("RUN-7", "ACT-2")
def test_every_flag_has_its_long_known_name_and_default(folder: Path) -> None:
    settings = load(folder)
    assert settings.action_policy_path is None
    assert settings.fleet_reconciler is False
    assert settings.fleet_reconciler_interval == 120
    assert settings.fleet_reconciler_max_actions == 5
    assert settings.fleet_registry_path == folder / "fleet.yml"
    assert settings.fleet_desired_state_path is None
    assert settings.fleet_actuator == ("dryrun",)
    assert settings.fleet_actuator_k8s_namespace == "platform"
    assert settings.deploy_watch_window == 300
    assert settings.deploy_watch_poll == 15
    assert settings.fleet_autoscaler is False
    assert settings.fleet_autoscaler_interval == 60
    assert settings.scaling_prometheus_url is None
    flags = {
        "ACTION_POLICY_PATH", "FLEET_RECONCILER", "FLEET_RECONCILER_INTERVAL", "FLEET_RECONCILER_MAX_ACTIONS",
        "FLEET_REGISTRY_PATH", "FLEET_DESIRED_STATE_PATH", "FLEET_ACTUATOR", "FLEET_ACTUATOR_K8S_NAMESPACE",
        "DEPLOY_WATCH_WINDOW", "DEPLOY_WATCH_POLL", "FLEET_AUTOSCALER", "FLEET_AUTOSCALER_INTERVAL",
        "SCALING_PROMETHEUS_URL", "FLEET_STORE_URL", "FLEET_DATA_DIR", "FLEET_HTTP_HOST", "FLEET_HTTP_PORT",
        "FLEET_CONFIG", "FLEET_URL", "FLEET_TOKEN", "FLEET_ADMIN_TOKEN",
    }  # fmt: skip
    assert flags <= set(ALIASES)


def test_the_rest_has_safe_defaults(folder: Path) -> None:
    settings = load(folder)
    assert (settings.fleet_http_host, settings.fleet_http_port) == ("127.0.0.1", 8800)
    assert settings.fleet_data_dir == Path("/work-dir/.fleetwarden")
    assert settings.store_url == "sqlite:////work-dir/.fleetwarden/fleetwarden.db"
    assert settings.fence_gap_max_s == 2
    assert settings.fleet_host
    assert (settings.fleet_admin_token, settings.fleet_token, settings.fleet_url, settings.fleet_id) == (None,) * 4
    assert (settings.warnings, dict(settings.sources)) == ((), {})


@pytest.mark.req("RUN-7")
@pytest.mark.parametrize("name", sorted(ALIASES))
def test_every_setting_has_an_attribute_of_its_name_and_a_description(name: str) -> None:
    attribute = {"FLEET_CONFIG": "config_dir", "FLEET_FENCE_GAP_MAX_S": "fence_gap_max_s"}.get(name, name.lower())
    assert ALIASES[name] == attribute
    assert Settings.model_fields[attribute].description


def reference() -> Mapping[str, str]:
    """The rows of the table in the reference: name and the rest."""
    text = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z][A-Z0-9_]*)` \| (.*) \|$", text, re.MULTILINE)
    assert len({name for name, _ in rows}) == len(rows)
    return dict(rows)


def test_the_reference_has_every_setting_and_no_other() -> None:
    assert set(reference()) == set(ALIASES)


@pytest.mark.parametrize("name", sorted(ALIASES))
def test_the_reference_tells_each_default_and_range_as_it_is(name: str) -> None:
    field = Settings.model_fields[ALIASES[name]]
    written = reference()[name]
    default = written.split(" | ")[0]
    if not field.is_required() and field.default is not None:
        plain = ",".join(field.default) if isinstance(field.default, tuple) else field.default
        shown = (
            f"{plain:g}" if isinstance(plain, float) else str(plain).lower() if isinstance(plain, bool) else str(plain)
        )
        assert default == (f"`{shown}`" if shown else "none")
    bounds = {
        name: value
        for rule in field.metadata
        for name in ("ge", "le")
        if (value := getattr(rule, name, None)) is not None
    }
    if bounds:
        low, high = (
            f"{bounds[name]:,}" if isinstance(bounds[name], int) else f"{bounds[name]:,g}" for name in ("ge", "le")
        )
        assert f"{low} to {high}" in written
    assert ("not supported yet" in written) == (name in LATER)


# ------------------------------------------------------------------------------------------------ places
@pytest.mark.req("RUN-7")
def test_the_environment_beats_the_env_file_and_that_beats_the_default(folder: Path) -> None:
    env = "FLEET_HTTP_PORT=8801\nFLEET_RECONCILER_INTERVAL=2.5\n"
    settings = load(folder, env, FLEET_HTTP_PORT="8802")
    assert settings.fleet_http_port == 8802
    assert settings.fleet_reconciler_interval == 2.5
    assert settings.fleet_reconciler_max_actions == 5
    assert settings.sources == {"FLEET_HTTP_PORT": "environment", "FLEET_RECONCILER_INTERVAL": ".env:2"}


def test_an_empty_value_is_as_good_as_none(folder: Path) -> None:
    settings = load(folder, "FLEET_HTTP_PORT=8801\nFLEET_ADMIN_TOKEN=\n", FLEET_HTTP_PORT="", FLEET_RECONCILER=" ")
    assert (settings.fleet_http_port, settings.fleet_reconciler, settings.fleet_admin_token) == (8801, False, None)


@pytest.mark.parametrize("word", ["1", "true", "True", "yes", "on"])
def test_a_switch_is_switched_on_in_the_usual_words(folder: Path, word: str) -> None:
    assert load(folder, FLEET_RECONCILER=word).fleet_reconciler is True


@pytest.mark.parametrize("word", ["0", "false", "no", "OFF"])
def test_a_switch_is_switched_off_in_the_usual_words(folder: Path, word: str) -> None:
    assert load(folder, "FLEET_RECONCILER=1", FLEET_RECONCILER=word).fleet_reconciler is False


@pytest.mark.parametrize("name", sorted(name for name in PATHS if not name.endswith("_FILE")))
def test_a_relative_path_starts_where_it_was_written(folder: Path, name: str) -> None:
    attribute = ALIASES[name]
    assert getattr(load(folder, f"{name}=x/y"), attribute) == folder / "x/y"
    assert getattr(load(folder, **{name: "x/y"}), attribute) == Path("/work-dir/x/y")
    assert getattr(load(folder, **{name: "/abs"}), attribute) == Path("/abs")
    assert getattr(load(folder, **{name: "~/x"}, HOME="/homes/me"), attribute) == Path("/homes/me/x")


def test_a_path_that_leads_upwards_is_shown_without_detours(folder: Path) -> None:
    assert load(folder, "FLEET_DATA_DIR=../data").fleet_data_dir == folder.parent.resolve() / "data"


def test_a_home_that_the_environment_does_not_name_is_not_guessed(folder: Path) -> None:
    assert "names no HOME" in problems(folder, FLEET_DATA_DIR="~/x")[0].reason


# ------------------------------------------------------------------------------------------------ the folder
def test_the_folder_is_the_one_of_the_command_line_then_of_the_environment_then_fleet_here(tmp_path: Path) -> None:
    for name in ("given", "named", "fleet"):
        (tmp_path / name).mkdir()
    assert load_in(tmp_path, Path("given"), FLEET_CONFIG="named").config_dir == tmp_path / "given"
    assert load_in(tmp_path, None, FLEET_CONFIG="named").config_dir == tmp_path / "named"
    assert load_in(tmp_path, None).config_dir == tmp_path / "fleet"


def test_a_folder_that_somebody_named_has_to_exist(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cases: list[tuple[Path | None, dict[str, str]]] = [
        (Path("none"), {}),
        (None, {"FLEET_CONFIG": "none"}),
        (Path("file"), {}),
    ]
    for config_dir, environ in cases:
        with pytest.raises(Misconfigured) as caught:
            load_settings(config_dir, environ, working_dir=tmp_path)
        assert "fleetwarden init DIR" in caught.value.hint


def test_commands_that_need_no_folder_work_without_one(tmp_path: Path) -> None:
    settings = load_in(tmp_path, None, FLEET_URL="http://plane:8800", FLEET_TOKEN="fw_x")
    assert settings.fleet_url == "http://plane:8800"
    assert settings.config_dir == tmp_path / "fleet"


def test_the_env_file_cannot_name_its_own_folder(folder: Path) -> None:
    assert problems(folder, "FLEET_CONFIG=elsewhere")[0].reason.startswith("FLEET_CONFIG names the folder of this very")


# ------------------------------------------------------------------------------------------------ refusals
@pytest.mark.req("RUN-7")
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("FLEET_HTTP_PORT", "65536", "less than or equal to 65535"),
        ("FLEET_HTTP_PORT", "eighty", "valid integer"),
        ("FLEET_HTTP_PORT", "80.5", "valid integer"),
        ("FLEET_HTTP_HOST", "a b", "should match pattern"),
        ("FLEET_RECONCILER", "maybe", "valid boolean"),
        ("FLEET_RECONCILER_INTERVAL", "0", "greater than or equal to 0.2"),
        ("FLEET_RECONCILER_INTERVAL", "nan", "finite number"),
        ("FLEET_RECONCILER_INTERVAL", "2m", "valid number"),
        ("FLEET_RECONCILER_MAX_ACTIONS", "0", "greater than or equal to 1"),
        ("FLEET_CONFIG_POLL_S", "inf", "finite number"),
        ("FLEET_LOG_LEVEL", "chatty", "'debug', 'info', 'warning' or 'error'"),
        ("FLEET_ID", "a/b", "no name"),
        ("FLEET_HOST", "a b", "no host name"),
        ("FLEET_URL", "plane:8800", "http:// or https://"),
        ("DEPLOY_WATCH_WINDOW", "-1", "greater than or equal to 1"),
        ("FLEET_STORE_URL", "mysql://h/d", "neither sqlite:///PATH nor postgresql://"),
        ("FLEET_STORE_URL", "sqlite://", "neither sqlite:///PATH nor postgresql://"),
        ("FLEET_STORE_URL", "sqlite://x.db", "three slashes"),
        ("FLEET_STORE_URL", "sqlite:///:memory:", "forgets what was done"),
        ("FLEET_ACTUATOR", "prozess", "'prozess' is no actuator; known: dryrun, process, docker, k8s, kubernetes"),
        ("FLEET_ACTUATOR", "process,dryrun", "dryrun changes nothing and stands alone"),
        ("FLEET_ACTUATOR", "process,", "'' is no actuator"),
    ],
)
def test_a_value_that_is_wrong_is_refused_with_its_name_its_place_and_the_reason(
    folder: Path, name: str, value: str, reason: str
) -> None:
    for where, found in (
        ("environment", problems(folder, **{name: value})),
        (".env:2", problems(folder, f"# settings\n{name}='{value}'")),
    ):
        assert [f"{one.file}:{one.line}" if one.line else one.file for one in found] == [where]
        assert found[0].reason.startswith(name)
        assert reason in found[0].reason


@pytest.mark.req("ACT-2")
@pytest.mark.parametrize("word", ["docker", "k8s", "kubernetes", "process,docker"])
def test_an_actuator_that_comes_later_is_refused_and_never_a_silent_dry_run(folder: Path, word: str) -> None:
    (found,) = problems(folder, FLEET_ACTUATOR=word)
    assert "is not supported yet; known now: dryrun, process" in found.reason


@pytest.mark.req("ACT-2")
@pytest.mark.parametrize(
    ("text", "words"), [("process", ("process",)), (" Process ,process", ("process",)), ("DRYRUN", ("dryrun",))]
)
def test_actuators_are_a_list_of_known_words(folder: Path, text: str, words: tuple[str, ...]) -> None:
    assert load(folder, FLEET_ACTUATOR=text).fleet_actuator == words


@pytest.mark.req("RUN-7", "ORC-1")
@pytest.mark.parametrize(
    ("name", "value", "default"),
    [
        ("FLEET_ACTUATOR_K8S_NAMESPACE", "prod", "platform"),
    ],
)
def test_a_setting_whose_feature_comes_later_takes_its_default_and_nothing_else(
    folder: Path, name: str, value: str, default: str
) -> None:
    (found,) = problems(folder, f"{name}={value}")
    assert found.line == 1
    assert found.reason.startswith(f"{name} is not supported yet: leave it out (default: ")
    assert load(folder, f"{name}={default}").warnings == ()


@pytest.mark.req("RUN-7")
def test_all_problems_are_named_at_once(folder: Path) -> None:
    env = (
        'FLEET_RECONCILER_INTERVL=2\nFLEET_HTTP_PORT=99999\nFLEET_ACTUATOR_K8S_NAMESPACE=x\nFLEET_TOKEN="x\n'
        "fleet_id=x\nRECONCILER\n"
        "ACTION_POLICY_FILE=x\nFLET_RECONCILER=1\n"
    )
    assert [(one.line, one.reason.split(":")[0][:45]) for one in problems(folder, env)] == [
        (1, "unknown setting FLEET_RECONCILER_INTERVL (did"),
        (2, "FLEET_HTTP_PORT '99999'"),
        (3, "FLEET_ACTUATOR_K8S_NAMESPACE is not supported"[:45]),
        (4, "FLEET_TOKEN"),
        (5, "unknown setting fleet_id (did you mean FLEET_"),
        (6, "is neither NAME=value (without spaces around "),
        (7, "unknown setting ACTION_POLICY_FILE"),
        (8, "unknown setting FLET_RECONCILER (did you mean"),
    ]


def test_the_start_of_a_call_has_to_fit_into_its_lease(folder: Path) -> None:
    (found,) = problems(folder, FLEET_FENCE_GAP_MAX_S="5", FLEET_LEASE_TTL_S="5")
    assert "has to be below FLEET_LEASE_TTL_S" in found.reason
    assert load(folder, FLEET_FENCE_GAP_MAX_S="4.9", FLEET_LEASE_TTL_S="5").fence_gap_max_s == 4.9


def test_a_watch_looks_before_it_ends(folder: Path) -> None:
    (found,) = problems(folder, DEPLOY_WATCH_POLL="300")
    assert "DEPLOY_WATCH_POLL (300) has to be below DEPLOY_WATCH_WINDOW (300)" in found.reason
    (found,) = problems(folder, DEPLOY_WATCH_WINDOW="10")
    assert "DEPLOY_WATCH_WINDOW (10) has to be above DEPLOY_WATCH_POLL (15)" in found.reason
    assert load(folder, DEPLOY_WATCH_WINDOW="10", DEPLOY_WATCH_POLL="9").deploy_watch_poll == 9


def test_an_env_file_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / ".env").write_bytes(b"FLEET_ID=caf\xe9\n")
    assert problems(folder) == (Problem(".env", 1, "byte 0xe9 is not UTF-8: save it as UTF-8"),)


def test_an_env_file_that_cannot_be_read_is_never_passed_over(folder: Path) -> None:
    (folder / ".env").mkdir()
    assert problems(folder) == (Problem(".env", 0, "is no regular file"),)


# ------------------------------------------------------------------------------------------------ warnings and secrets
def test_unknown_names_of_ours_in_the_environment_are_named_and_others_left_alone(folder: Path) -> None:
    environ = {"FLEET_RECONCILR": "1", "FLEET_PORT": "tcp://10.0.0.1:80", "PATH": "/bin", "SCALING_X": "1"}
    assert [one.reason for one in load(folder, **environ).warnings] == [
        "FLEET_PORT is no setting, it has no effect (did you mean FLEET_HTTP_PORT?)",
        "FLEET_RECONCILR is no setting, it has no effect (did you mean FLEET_RECONCILER?)",
    ]


def test_names_of_others_in_the_env_file_are_named(folder: Path) -> None:
    assert load(folder, "TZ=Europe/Berlin").warnings == (Problem(".env", 1, "TZ is no setting, it has no effect"),)


def test_a_token_that_can_be_guessed_is_named_without_being_shown(folder: Path) -> None:
    (warning,) = load(folder, "\nFLEET_ADMIN_TOKEN=hunter2").warnings
    assert (warning.line, "hunter2" in warning.reason) == (2, False)


@pytest.mark.req("RUN-3")
@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_secret_is_printed_nowhere(folder: Path, name: str) -> None:
    secret = "postgresql://fleet:s3cret@db/fleet"
    settings = load(folder, FLEET_ADMIN_TOKEN=secret, FLEET_TOKEN=secret, FLEET_STORE_URL=secret)
    assert settings.store_url == secret
    assert settings.fleet_admin_token is not None
    assert settings.fleet_admin_token.get_secret_value() == secret
    for printed in (repr(settings), str(settings), str(settings.model_dump()), settings.model_dump_json()):
        assert "s3cret" not in printed
    wrong = {name: "oracle://fleet:s3cret@db"} if name == "FLEET_STORE_URL" else {name: "s3cret", "FLEET_ID": "//"}
    with pytest.raises(Misconfigured) as caught:
        load(folder, **wrong)
    assert "s3cret" not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("x.db", "sqlite:////work-dir/x.db"),
        ("/var/x.db", "sqlite:////var/x.db"),
        ("sqlite:///x.db", "sqlite:////work-dir/x.db"),
        ("sqlite:////var/x.db", "sqlite:////var/x.db"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgres://u@h/d", "postgresql://u@h/d"),
        ("postgresql+psycopg://u@h/d?sslmode=require", "postgresql://u@h/d?sslmode=require"),
    ],
)
def test_the_store_is_a_file_or_a_database(folder: Path, address: str, meant: str) -> None:
    assert load(folder, FLEET_STORE_URL=address).store_url == meant


def test_a_store_file_in_the_env_file_lies_beside_it(folder: Path) -> None:
    assert load(folder, "FLEET_STORE_URL=x.db").store_url == f"sqlite:///{folder}/x.db"


def test_the_stores_default_follows_the_data_folder(folder: Path) -> None:
    assert load(folder, "FLEET_DATA_DIR=data").store_url == f"sqlite:///{folder}/data/fleetwarden.db"


@given(
    st.dictionaries(
        st.sampled_from(sorted(set(ALIASES) - {"FLEET_CONFIG"})), st.text(max_size=8) | st.just("1"), max_size=6
    )
)
@example({"FLEET_LEASE_TTL_S": "1"})
@example({"DEPLOY_WATCH_WINDOW": "1"})
@example({"FLEET_HTTP_TLS_KEY_FILE": "key.pem"})
def test_whatever_the_environment_says_it_is_taken_or_refused_with_a_place(environ: dict[str, str]) -> None:
    try:
        settings = load_settings(None, environ, working_dir=Path("/nowhere"))
    except Misconfigured as error:
        reasons = [one.reason for one in error.problems]
        assert reasons
        assert all(reason.startswith(tuple(environ)) for reason in reasons)
    else:
        assert settings.fence_gap_max_s < settings.fleet_lease_ttl_s
        assert set(settings.sources) == {name for name, value in environ.items() if value.strip()}
