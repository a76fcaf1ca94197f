#!/usr/bin/env python3
"""Writes docs/operations.md and docs/errors.md from the tables, and the methods in docs/providers/epp.md, the keys in docs/providers/manifest.md, docs/engine-openapi.json, and what scripts/gen_python.py makes. Run it after a change of a table; tests/checks/tables.py
compares."""

import itertools

import gen_constants
import gen_python
import openapi
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


EPP_BEGIN, EPP_END = "<!-- methods -->\n", "<!-- end of methods -->\n"


def epp_examples():
    """Method → lines of its exchange, as a program sends them."""
    found, name = {}, None
    for line in (tables.ROOT / "docs/providers/epp-examples.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            name = line[3:].strip()
            found[name] = []
        elif line[:2] in ("> ", "< "):
            found[name].append(line[:2] + '{"jsonrpc":"2.0",' + line[3:])
    return found


def epp_events(t, op):
    """Name of the notification, and what it holds, of each event and channel of an operation."""
    group = op.method.split(".")[0]
    events = [e for e in t.events if e.op == op.id]
    channels = [e for e in events if e.name in ("stdout", "stderr", "pty", "body")]
    for e in events:
        if e in channels:
            if group == "code":
                yield f'code.event, kind "{e.name}"', "bytes"
            elif len(channels) > 1:
                yield f'{group}.output, channel "{e.name}"', "bytes"
            else:
                yield f"{group}.output", "bytes"
        elif group in ("process", "pty"):
            yield f"{group}.{e.name}", e.text.replace("{stream, ", "{channel, ")
        elif e.name == "change":
            yield "fs.event", e.text
        elif op.method == "code.run" and e.name == "end":
            continue
        else:
            yield f'{group}.event, kind "{e.name}"', e.text


def epp_method(t, op, example):
    yield f"### {op.method}"
    yield f"{op.summary}. Feature `{next(f.name for f in t.features if f.id == op.feature)}`; {STYLES[op.style]}."
    yield ""
    params = [p for p in t.params if p.op == op.id and p.name not in ("reuse", "tied")]
    if params:
        yield from table(
            ["parameter", "type", "needed", "meaning"],
            [(f"`{p.name}`", TYPES[p.type], "yes" if p.presence == "REQUIRED" else "", p.text) for p in params],
        )
    events = list(epp_events(t, op))
    if events:
        yield from table(["notification", "holds besides `stream`"], [(f"`{n}`", text) for n, text in events])
    results = [r for r in t.results if r.op == op.id]
    if results:
        yield from table(
            ["result", "type", "meaning"], [(f"`{r.name}`", TYPES[r.type], r.text) for r in results]
        )
    yield "```epp"
    yield from example
    yield "```"
    yield ""


def epp(t):
    """docs/providers/epp.md with its part about the methods written anew."""
    text = (tables.ROOT / "docs/providers/epp.md").read_text(encoding="utf-8")
    head, rest = text.split(EPP_BEGIN)
    tail = rest.split(EPP_END)[1]
    examples = epp_examples()
    lines = [line for op in t.ops for line in epp_method(t, op, examples[op.method])]
    return head + EPP_BEGIN + "\n" + "\n".join(lines) + EPP_END + tail


MANIFEST_TABLES = {
    "TOP": "The file",
    "RUNTIME": "[runtime]",
    "CONNECTION": "[connection]",
    "OPTION": "[[options]]",
    "REST": "[rest]",
    "LIMITS": "[limits]",
}


def between(text, name, lines):
    """The text with what stands between its marks of this name written anew."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    head, rest = text.split(begin)
    return head + begin + "\n" + "\n".join(lines) + end + rest.split(end)[1]


def manifest_keys(t):
    for name, rows in itertools.groupby(t.keys, key=lambda k: k.table):
        yield f"### {MANIFEST_TABLES[name]}"
        yield ""
        yield from table(
            ["key", "value", "needed", "meaning"],
            [(f"`{k.name}`", k.expected, "yes" if k.needed == "ALWAYS" else "", k.text) for k in rows],
        )


def manifest(t):
    """docs/providers/manifest.md with its keys and features written anew."""
    text = (tables.ROOT / "docs/providers/manifest.md").read_text(encoding="utf-8")
    features = table(["feature", "means"], [(f"`{f.name}`", f.text) for f in t.features])
    return between(between(text, "keys", manifest_keys(t)), "features", features)


def pages():
    """Path below the checkout → text, of every page that is made from tables."""
    t = tables.load()
    return {
        "docs/operations.md": "\n".join(operations(t)).rstrip("\n") + "\n",
        "docs/errors.md": "\n".join(errors(t)).rstrip("\n") + "\n",
        "docs/providers/epp.md": epp(t),
        "docs/providers/manifest.md": manifest(t),
        "docs/engine-openapi.json": openapi.page(t),
        "include/abx/constants.h": gen_constants.header(t),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (tables.ROOT / name).write_text(text, encoding="utf-8")
    gen_python.main()
