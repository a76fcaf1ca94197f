"""Code whose state is kept between runs."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from .._capture import CAPTURE_LIMIT, Capture, Decoder
from .._check import checked
from .._infra import Infra
from .._items import Chunk
from ..types import CodeContext, CodeError, CodeResult, Execution, execution, objects
from .commands import Callback, Path, milliseconds, tell
from .transport import AsyncStream, begin, unary

ContextRef = Union[str, CodeContext]


def context_id(context: ContextRef) -> str:
    return context.id if isinstance(context, CodeContext) else context


@checked
class AsyncCode:
    """Code of a sandbox: `sandbox.code`."""

    def __init__(self, infra: Infra, sandbox: str) -> None:
        self._infra = infra
        self._sandbox = sandbox

    async def run(
        self,
        code: str,
        *,
        language: Optional[str] = None,
        context: Optional[ContextRef] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
        on_result: Optional[Callable[[CodeResult], Any]] = None,
        on_error: Optional[Callable[[CodeError], Any]] = None,
        capture_limit: int = CAPTURE_LIMIT,
    ) -> Execution:
        """Run code; what it defines is there for the next run.

        Args:
            code: the text to run, at most 16 MiB.
            language: `python` (default), `javascript` or `bash`: the language's own context.
            context: a context instead of a language.
            env: more environment, for this run only.
            timeout: seconds after which it is interrupted, its state kept; 0: no limit.
            on_stdout, on_stderr: called with each piece of text as it comes.
            on_result, on_error: called with each value that it shows, and with its error.
            capture_limit: bytes of output that are kept, each.

        Returns:
            Its results, output and error. Code that fails raises nothing here: `execution.error` tells.
        """
        params: Dict[str, Any] = {"sandboxId": self._sandbox, "code": code}
        if language is not None:
            params["language"] = language
        if context is not None:
            params["contextId"] = context_id(context)
        if env:
            params["env"] = dict(env)
        if timeout is not None:
            params["timeoutMs"] = milliseconds(timeout)
        kept = {"stdout": Capture(capture_limit), "stderr": Capture(capture_limit)}
        decoders = {"stdout": Decoder(), "stderr": Decoder()}
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        results: List[CodeResult] = []
        failed: Optional[CodeError] = None
        stream = AsyncStream(await begin(self._infra, "code.run", params))
        try:
            while True:
                item = await stream._next()
                if item is None:
                    break
                if isinstance(item, Chunk):
                    if item.channel in kept:
                        kept[item.channel].add(item.data)
                        text = decoders[item.channel].text(item.data)
                        if text:
                            await tell(callbacks[item.channel], text)
                elif item.type == "result":
                    results.append(CodeResult.from_object(item.value))
                    await tell(on_result, results[-1])
                elif item.type == "error":
                    failed = CodeError.from_object(item.value)
                    await tell(on_error, failed)
        finally:
            await stream.aclose()
        return execution(
            results,
            (kept["stdout"].value(), kept["stdout"].gap),
            (kept["stderr"].value(), kept["stderr"].gap),
            failed,
            stream._end or {},
        )

    async def interrupt(self, context: ContextRef = "python") -> bool:
        """Interrupt what a context (or a language's own) runs; a second time ends its kernel. False when nothing ran."""
        result = await unary(
            self._infra, "code.interrupt", {"sandboxId": self._sandbox, "contextId": context_id(context)}
        )
        return result.get("interrupted") is True

    async def create_context(
        self, language: Optional[str] = None, *, cwd: Optional[Path] = None, env: Optional[Mapping[str, str]] = None
    ) -> CodeContext:
        """Make a context: a state of its own.

        Args:
            language: `python` (default), `javascript`, `bash`.
            cwd: working directory.
            env: more environment, for all its runs.
        """
        params: Dict[str, Any] = {"sandboxId": self._sandbox}
        if language is not None:
            params["language"] = language
        if cwd is not None:
            params["cwd"] = os.fsdecode(cwd)
        if env:
            params["env"] = dict(env)
        return CodeContext.from_object(await unary(self._infra, "code.context_create", params))

    async def list_contexts(self) -> List[CodeContext]:
        """The contexts, in the order of their making."""
        result = await unary(self._infra, "code.context_list", {"sandboxId": self._sandbox})
        return [CodeContext.from_object(one) for one in objects(result.get("contexts"))]

    async def restart_context(self, context: ContextRef) -> None:
        """Give a context (or a language's own) a fresh kernel."""
        await unary(
            self._infra, "code.context_restart", {"sandboxId": self._sandbox, "contextId": context_id(context)}
        )

    async def remove_context(self, context: ContextRef) -> None:
        """End a context and all that it started."""
        await unary(self._infra, "code.context_remove", {"sandboxId": self._sandbox, "contextId": context_id(context)})
