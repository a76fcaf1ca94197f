"""What the command line does with providers and what is left over, from Python."""

import asyncio
import re

import pytest
from agent_sandbox import AsyncUpkeep, Connection, ProviderIntegrityError, ProviderNotFoundError, Providers, Sandbox, Upkeep
from agent_sandbox._ops import OPS
from agent_sandbox.providers.engine_provider import EngineInfra
from conftest import ROOT


def test_every_operation_has_a_method():
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.*?) \| (.*?) \|", (ROOT / "docs/reach.md").read_text(), re.M)
    assert {method for method, _, _ in rows} == set(OPS)
    assert all(verbs and python for _, verbs, python in rows)


def test_gc_and_doctor():
    layers = Upkeep("local").doctor()
    assert layers and {layer.name: layer.fix for layer in layers if not layer.ok} == {}
    with Sandbox.create(provider="local") as sandbox:
        left = Upkeep("local").gc(dry_run=True)
        assert sandbox.id not in [one.id for one in left + Providers().gc(dry_run=True)]
        assert sandbox.id in [one["id"] for one in Providers().ledger()]

    async def main():
        upkeep = AsyncUpkeep(connection=Connection(provider="local"))
        assert [layer.name for layer in await upkeep.doctor()] == [layer.name for layer in layers]
        assert isinstance(await upkeep.gc(dry_run=True), list)

    asyncio.run(main())


def test_upkeep_of_a_provider_in_the_engine_asks_no_engine(tmp_path):
    from agent_sandbox._sync.transport import unary

    infra = EngineInfra(Connection(provider="local", home=str(tmp_path / "home")))
    assert unary(infra, "provider.gc", {"dryRun": True}) == {"removed": []}
    assert not (tmp_path / "home/engine.json").exists()
    infra.close()


def test_plugins_come_and_go(tmp_path):
    providers = Providers(str(tmp_path / "home"))
    assert [one["id"] for one in providers.list()] == ["local", "alicloud-express"]
    assert providers.info("local")["kind"] == "builtin"
    assert {one["id"] for one in providers.caps()} == {"local", "alicloud-express"}
    toy = str(ROOT / "tests/plugins/toy")
    assert providers.install(toy)["step"] == "new"
    assert [(one["id"], one["ok"]) for one in providers.verify()] == [("toy", True)] == [(one["id"], one["ok"]) for one in providers.verify("toy")]
    (tmp_path / "home/providers/toy/more").write_text("")
    assert providers.verify("toy")[0]["problem"]["code"] == ProviderIntegrityError.code
    assert "provider" in [one["key"] for one in providers.settings()]
    providers.remove("toy")
    with pytest.raises(ProviderNotFoundError):
        providers.remove("toy")
    with pytest.raises(ProviderNotFoundError):
        providers.info("toy")
