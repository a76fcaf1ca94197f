"""Whose a sandbox is: as `abx` finds it."""

import asyncio
import json
import os
import subprocess

import pytest
from agent_sandbox import AsyncSandbox, Connection, InvalidAPIKeyError, Sandbox, SandboxNotFoundError
from agent_sandbox._native import find_sandbox
from conftest import BUILD

STRANGE = "zzzzzzzzzzzz0000"  # made by nobody


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A home that nothing was made in, and no key."""
    for name in [name for name in os.environ if name.startswith(("ABX_", "E2B_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ABX_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def told_by_abx(*words):
    done = subprocess.run([BUILD / "abx", *words, "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stderr)["error"]


@pytest.mark.parametrize("word", [STRANGE, "a-name", "0d3f7c1e-1b7c-4f0e-9a3e-7f7a7c9d1e2f"])
def test_a_stranger_is_told_as_abx_tells_it(bare, word):
    with pytest.raises(SandboxNotFoundError) as raised:
        Sandbox.connect(word)
    told, by_abx = raised.value.to_object(), told_by_abx("info", word)
    assert told.pop("hint") in (by_abx.pop("hint"), "Sandbox.list() lists the sandboxes")  # which is that of abx, in Python
    assert {**told, "exitCode": 3} == by_abx
    assert raised.value.code == "E3001" and word in raised.value.message
    assert word == "a-name" or "provider=" in raised.value.hint
    with pytest.raises(SandboxNotFoundError):
        asyncio.run(AsyncSandbox.connect(word))


def test_who_names_a_provider_is_sent_there(bare, monkeypatch):
    with pytest.raises(InvalidAPIKeyError):
        Sandbox.connect(STRANGE, provider="alicloud-express")
    with pytest.raises(SandboxNotFoundError) as raised:
        Sandbox.connect(STRANGE, provider="local")
    assert "does not live" in raised.value.message
    monkeypatch.setenv("ABX_PROVIDER", "alicloud-express")
    with pytest.raises(InvalidAPIKeyError):
        Sandbox.connect(STRANGE)
    with pytest.raises(SandboxNotFoundError):
        Sandbox.connect("a-name")  # no id: nobody is asked


def test_names_and_beginnings(bare):
    with Sandbox.create(provider="local", name="mine") as one:
        assert find_sandbox("mine", Connection()) == {"id": one.id, "provider": "local"}
        for word in (one.id, one.id[:10], "mine"):
            with Sandbox.connect(word) as same:
                assert (same.id, same.name) == (one.id, "mine")
        with pytest.raises(SandboxNotFoundError):
            Sandbox.connect("")
