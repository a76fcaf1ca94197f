#!/usr/bin/env python3
"""Walks the tables of src/: names, codes and routes are unique and well formed; each operation has a gate, documented
parameters, an implementation, a way to it from the command line and its page; the pages made from tables are fresh."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import gen_docs  # noqa: E402
import tables  # noqa: E402

OPS, FEATURES, ERRORS = "src/ops/ops.def", "src/ops/features.def", "src/base/errors.def"
EMULATE = "src/host/emulate.c"
SETTINGS = "src/host/settings.def"
EXIT_CODES = set(range(1, 13)) | {130}
# Operations that the command line reaches by another one: operation, why.
BY_ANOTHER = {
    "PROCESS_CLOSE_STDIN": "process.stdin closes it at its end (parameter close)",
}
# Operations that name no sandbox.
WITHOUT_SANDBOX = {"SANDBOX_CREATE", "SANDBOX_LIST", "PROVIDER_GC", "PROVIDER_DOCTOR", "SANDBOX_TEMPLATE_LIST",
                   "SANDBOX_TEMPLATE_INFO", "SANDBOX_SNAPSHOT_LIST", "SANDBOX_SNAPSHOT_REMOVE", "SANDBOX_TEMPLATE_ADD", "SANDBOX_TEMPLATE_REMOVE"}
STYLES = {"UNARY", "STREAM", "BODY_IN", "BODY_OUT", "DUPLEX"}
TYPES = {"STRING", "BOOL", "INT", "ARGV", "MAP", "BYTES", "LIST", "OBJECT", "NUMBER"}

problems = []


def place(file, word):
    """file:line of the first line of a table that holds the word."""
    for number, line in enumerate((ROOT / file).read_text().splitlines(), 1):
        if word in line and not line.lstrip().startswith("*"):
            return f"{file}:{number}"
    return file


def expect(holds, file, word, text):
    if not holds:
        problems.append(f"{place(file, word)}: {text}")


def unique(file, what, values):
    seen = set()
    for value in values:
        expect(value not in seen, file, str(value), f"{what} '{value}' is there twice")
        seen.add(value)


def sources(*folders):
    return "\n".join(
        path.read_text() for folder in folders for path in sorted((ROOT / folder).rglob("*.c"))
    )


def check_fields(t, op):
    here = f"ABX_OP({op.id},"
    params = [p for p in t.params if p.op == op.id]
    unique(OPS, f"parameter of {op.method}", [p.name for p in params])
    for field in params + [r for r in t.results if r.op == op.id]:
        expect(re.fullmatch(r"[a-z][a-zA-Z0-9]*", field.name), OPS, here, f"'{field.name}' is not camelCase")
        expect(field.type in TYPES, OPS, here, f"'{field.name}' has an unknown type {field.type}")
        expect(field.text.strip(), OPS, here, f"'{field.name}' is not explained")
    for param in params:
        expect(param.presence in ("REQUIRED", "OPTIONAL"), OPS, here, f"'{param.name}': {param.presence}")
    needs = any(p.name == "sandboxId" and p.presence == "REQUIRED" for p in params)
    expect(needs != (op.id in WITHOUT_SANDBOX), OPS, here, "sandboxId must be required, or the operation be listed as without")
    events = [e.name for e in t.events if e.op == op.id]
    unique(OPS, f"event of {op.method}", events)
    if op.style in ("STREAM", "DUPLEX"):
        expect("started" in events, OPS, here, "a stream begins with the event 'started'")
    elif op.style == "BODY_OUT":
        expect(events == ["body"], OPS, here, "bytes out travel on the channel 'body'")
    else:
        expect(not events, OPS, here, "only streams have events")


def check_ops(t):
    features = {f.id for f in t.features}
    verbs = {v.name.split()[0] for v in t.verbs}
    adapters, cli = sources("src/adapters", "src/e2b"), sources("src/doors/cli")
    unique(OPS, "id", [op.id for op in t.ops])
    unique(OPS, "method", [op.method for op in t.ops])
    unique(OPS, "route", [f"{op.http} {op.route}" for op in t.ops if op.route])
    for op in t.ops:
        here = f"ABX_OP({op.id},"
        expect(re.fullmatch(r"[a-z]+\.[a-z_]+", op.method), OPS, here, f"'{op.method}' is not group.snake_case")
        expect(op.id == op.method.upper().replace(".", "_"), OPS, here, "id and method differ")
        expect(op.feature in features, OPS, here, f"the gate does not know {op.feature}")
        expect(op.style in STYLES, OPS, here, f"unknown style {op.style}")
        expect(bool(op.http) == bool(op.route), OPS, here, "an HTTP method and a route go together")
        expect(not op.route or op.route.startswith("/v1/"), OPS, here, f"route '{op.route}'")
        expect(op.summary and op.summary[-1] != ".", OPS, here, "a summary is one line without a full stop")
        expect(op.cli.split(), OPS, here, "no verb reaches it")
        for verb in op.cli.split():
            expect(verb in verbs, OPS, here, f"there is no verb '{verb}'")
        call = re.compile(rf"\bABX_OP_{op.id}\b")
        expect(call.search(adapters), OPS, here, "no adapter implements it")
        expect(call.search(cli) or op.id in BY_ANOTHER, OPS, here, "the command line never calls it")
        check_fields(t, op)
    known = {op.id for op in t.ops}
    for field in t.params + t.results + t.events:
        expect(field.op in known, OPS, f"({field.op},", f"'{field.name}' belongs to no operation")


def check_features(t):
    # one of parameters is asked for where the host stands in for it
    used = {op.feature for op in t.ops} | set(re.findall(r"ABX_FEATURE_(\w+)", (ROOT / EMULATE).read_text()))
    unique(FEATURES, "id", [f.id for f in t.features])
    unique(FEATURES, "name", [f.name for f in t.features])
    for feature in t.features:
        here = f"ABX_FEATURE({feature.id},"
        expect(re.fullmatch(r"[a-z]+(\.[a-z]+)?", feature.name), FEATURES, here, f"'{feature.name}'")
        expect(feature.text.strip(), FEATURES, here, "not explained")
        expect(feature.id in used, FEATURES, here, "no operation asks for it")


def check_errors(t):
    unique(ERRORS, "id", [e.id for e in t.errors])
    unique(ERRORS, "code", [e.code for e in t.errors])
    codes = [e.code for e in t.errors]
    expect(codes == sorted(codes), ERRORS, "ABX_ERR(", "the codes are not in order")
    for error in t.errors:
        here = f"ABX_ERR({error.id},"
        expect(re.fullmatch(r"E[1-9]\d{3}", error.code), ERRORS, here, f"code '{error.code}'")
        expect(re.fullmatch(r"[A-Z][A-Za-z]+Error", error.type), ERRORS, here, f"type '{error.type}'")
        expect(400 <= error.http <= 599, ERRORS, here, f"status {error.http}")
        expect(error.exit in EXIT_CODES, ERRORS, here, f"exit code {error.exit}")
        expect(error.retry in ("YES", "NO", "UNKNOWN"), ERRORS, here, f"retryable {error.retry}")
        expect(error.meaning and error.meaning[-1] != ".", ERRORS, here, "a meaning is one line without a full stop")


def check_settings(t):
    page = (ROOT / "docs/config.md").read_text()
    unique(SETTINGS, "key", [f"{s.provider or '.'}.{s.key}" for s in t.settings])
    for setting in t.settings:
        here = f'"{setting.key}"'
        words = [setting.key, setting.env, setting.default, *(setting.choices or "").split("|")]
        if setting.type == "BOOL":
            words.remove(setting.default)
        for word in filter(None, words):
            expect(f"`{word}`" in page, SETTINGS, here, f"docs/config.md does not name `{word}`")


def check_pages():
    for name, text in {**gen_docs.pages(), **gen_docs.gen_python.files()}.items():
        path = ROOT / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            problems.append(f"{name}:1: not what the tables give now: run scripts/gen_docs.py")


def main():
    t = tables.load()
    check_ops(t)
    check_features(t)
    check_errors(t)
    check_settings(t)
    check_pages()
    if problems:
        print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
