"""Models by name: which are known, what each needs, and that nothing is opened before its use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.providers.directory import ProviderDirectory
from app.providers.endpoint import Endpoint, ModelName, parse_model
from app.providers.script import ScriptProvider
from app.turn.ports import FailureKind, ProviderError
from tests.providers.played import NotedClock, reply
from tests.providers.vendors import REQUEST

SERVERS = {name: Endpoint(base_url="http://127.0.0.1:9/v1") for name in ("ollama", "a/b", "c:d")}
DIRECTORY = ProviderDirectory(NotedClock(), compatible=SERVERS)

KNOWN = ["script", "openai:gpt-x", "anthropic:claude-x", "google:gemini-x", "compatible:ollama"]
UNKNOWN = ["nobody:x", "openai", "openai:", "compatible:", "compatible:gone", "compatible:ollama/"]
UNKNOWN += ["Script", "script:", "", "gpt-x", "compatible:gone/m", "compatible"]


@pytest.mark.parametrize("model", KNOWN)
def test_a_model_of_a_vendor_or_a_server_is_known(model: str) -> None:
    assert DIRECTORY.knows(model)


def test_vendors_models_search_and_those_of_compatible_servers_do_not() -> None:
    searching = [model for model in (*KNOWN, *UNKNOWN) if DIRECTORY.can_search(model)]
    assert searching == ["script", "openai:gpt-x", "anthropic:claude-x", "google:gemini-x"]


@pytest.mark.parametrize("model", UNKNOWN)
async def test_any_other_model_is_refused_when_named_and_when_asked(model: str) -> None:
    assert not DIRECTORY.knows(model)
    with pytest.raises(ProviderError, match="not configured here") as refused:
        await anext(DIRECTORY.provider(model).stream(REQUEST))
    assert refused.value.kind is FailureKind.BAD_REQUEST


def test_a_compatible_name_is_its_server_and_its_model_unless_a_model_follows() -> None:
    servers = frozenset(SERVERS)
    parsed = {text: parse_model(f"compatible:{text}", servers) for text in ("a/b", "ollama/q:8b")}
    assert parsed == {
        "a/b": ModelName("compatible", "a/b", server="a/b"),
        "ollama/q:8b": ModelName("compatible", "q:8b", server="ollama"),
    }
    assert ModelName("compatible", "m", server="c:d").owner == "compatible-c_d"
    assert ModelName("openai", "m").owner == "openai"


def test_script_is_played_here() -> None:
    assert isinstance(DIRECTORY.provider("script"), ScriptProvider)


@pytest.mark.parametrize("model", ["openai:gpt-x", "anthropic:claude-x", "google:gemini-x"])
async def test_a_vendor_without_a_key_fails_as_auth_when_asked(model: str) -> None:
    for vendors in ({}, {model.partition(":")[0]: Endpoint(api_key="")}):
        directory = ProviderDirectory(NotedClock(), vendors=vendors)
        replied = await reply(directory.provider(model), REQUEST)
        await directory.aclose()
        assert replied.error is not None
        assert replied.error.kind is FailureKind.AUTH


def test_a_key_is_not_shown() -> None:
    assert "sk-secret" not in repr(Endpoint(api_key="sk-secret"))


def test_a_deployment_of_scripts_does_not_load_the_vendors() -> None:
    program = (
        "import sys, app.providers.directory as d\n"
        "d.ProviderDirectory(None).provider('script')\n"
        "print([name for name in ('pydantic_ai', 'openai', 'anthropic') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout.strip() == b"[]"
