#!/usr/bin/env python3
"""Reads the cases of the conformance suite as strictly as an interpreter must: no unknown member, names in order, the
features of the operations listed, each operation used or excused with a reason, each group on its page."""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import tables  # noqa: E402

SUITE = ROOT / "tests/conformance"
PAGE = (ROOT / "docs/providers/conformance.md").read_text(encoding="utf-8")
DOORS = {"cli", "engine"}
CHANNELS = {"stdout", "stderr", "pty", "body"}
STEPS = {
    "call": {"params", "input", "deadlineMs", "expect", "save", "eventually"},
    "start": {"as", "params", "input", "deadlineMs", "paused"},
    "await": {"event", "save"} | CHANNELS,
    "end": {"expect", "save"},
    "feed": {"input", "close"},
    "cancel": set(),
    "pause": set(),
    "resume": set(),
    "sleepMs": set(),
    "check": {"is"},
    "repeat": {"steps"},
    "parallel": {"steps"},
}
CASE = {"name", "title", "needs", "programs", "sandbox", "steps", "cleanup", "notOver", "limitMs"}
EXPECT = {"result", "error", "events", "eventsHave", "order"} | CHANNELS
MADE = {"text", "base64", "hex", "repeat", "times", "pattern", "seed", "join"}
EXPECTED = {"length", "contains", "startsWith", "endsWith", "lacks", "sha256", "oneOf"}
RULES = {"$type", "$absent", "$oneOf", "$not", "$min", "$max", "$length", "$prefix", "$suffix", "$contains", "$has",
         "$lacks", "$fromNowMs"}

problems = []


def expect(holds, where, text):
    if not holds:
        problems.append(f"{where}: {text}")


def check_members(where, obj, allowed):
    for name in sorted(set(obj) - allowed - {"note"}):
        problems.append(f"{where}: unknown member '{name}'")


def check_value(where, value):
    if isinstance(value, list):
        for item in value:
            check_value(where, item)
    if isinstance(value, dict):
        for name, item in value.items():
            expect(not name.startswith("$") or name in RULES, where, f"unknown rule '{name}'")
            check_value(where, item)


def check_bytes(where, spec, expected):
    if isinstance(spec, str):
        return
    check_members(where, spec, MADE | (EXPECTED if expected else set()))
    for name in {"repeat", "contains", "startsWith", "endsWith", "lacks"} & set(spec):
        check_bytes(where, spec[name], False)
    for part in spec.get("join", []):
        check_bytes(where, part, False)
    for part in spec.get("oneOf", []):
        check_bytes(where, part, True)


def check_expect(where, what, allowed):
    check_members(where, what, allowed)
    for name, value in what.items():
        if name in CHANNELS:
            check_bytes(where, value, True)
        elif name in EXPECT or name == "event":
            check_value(where, value)


def check_step(where, step, ops, used):
    kind = next(iter(step), None)
    if kind == "note":
        kind = list(step)[1]
    expect(kind in STEPS, where, f"a step of kind '{kind}'")
    if kind not in STEPS:
        return
    check_members(where, step, STEPS[kind] | {kind})
    if kind in ("call", "start"):
        used.add(step[kind])
        op = ops.get(step[kind])
        expect(op, where, f"there is no operation '{step[kind]}'")
        expect("input" not in step or not op or op.style in ("BODY_IN", "DUPLEX"), where, f"{step[kind]} takes no bytes")
        expect((kind == "call") or "as" in step, where, "a started call needs a name: 'as'")
    if "input" in step:
        check_bytes(where, step["input"], False)
    if "expect" in step:
        check_expect(where, step["expect"], EXPECT)
    if kind == "await":
        check_expect(where, {k: v for k, v in step.items() if k in CHANNELS | {"event"}}, CHANNELS | {"event"})
    if "is" in step:
        check_value(where, step["is"])
    lists = step.get("parallel") if isinstance(step.get("parallel"), list) else [step.get("steps", [])]
    for steps in lists:
        check_steps(where, steps, ops, used)


def check_steps(where, steps, ops, used):
    for number, step in enumerate(steps, 1):
        check_step(f"{where}, step {number}", step, ops, used)


def check_case(where, case, group, ops, features):
    check_members(where, case, CASE)
    name = case.get("name", "")
    expect(re.fullmatch(re.escape(group) + r"\.[a-z0-9-]+", name), where, f"the name '{name}'")
    expect(case.get("title") and case["title"][-1] != ".", where, "a title is one sentence without a full stop")
    expect(case.get("steps"), where, "no steps")
    sandbox = case.get("sandbox", {})
    expect(isinstance(sandbox, dict) or sandbox == "none", where, "'sandbox' is an object or \"none\"")
    for door, why in case.get("notOver", {}).items():
        expect(door in DOORS, where, f"there is no door '{door}'")
        expect(len(why) > 10, where, "'notOver' says why")
    used = set()
    check_steps(where, case.get("steps", []) + case.get("cleanup", []), ops, used)
    needs = set(case.get("needs", []))
    for word in sorted(needs - features - {"flow"}):
        problems.append(f"{where}: there is no feature '{word}'")
    asked = {ops[u].feature_name for u in used if u in ops} - {"sandbox"}
    for word in sorted(asked - needs):
        problems.append(f"{where}: its operations need '{word}'")
    return used


def main():
    t = tables.load()
    names = {f.id: f.name for f in t.features}
    ops = {op.method: op for op in t.ops}
    for op in t.ops:
        op.feature_name = names[op.feature]
    suite = json.loads((SUITE / "suite.json").read_text(encoding="utf-8"))
    check_members("suite.json", suite, {"version", "groups", "withoutSandbox", "optional", "uncovered"})
    groups = [g["name"] for g in suite["groups"]]
    seen, used = set(), set()
    for path in sorted((SUITE / "cases").glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        check_members(path.name, data, {"group", "cases"})
        expect(data["group"] in groups and path.stem == data["group"], path.name, "its group is not in suite.json")
        for case in data["cases"]:
            where = f"{path.name}: {case.get('name')}"
            expect(case.get("name") not in seen, where, "the name is there twice")
            seen.add(case.get("name"))
            used |= check_case(where, case, data["group"], ops, set(names.values()))
    for group in suite["groups"]:
        line = f"| `{group['name']}` | {group['about']} |"
        expect(line in PAGE, "docs/providers/conformance.md", f"the line '{line}' is missing")
    with_sandbox = {p.op for p in t.params if p.name == "sandboxId" and p.presence == "REQUIRED"}
    without = {op.method for op in t.ops if op.id not in with_sandbox}
    expect(without == set(suite["withoutSandbox"]), "suite.json", f"'withoutSandbox' must be {sorted(without)}")
    optional = {(op.method, p.name) for op in t.ops for p in t.params if p.op == op.id and p.name != "sandboxId"}
    for method, names_of in suite["optional"].items():
        for name in names_of:
            expect((method, name) in optional, "suite.json", f"{method} has no '{name}'")
    for method in sorted(set(ops) - used):
        expect(len(suite["uncovered"].get(method, "")) > 10, "suite.json", f"no case uses {method}")
    for method in suite["uncovered"]:
        expect(method in ops and method not in used, "suite.json", f"{method} needs no excuse")
    for rule in sorted(RULES | EXPECTED | MADE | set(STEPS)):
        expect(f"`{rule}`" in PAGE or f'"{rule}"' in PAGE, "docs/providers/conformance.md", f"'{rule}' is not explained")
    if problems:
        print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
