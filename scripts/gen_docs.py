#!/usr/bin/env python3
"""Writes docs/operations.md and docs/errors.md from the tables. Run it after a change of a table; tests/checks/tables.py
compares."""

import itertools

import tables

GROUPS = {
    "sandbox": "Sandboxes",
    "process": "Processes",
    "fs": "Files",
    "pty": "Terminals",
    "code": "Code with kept state",
    "provider": "The backend itself",
}
STYLES = {
    "UNARY": "one answer",
    "STREAM": "events and bytes, then a result",
    "BODY_IN": "bytes in, then a result",
    "BODY_OUT": "bytes out, then a result",
    "DUPLEX": "bytes both ways, then a result",
}
TYPES = {
    "STRING": "text",
    "BOOL": "true or false",
    "INT": "whole number",
    "ARGV": "list of text, or text with `shell`",
    "MAP": "object of text",
    "BYTES": '`{"text"}` or `{"base64"}`',
    "LIST": "list",
    "OBJECT": "object",
    "NUMBER": "number",
}
BANDS = {
    "1": "Usage and configuration",
    "2": "Credentials",
    "3": "Not found",
    "4": "Conflicts and limits",
    "5": "Deadline and cancel",
    "6": "Network and backend",
    "7": "Local isolation",
    "8": "Providers",
    "9": "A bug of ours",
}
RETRY = {"YES": "yes", "NO": "no", "UNKNOWN": ""}


def cell(text):
    return (text or "").replace("|", "\\|").replace("\n", " ")


def table(headers, rows):
    yield "| " + " | ".join(headers) + " |"
    yield "|" + "---|" * len(headers)
    for row in rows:
        yield "| " + " | ".join(cell(c) for c in row) + " |"
    yield ""


def operation(t, op):
    params = [p for p in t.params if p.op == op.id]
    results = [r for r in t.results if r.op == op.id]
    events = [e for e in t.events if e.op == op.id]
    verbs = ", ".join(f"`abx {verb}`" for verb in op.cli.split())
    feature = next(f.name for f in t.features if f.id == op.feature)
    yield f"### `{op.method}`"
    yield f"{op.summary}. Feature `{feature}`; {STYLES[op.style]}; used by {verbs}."
    yield ""
    if params:
        yield from table(
            ["parameter", "type", "needed", "meaning"],
            [(f"`{p.name}`", TYPES[p.type], "yes" if p.presence == "REQUIRED" else "", p.text) for p in params],
        )
    if events:
        yield from table(["event or channel", "holds"], [(f"`{e.name}`", e.text) for e in events])
    if results:
        yield from table(
            ["result", "type", "meaning"], [(f"`{r.name}`", TYPES[r.type], r.text) for r in results]
        )


def operations(t):
    yield "# Operations"
    yield ""
    yield "What a sandbox can do. Each operation is a row of `src/ops/ops.def`; `scripts/gen_docs.py` made this page from it."
    yield "JSON names are camelCase; times are milliseconds and say so. An unknown parameter is an error."
    yield ""
    yield "## Features"
    yield "A provider has a feature or it has not, known before a call: `abx info` shows it. A call for what is missing fails"
    yield "with E8004 before anything is sent."
    yield ""
    yield from table(["feature", "means"], [(f"`{f.name}`", f.text) for f in t.features])
    for group, ops in itertools.groupby(t.ops, key=lambda op: op.method.split(".")[0]):
        yield f"## {GROUPS[group]}"
        yield ""
        for op in ops:
            yield from operation(t, op)


def errors(t):
    yield "# Errors"
    yield ""
    yield "Every failure has a code and a type that never change. Each is a row of `src/base/errors.def`; `scripts/gen_docs.py`"
    yield "made this page from it. *Exit* is the exit code of a verb; `run`, `exec`, `shell` and `code` end with 125 instead (2 for a"
    yield "wrong command line) and show this number as `exitCode` with `--json`. *Retry*: the same call may work later."
    yield ""
    for band, rows in itertools.groupby(t.errors, key=lambda e: e.code[1]):
        yield f"## E{band}: {BANDS[band]}"
        yield ""
        yield from table(
            ["code", "type", "exit", "retry", "meaning", "what to do"],
            [(e.code, f"`{e.type}`", str(e.exit), RETRY[e.retry], e.meaning, e.hint) for e in rows],
        )


def pages():
    """Path below the checkout → text, of every page that is made from tables."""
    t = tables.load()
    return {
        "docs/operations.md": "\n".join(operations(t)).rstrip("\n") + "\n",
        "docs/errors.md": "\n".join(errors(t)).rstrip("\n") + "\n",
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (tables.ROOT / name).write_text(text, encoding="utf-8")
