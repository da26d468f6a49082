from datetime import timedelta

import pytest
from pydantic import ValidationError

from outhaul.errors import Unavailable
from outhaul.settings import load_settings


@pytest.fixture
def env(monkeypatch):
    def set_all(**values):
        for name, value in values.items():
            monkeypatch.setenv(f"OUTHAUL_{name}", value)

    return set_all


def test_defaults_and_environment(env):
    assert load_settings().retries == (timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10))
    env(RETRY_DELAYS="1, 2.5", DATABASE_URL="postgresql://u:secret@db/x", HIDE_VALUES="true")
    settings = load_settings()
    assert settings.retry_delays == (1, 2.5)
    assert settings.hide_values
    assert settings.outside_database == "postgresql://u:secret@db/x"
    assert settings.outside_source is None
    env(SOURCES='{"crm": "postgresql://u:secret@crm/x"}')
    assert load_settings().named_sources == {"crm": "postgresql://u:secret@crm/x"}
    assert "secret" not in repr(load_settings())
    assert "secret" not in repr(settings)


def test_nothing_changes_afterwards():
    with pytest.raises(ValidationError):
        load_settings().prefect_port = 1


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PREFECT_PORT", "http", "OUTHAUL_PREFECT_PORT: input should be a valid integer"),
        ("PREFECT_PORT", "70000", "OUTHAUL_PREFECT_PORT: input should be less than or equal to 65535"),
        ("RETRY_DELAYS", "1,2,3,4", "OUTHAUL_RETRY_DELAYS: tuple should have at most 3 items"),
        ("RETRY_DELAYS", "soon", "OUTHAUL_RETRY_DELAYS: input should be a valid number"),
        ("LEASE_SECONDS", "0", "OUTHAUL_LEASE_SECONDS: input should be greater than 0"),
        ("LEASE_SECONDS", "90", "OUTHAUL_HEARTBEAT_SECONDS must be at most half of OUTHAUL_LEASE_SECONDS"),
        ("SOURCES", "crm", "OUTHAUL_SOURCES: it is not a JSON object such as"),
        ("SOURCES", '["crm"]', "OUTHAUL_SOURCES: input should be a valid dictionary"),
        ("SOURCES", '{"crm": "mysql://x"}', "OUTHAUL_SOURCES: source 'crm' needs a URL such as postgresql://"),
        ("SOURCES", '{"default": "postgresql://x"}', "OUTHAUL_SOURCES: 'default' cannot be a source's name"),
        ("SOURCES", '{"crm": 1}', "OUTHAUL_SOURCES"),
        ("SOURCE_MAX_JOBS", "0", "OUTHAUL_SOURCE_MAX_JOBS: input should be greater than or equal to 1"),
        ("MAX_ACTIVE_JOBS", "0", "OUTHAUL_MAX_ACTIVE_JOBS: input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_value_is_named(env, name, value, words):
    env(**{name: value})
    with pytest.raises(Unavailable) as caught:
        load_settings()
    assert caught.value.message.startswith(words)
