"""`abx schema` is what the program does: what every verb prints with --json has the fields and types that it lists, errors have
their form, and nothing else goes to stdout."""

import re

import pytest

from harness import wait_for

RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"

# What each verb is run with. BOX and JOB are a sandbox and an ended job of it, NEW a name that does not exist.
RUNS = {
    "run": ["run", "--json", "--", "sh", "-c", "echo out; echo err >&2; printf '\\377'"],
    "create": ["create", "--json", "--name", "NEW", "-l", "a=b", "--timeout", "1h"],
    "ls": ["ls", "--json"],
    "info": ["info", "--json", "BOX"],
    "exec": ["exec", "--json", "BOX", "--", "sh", "-c", "kill -TERM $$"],
    "shell": ["shell", "--json", "BOX"],
    "cp": ["cp", "--json", "BOX:/etc/hostname", "copied"],
    "files ls": ["files", "ls", "--json", "BOX:/etc"],
    "files write": ["files", "write", "--json", "BOX:/work/new"],
    "files rm": ["files", "rm", "--json", "BOX:/work/new"],
    "files mkdir": ["files", "mkdir", "--json", "BOX:/work/a", "BOX:/work/b"],
    "files mv": ["files", "mv", "--json", "BOX:/work/a", "BOX:/work/c"],
    "files stat": ["files", "stat", "--json", "BOX:/etc/mtab"],
    "files watch": ["files", "watch", "--json", "BOX:/work"],
    "jobs": ["jobs", "--json", "BOX"],
    "logs": ["logs", "--json", "--timestamps", "BOX", "JOB", "JOB"],
    "signal": ["signal", "--json", "BOX", "SLEEPER", "term"],
    "wait": ["wait", "--json", "BOX", "SLEEPER"],
    "extend": ["extend", "--json", "BOX", "2h"],
    "gc": ["gc", "--json", "--dry-run"],
    "doctor": ["doctor", "--json"],
    "config list": ["config", "list", "--json"],
    "config get": ["config", "get", "--json", "provider"],
    "config set": ["config", "set", "--json", "color", "auto"],
    "config unset": ["config", "unset", "--json", "color"],
    "config path": ["config", "path", "--json"],
    "config trust": ["config", "trust", "--json"],
    "context": ["context", "--json"],
    "version": ["version", "--json"],
    "pause": ["pause", "--json", "NEW"],
    "resume": ["resume", "--json", "NEW"],
    "kill": ["kill", "--json", "NEW"],
    "stats": ["stats", "--json", "BOX"],
    "fork": ["fork", "--json", "BOX"],
    "snapshot create": ["snapshot", "create", "--json", "BOX"],
    "snapshot ls": ["snapshot", "ls", "--json"],
    "port": ["port", "--json", "BOX"],
    "sync": ["sync", "--json", "FOLDER", "BOX:/work/synced"],
    "template add": ["template", "add", "--json", "NEW", "FOLDER"],
    "template ls": ["template", "ls", "--json"],
    "template info": ["template", "info", "--json", "NEW"],
}
CODES = {"exec": 143, "wait": 143}
# Verbs whose own tests compare them with the schema.
ELSEWHERE = ("code", "provider", "e2b", "network")


def check_value(schema, kind, value, where):
    if value is None:
        return  # not known
    if kind.endswith("[]"):
        assert isinstance(value, list), where
        for item in value:
            check_value(schema, kind[:-2], item, where)
    elif kind in schema["objects"]:
        check_object(schema, kind, value, where)
    else:
        types = {"string": str, "any": object, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "time": str}
        assert kind in types, f"{where}: the schema knows no type '{kind}'"
        assert isinstance(value, types[kind]), (where, kind, value)
        if kind == "time":
            assert re.fullmatch(RFC3339, value), (where, value)


def check_object(schema, name, value, where):
    fields = schema["objects"][name]["fields"]
    assert isinstance(value, dict), where
    unknown = set(value) - set(fields)
    assert not unknown, f"{where}: {name} has {unknown}, which the schema does not list"
    for key, item in value.items():
        check_value(schema, fields[key]["type"], item, f"{where}.{key}")


@pytest.fixture(scope="module")
def schema(shared):
    return shared.ok("schema").json


@pytest.fixture(scope="module")
def names(shared, box):
    job = shared.ok("exec", "-d", box, "--", "sh", "-c", "echo a; echo b >&2").text.strip()
    sleeper = shared.ok("exec", "-d", box, "--", "sleep", "1000").text.strip()
    (shared.work / "abx.toml").write_text('provider = "local"\n')
    shared.ok("wait", box, job)
    (shared.work / "folder").mkdir()
    (shared.work / "folder" / "f").write_text("x")
    return {"FOLDER": "folder", "BOX": box, "JOB": job, "SLEEPER": sleeper, "NEW": "schema-new"}


def filled(args, names):
    return [re.sub("FOLDER|BOX|JOB|SLEEPER|NEW", lambda m: names[m[0]], a) for a in args]


def test_every_verb_with_output_is_run_below(schema):
    printing = {v["name"] for v in schema["verbs"] if "output" in v}
    assert {v for v in printing - set(RUNS) if not v.startswith(ELSEWHERE)} == set()
    assert set(RUNS) <= printing


@pytest.mark.parametrize("verb", [v for v in RUNS if v != "files watch"])
def test_the_output_has_the_fields_of_the_schema(shared, schema, names, verb):
    output = next(v for v in schema["verbs"] if v["name"] == verb)["output"]
    r = shared(*filled(RUNS[verb], names), code=CODES.get(verb, 0), input=b"echo hi\n" if verb != "run" else None)
    if output["shape"] == "lines":
        assert r.out.endswith(b"\n") and len(r.lines) > 1
        for line in r.lines:
            check_object(schema, output["object"], line, verb)
        assert r.lines[0]["type"] == "started" and r.lines[-1]["type"] == "exit"
    else:
        assert r.out.endswith(b"\n") and r.out.count(b"\n") == 1
        check_object(schema, output["object"], r.json, verb)
        if output["shape"] == "list":
            assert any(isinstance(v, list) for v in r.json.values())
    assert r.out.decode("utf-8")


def test_watch_prints_lines_of_the_schema(shared, schema, names, spawn):
    p = spawn(shared, *filled(RUNS["files watch"], names))
    assert __import__("json").loads(p.stdout.readline()) == {"type": "started"}
    shared.sh(names["BOX"], "date > /work/x; rm /work/x", code=0)
    line = __import__("json").loads(p.stdout.readline())
    assert line["type"] == "change"
    check_object(schema, "changes", line, "files watch")


def test_what_the_schema_lists_was_seen(schema):
    """Objects that no verb names are part of others."""
    used = {v["output"]["object"] for v in schema["verbs"] if "output" in v}
    parts = {f["type"].removesuffix("[]") for o in schema["objects"].values() for f in o["fields"].values()}
    assert set(schema["objects"]) - used - parts - {"plan"} == set()


def test_the_schema_is_complete(schema):
    kinds = {"boolean", "switch", "count", "string", "integer", "duration", "choice", "pairs", "strings", "size", "number", "optional"}
    classes = set(schema["exitCodes"])
    assert {c["code"] for c in schema["exitCodes"]["common"]} >= {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "11",
                                                                 "12", "130"}
    for verb in schema["verbs"]:
        assert verb["usage"].startswith(verb["name"]) and verb["exitCodes"] in classes
        for flag in verb["flags"] + schema["globalFlags"]:
            assert flag["type"] in kinds and flag["text"], (verb["name"], flag)
            if flag["type"] == "choice":
                assert len(flag["choices"]) > 1
    codes = [e["code"] for e in schema["errors"]]
    assert len(set(codes)) == len(codes) and all(re.fullmatch(r"E[1-9]\d{3}", c) for c in codes)
    listed = {int(c["code"]) for c in schema["exitCodes"]["common"]}
    assert {e["exitCode"] for e in schema["errors"]} <= listed


# --- failures --------------------------------------------------------------------------------------------------

FAILURES = [
    ["info", "nosuch"], ["exec", "nosuch", "--", "true"], ["shell", "nosuch"], ["cp", "nosuch:/x", "y"],
    ["files", "ls", "nosuch:/"], ["files", "cat", "nosuch:/x"], ["files", "rm", "nosuch:/x"], ["files", "stat", "BOX:/no"],
    ["files", "mkdir", "BOX:/etc"], ["files", "mv", "BOX:/no", "BOX:/x"], ["files", "watch", "BOX:/no"], ["jobs", "nosuch"],
    ["logs", "BOX", "p999"], ["signal", "BOX", "p999", "TERM"], ["wait", "BOX", "p999"], ["extend", "nosuch", "1m"],
    ["extend", "BOX", "never"], ["create", "--name", "no name"], ["create", "-P", "nowhere"], ["run", "-P", "nowhere", "--", "true"],
    ["config", "get", "nosuch"], ["config", "set", "output", "xml"], ["config", "unset", "nosuch"], ["gc", "-P", "nowhere"],
    ["doctor", "-P", "nowhere"], ["ls", "--limit", "x"], ["nosuchverb"], ["kill", "--all"], ["completion", "tcsh"],
    ["exec", "BOX", "--", "/no/such"], ["version", "--nosuch"], ["context", "--profile", "nosuch"],
]


@pytest.mark.parametrize("args", FAILURES, ids=" ".join)
def test_a_failure_is_one_object_on_stderr(shared, names, args):
    words = filled(args, names)
    at = words.index("--") if "--" in words else len(words)
    r = shared(*words[:at], "--json", *words[at:], input=b"")
    assert r.code != 0
    assert r.err.count(b"\n") == 1 and r.err.endswith(b"\n")
    e = r.error
    assert set(e) <= {"code", "type", "message", "hint", "retryable", "provider", "sandbox", "requestId", "exitCode"}
    assert re.fullmatch(r"E\d{4}", e["code"]) and e["type"].endswith("Error") and e["message"]
    assert e["message"][0] in "'-" or e["message"][0].islower() or e["message"].startswith("ABX_")
    assert not e["message"].endswith(".")
    assert isinstance(e["exitCode"], int) and (r.code == e["exitCode"] or args[0] in ("exec", "run", "shell"))
    if r.out:  # the last line of run, exec and shell says whose code it is
        assert r.lines == [{"type": "exit", "exitCode": r.code, "source": "abx"}]


@pytest.mark.parametrize("args", FAILURES, ids=" ".join)
def test_a_failure_is_one_block_on_stderr(shared, names, args):
    r = shared(*filled(args, names), input=b"")
    lines = r.errors.splitlines()
    assert r.out == b"" and lines[0].startswith("error: ")
    assert any(re.fullmatch(r"code: E\d{4} \(\w+\)", line) for line in lines)
    assert all(line.split(":")[0] in ("error", "hint", "code", "request", "exitCode") for line in lines), lines
    assert b"\x1b" not in r.err


@pytest.mark.parametrize("args,env,as_json", [
    (["ls", "--nosuch", "-o", "json"], {}, True),
    (["ls", "--nosuch", "-ojsonl"], {}, True),
    (["--output=json", "nosuch"], {}, True),
    (["nosuch"], {"ABX_OUTPUT": "json"}, True),
    (["ls", "--nosuch", "-o", "table"], {"ABX_OUTPUT": "json"}, False),
    (["run", "--nosuch", "--", "--json"], {}, False),
], ids=lambda x: " ".join(x) if isinstance(x, list) else "-")
def test_a_wrong_line_too_is_told_in_the_format_asked_for(shared, args, env, as_json):
    r = shared(*args, env=env, code=2)
    assert r.err.startswith(b'{"error":') == as_json


def test_an_error_names_provider_and_sandbox(shared, names):
    e = shared("files", "stat", "--json", f"{names['BOX']}:/no", code=3).error
    assert e["provider"] == "local" and e["sandbox"] == names["BOX"]
    e = shared("create", "--json", "-P", "alicloud-express", code=4).error
    assert e["provider"] == "alicloud-express" and "sandbox" not in e


def test_not_found_says_where_it_looked(shared, names):
    assert str(shared.home / "ledger") in shared("info", "nosuch", code=3).errors
    assert "/no/such/file" in shared("files", "cat", f"{names['BOX']}:/no/such/file", code=3).errors
    assert "local, alicloud-express" in shared("create", "-P", "zzzzzz", code=3).errors
    assert "PATH" in shared("exec", names["BOX"], "--", "nosuchprogram", code=127).errors
