"""Parts of a file at providers that are written in Python and give whole files only."""

import asyncio

import pytest

from agent_sandbox import AsyncSandbox, Chunk, Provider, Sandbox, UsageError, register_provider

PIECES = (b"0123", b"4567", b"89")
closed = []


class Plain(Provider):
    id = "whole-files"
    features = ("filesystem",)

    def sandbox_create(self, params):
        return {"id": "box1box1box1"}

    def sandbox_kill(self, params):
        return {}

    def fs_read(self, params):
        assert set(params) == {"sandboxId", "path"}
        try:
            for piece in PIECES:
                yield Chunk("body", piece)
        finally:
            closed.append(params["path"])


class Coroutines(Plain):
    id = "whole-files-later"

    async def fs_read(self, params):
        assert set(params) == {"sandboxId", "path"}
        try:
            for piece in PIECES:
                yield Chunk("body", piece)
        finally:
            closed.append(params["path"])


register_provider(Plain)
register_provider(Coroutines)
WANTED = (({"offset": 3}, "3456789"), ({"limit": 4}, "0123"), ({"offset": 3, "limit": 4}, "3456"), ({"limit": 0}, ""), ({"offset": 10}, ""),
          ({"offset": 9, "limit": 100}, "9"), ({}, "0123456789"))


@pytest.mark.parametrize("provider", ["whole-files", "whole-files-later"])
def test_parts(provider):
    with Sandbox.create(provider=provider) as box:
        for given, want in WANTED:
            assert box.files.read("f", **given) == want
        closed.clear()
        assert box.files.read("early", limit=2) == "01" and closed == ["early"]
        with pytest.raises(UsageError):
            box.files.read("f", offset=-1)


@pytest.mark.parametrize("provider", ["whole-files", "whole-files-later"])
def test_parts_with_asyncio(provider):
    async def run():
        async with await AsyncSandbox.create(provider=provider) as box:
            return [await box.files.read("f", **given) for given, _ in WANTED]

    assert asyncio.run(run()) == [want for _, want in WANTED]
