#!/usr/bin/env python3
"""Writes what of the Python SDK is made from something else:

    agent_sandbox/errors.py      exceptions, from src/base/errors.def
    agent_sandbox/_ops.py        operations, from src/ops/ops.def and features.def
    agent_sandbox/_sync/*.py     the blocking face, from agent_sandbox/_async/*.py
    docs/reach.md                what calls each operation, from both; an operation that no method reaches is an error

Run it after a change of any of these; tests/checks/python.py compares. Usage: scripts/gen_python.py"""

import ast
import re

import tables

PACKAGE = tables.ROOT / "sdk/python/agent_sandbox"

# Types that have a counterpart among Python's own exceptions: `except FileNotFoundError` finds both.
ALSO = {
    "UsageError": "ValueError",
    "PermissionDeniedError": "builtins.PermissionError",
    "FileNotFoundError": "builtins.FileNotFoundError",
    "TimeoutError": "builtins.TimeoutError",
    "NetworkError": "builtins.ConnectionError",
    "ProviderFeatureNotSupportedError": "NotImplementedError",
}
RETRY = {"YES": "True", "NO": "False", "UNKNOWN": "None"}

# What a hint of the table says to somebody who writes Python; None: the same.
HINTS = {
    "'abx help VERB' shows what is accepted": "the docstring of the method tells what it takes",
    "'abx config list' shows each setting and where it comes from": "Providers().settings() tells each setting and where it comes from",
    "'abx config list' shows what is set": "Providers().settings() tells what is set",
    "'abx ls' lists the sandboxes": "Sandbox.list() lists the sandboxes",
    "'abx jobs ID' lists the processes": "sandbox.commands.list() lists the processes",
    "'abx snapshot ls' lists the snapshots": "sandbox.list_snapshots() lists the snapshots",
    "'abx code ID --contexts' lists them": "sandbox.code.list_contexts() lists them",
    "'abx port ID' lists the ports": "sandbox.ports() lists the ports",
    "'abx ls' shows what lives; its time limit (--timeout) ends a sandbox, too":
        "Sandbox.list() tells what lives; its time limit (timeout=) ends a sandbox, too",
    "'abx doctor' tries each layer and prints the fix": "Upkeep().doctor() tries each layer and tells the fix",
    "'abx info ID' lists what it has": "sandbox.features tells what it has",
    "'abx provider validate DIR' shows all mistakes at once": None,
    "'abx provider validate DIR' checks its manifest": None,
    "please report it with the output of 'abx version --json'": None,
}

ERRORS_HEAD = '''"""Exceptions. Made from the project's table of errors by scripts/gen_python.py.

Every failure is a `SandboxError` with a code and a type that never change. Those with a counterpart in Python are of
that class too: `except FileNotFoundError` finds a file that is missing in a sandbox as it finds one on the disk.
"""

from __future__ import annotations

import builtins
from typing import Any, Dict, Mapping, Optional, Tuple, Type


class SandboxError(Exception):
    """Anything that goes wrong in a call.

    Attributes:
        message: what went wrong, one line.
        code: `E` and four digits; never changes its meaning.
        type: name of the class, as every door of abx tells it.
        hint: what to do about it, or None.
        retryable: the same call may work later; None when that is not known.
    """

    code: str = "E9001"
    type: str = "SandboxError"
    hint: Optional[str] = None
    retryable: Optional[bool] = None

    def __init__(
        self,
        message: str = "",
        *,
        code: Optional[str] = None,
        type: Optional[str] = None,
        hint: Optional[str] = None,
        retryable: Optional[bool] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        if type is not None:
            self.type = type
        if hint is not None:
            self.hint = hint
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message} ({self.code})" + (f"\\nhint: {self.hint}" if self.hint else "")

    def __reduce__(self) -> Tuple[Any, ...]:
        return _again, (self.__class__, self.message, self.code, self.type, self.hint, self.retryable)

    def to_object(self) -> Dict[str, Any]:
        """The error as JSON has it: `{"code", "type", "message", "hint", "retryable"}`; what is not known is absent."""
        out: Dict[str, Any] = {"code": self.code, "type": self.type, "message": self.message}
        if self.hint is not None:
            out["hint"] = self.hint
        if self.retryable is not None:
            out["retryable"] = self.retryable
        return out


def _again(
    cls: Type[SandboxError],
    message: str,
    code: str,
    type: str,
    hint: Optional[str],
    retryable: Optional[bool],
) -> SandboxError:
    return cls(message, code=code, type=type, hint=hint, retryable=retryable)
'''
ERRORS_TAIL = '''

def error_from_object(value: Mapping[str, Any]) -> SandboxError:
    """The exception for an error object `{"code", "type", "message", "hint", "retryable"}`.

    A code that this version does not know gives the class of the type, else a plain `SandboxError`.
    """
    code, name = value.get("code"), value.get("type")
    cls = _BY_CODE.get(str(code)) or _BY_TYPE.get(str(name)) or SandboxError
    hint, retryable = value.get("hint"), value.get("retryable")
    return cls(
        str(value.get("message", "")),
        code=str(code) if code else None,
        type=str(name) if name else None,
        hint=_HINTS.get(str(hint), str(hint)) if hint else None,
        retryable=retryable if isinstance(retryable, bool) else None,
    )
'''


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def errors(t):
    by_type = {}
    for row in t.errors:
        by_type.setdefault(row.type, []).append(row)
    out = [ERRORS_HEAD]
    for name, rows in by_type.items():
        first = rows[0]
        bases = f"SandboxError, {ALSO[name]}" if name in ALSO else "SandboxError"
        texts = "; ".join(f"{row.code}: {row.meaning}" for row in rows)
        out.append(f'\n\nclass {name}({bases}):\n    """{texts[0].upper() + texts[1:]}."""\n\n'
                   f'    code = "{first.code}"\n    type = "{name}"\n    retryable = {RETRY[first.retry]}\n')
    out.append("\n\n_BY_CODE: Dict[str, Type[SandboxError]] = {\n")
    out += [f'    "{row.code}": {row.type},\n' for row in t.errors]
    out.append("}\n_BY_TYPE: Dict[str, Type[SandboxError]] = {cls.type: cls for cls in _BY_CODE.values()}\n")
    lacking = [row.hint for row in t.errors if "'abx " in (row.hint or "") and row.hint not in HINTS]
    if lacking:
        raise SystemExit(f"HINTS of scripts/gen_python.py lacks {lacking}: what does one say in Python?")
    out.append("\n# A hint of the table -> what it says in Python\n_HINTS: Dict[str, str] = {\n")
    out += [f"    {quoted(hint)}: {quoted(said)},\n" for hint, said in HINTS.items() if said is not None]
    out.append("}\n")
    out.append(ERRORS_TAIL)
    return "".join(out)


OPS_HEAD = '''"""The operations. Made from the project's tables by scripts/gen_python.py.

A row: feature that it needs, style, HTTP method and route of the engine, and its parameters: name, type, needed.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, NamedTuple, Tuple


class Op(NamedTuple):
    """A row of the table of operations."""

    feature: str
    style: str
    http: str
    route: str
    params: Tuple[Tuple[str, str, bool], ...]


FEATURES: FrozenSet[str] = frozenset(
    (
'''


def ops(t):
    names = {f.id: f.name for f in t.features}
    out = [OPS_HEAD]
    out += [f"        {quoted(f.name)},\n" for f in t.features]
    out.append("    )\n)\n\nOPS: Dict[str, Op] = {\n")
    for op in t.ops:
        params = [p for p in t.params if p.op == op.id]
        out.append(f"    {quoted(op.method)}: Op(\n        {quoted(names[op.feature])},\n        {quoted(op.style)},\n"
                   f"        {quoted(op.http)},\n        {quoted(op.route)},\n        (\n")
        out += [f"            ({quoted(p.name)}, {quoted(p.type)}, {p.presence == 'REQUIRED'}),\n" for p in params]
        out.append("        ),\n    ),\n")
    out.append("}\n")
    return "".join(out)


# --- the blocking face -------------------------------------------------------------------------------------

SYNC_HEAD = "# Made from _async/{name} by scripts/gen_python.py; change that file.\n"
# Lines between these two marks are of the asyncio face only.
ONLY_ASYNC = re.compile(r"^ *# asyncio only\n.*?^ *# end\n", re.S | re.M)
WORDS = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncIterable\b", "Iterable"),
    (r"\bAsyncGenerator\[([^\[\]]+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\b__aiter__\b", "__iter__"),
    (r"\b__anext__\b", "__next__"),
    (r"\baclose\b", "close"),
    (r"\bastart\b", "start"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b_async\b", "_sync"),
    (r"\bAn asyncio\b", "A"),
    (r"\basyncio_io\b", "blocking_io"),
]


def sync_of(name, text):
    text = ONLY_ASYNC.sub("", text)
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    text = re.sub(r"^from typing import .*$", lambda m: once_each(m[0]), text, flags=re.M)
    return SYNC_HEAD.format(name=name) + text


def once_each(line):
    """An import whose names have become the same."""
    head, names = line.split(" import ")
    return f"{head} import {', '.join(dict.fromkeys(names.split(', ')))}"


# --- what reaches an operation --------------------------------------------------------------------------------

PLACES = {"Commands": "sandbox.commands", "Files": "sandbox.files", "Pty": "sandbox.pty", "Code": "sandbox.code",
          "Sandbox": "sandbox", "Command": "command", "Terminal": "terminal", "Templates": "Templates(…)", "Upkeep": "Upkeep(…)"}
REACH_HEAD = """# How each operation is called

Made from the table of operations and from the Python SDK by scripts/gen_python.py. With asyncio the methods are the same, awaited. Of the engine it is the
route ([engine-api.md](engine-api.md)); what has none is carried by the WebSocket
of a terminal, or is upkeep of this machine. In C every operation is
`abx_call_start` or `abx_provider_call` with its name, as the constant here.

| operation | command line | Python | C | engine |
|---|---|---|---|---|
"""


def methods(t):
    """Operation → names of the public methods that begin it."""
    known, found = {op.method for op in t.ops}, {op.method: [] for op in t.ops}
    for path in sorted((PACKAGE / "_async").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            place = PLACES.get(node.name.replace("Async", "")) if isinstance(node, ast.ClassDef) else None
            for function in node.body if place else ():
                if not isinstance(function, ast.AsyncFunctionDef) or function.name.startswith("_"):
                    continue
                made = any(getattr(d, "id", "") == "classmethod" for d in function.decorator_list)
                name = f"{'Sandbox' if made else place}.{function.name}"
                for inner in ast.walk(function):
                    value = getattr(inner, "value", None)
                    if isinstance(inner, ast.Constant) and value in known and name not in found[value]:
                        found[value].append(name)
    return found


def reach(t):
    found = methods(t)
    lacking = [method for method, names in found.items() if not names]
    if lacking:
        raise SystemExit(f"no method of the Python SDK reaches {', '.join(lacking)}")
    rows = []
    for op in t.ops:
        verbs = ", ".join(f"`{verb}`" for verb in op.cli.split())
        python = ", ".join(f"`{name}`" for name in found[op.method])
        route = f"`{op.http} {op.route}`" if op.route else ""
        rows.append(f"| `{op.method}` | {verbs} | {python} | `ABX_METHOD_{op.id}` | {route} |\n")
    return REACH_HEAD + "".join(rows)


def files():
    """Path below the root → text."""
    t = tables.load()
    made = {"errors.py": errors(t), "_ops.py": ops(t)}
    for path in sorted((PACKAGE / "_async").glob("*.py")):
        made[f"_sync/{path.name}"] = sync_of(path.name, path.read_text(encoding="utf-8"))
    below = {str((PACKAGE / name).relative_to(tables.ROOT)): text for name, text in made.items()}
    return {**below, "docs/reach.md": reach(t)}


def stale():
    """Made files that nothing makes any more."""
    known = files()
    return [str(path.relative_to(tables.ROOT)) for path in sorted((PACKAGE / "_sync").glob("*.py"))
            if str(path.relative_to(tables.ROOT)) not in known]


def main():
    for name, text in files().items():
        path = tables.ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for name in stale():
        (tables.ROOT / name).unlink()


if __name__ == "__main__":
    main()
