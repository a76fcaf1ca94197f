"""What the verbs print: stdout is data, stderr is the rest; table, wide, json, jsonl, name; the error block."""

import json
import re

import pytest

RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"


def test_create_prints_the_id_alone(abx):
    made = abx.ok("create")
    assert re.fullmatch(r"[a-z0-9]{12,32}\n", made.text)
    assert made.err == b""
    quiet = abx.ok("create", "-q")
    assert re.fullmatch(r"[a-z0-9]{12,32}\n", quiet.text)
    assert quiet.err == b""


def test_create_json_is_the_sandbox(abx):
    made = abx.ok("create", "--json", "--name", "n1", "-l", "team=blue", "-l", "x=y=z", "--timeout", "10m")
    assert made.err == b"" and made.out.count(b"\n") == 1
    s = made.json
    assert s["provider"] == "local" and s["name"] == "n1" and s["state"] == "running"
    assert s["metadata"] == {"team": "blue", "x": "y=z"}
    assert re.fullmatch(RFC3339, s["createdAt"]) and re.fullmatch(RFC3339, s["expiresAt"])
    assert s["features"]["process"] == "native"


def test_info_shows_everything(shared, box):
    i = shared.info(box)
    assert i["id"] == box and i["name"] == "shared-box" and i["state"] == "running"
    assert i["provider"] == "local"
    assert isinstance(i["features"], dict) and i["features"]["filesystem"] == "native"
    assert "isolation" in i
    assert box in shared.ok("info", box).text
    for alias in ["inspect", "get"]:
        assert shared.ok(alias, "--json", box).json["id"] == box
    both = shared.ok("info", "--json", box, "shared-box").json
    assert [s["id"] for s in both["sandboxes"]] == [box, box]
    assert shared.ok("info", "-q", box).text.strip() == box


def test_info_of_several_returns_the_first_failure(shared, box):
    r = shared("info", "--json", "nosuchsandbox", box, code=3)
    assert box in r.text and r.error["code"] == "E3001"


def test_ls_formats(abx):
    assert abx.ok("ls", "--json").json == {"sandboxes": []}
    assert abx.ok("ls", "-q").out == b""
    a = abx.create("--name", "one", "-l", "k=1")
    b = abx.create("-l", "k=2", "--timeout", "none")
    table = abx.ok("ls").text.splitlines()
    assert re.match(r"[A-Z]+(  +[A-Z]+)+", table[0]) and len(table) == 3
    assert not re.search(r"[|+\t]", table[0])
    row = next(line for line in table if line.startswith(b))
    assert " - " in row or row.rstrip().endswith("-")  # an empty column is a dash
    assert set(abx.ok("ls", "-q").text.split()) == {a, b}
    assert set(abx.ok("ls", "-o", "name").text.split()) == {a, b}
    assert abx.ok("ls", "-o", "wide").text.splitlines()[0].startswith(table[0].split()[0])
    listed = abx.ok("ls", "--json").json["sandboxes"]
    assert {s["id"] for s in listed} == {a, b}
    assert "expiresAt" not in next(s for s in listed if s["id"] == b)
    rows = abx.ok("ls", "-o", "jsonl").lines
    assert {s["id"] for s in rows} == {a, b}
    assert abx.ok("ls", "-q", "-l", "k=1").text.split() == [a]
    assert abx.ok("ls", "-q", "-l", "k=3").out == b""
    assert abx.ok("ls", env={"ABX_OUTPUT": "json"}).json["sandboxes"]
    one = abx.ok("ls", "--limit", "1", "-q")
    assert len(one.text.split()) == 1 and b"limit" in one.err.lower()
    for alias in ["list", "ps"]:
        assert set(abx.ok(alias, "-q").text.split()) == {a, b}


def test_the_table_is_whole_at_every_width(abx):
    long_name = "n" * 60
    a = abx.create("--name", long_name)
    for columns in ["40", "200"]:
        text = abx.ok("ls", env={"COLUMNS": columns}).text
        assert long_name in text and a in text


def test_the_error_block(shared):
    r = shared("info", "nosuchsandbox", code=3)
    assert r.out == b""
    lines = r.errors.splitlines()
    assert lines[0].startswith("error: ") and "'nosuchsandbox'" in lines[0]
    assert any(line.startswith("hint: ") for line in lines)
    assert "code: E3001 (SandboxNotFoundError)" in lines


def test_the_error_as_json(shared):
    r = shared("info", "--json", "nosuchsandbox", code=3)
    assert r.out == b"" and r.err.count(b"\n") == 1
    e = r.error
    assert e["code"] == "E3001" and e["type"] == "SandboxNotFoundError" and e["hint"] and e["message"]
    assert e["retryable"] is False


def test_an_error_of_exec_tells_both_codes(shared):
    r = shared("exec", "nosuchsandbox", "--", "true", code=125)
    assert "exitCode: 3" in r.errors
    r = shared("exec", "--json", "nosuchsandbox", "--", "true", code=125)
    assert r.error["exitCode"] == 3
    last = json.loads(r.out.splitlines()[-1]) if r.out else None
    if last is not None:
        assert last == {"type": "exit", "exitCode": 125, "source": "abx"}


def test_control_characters_are_escaped_in_errors(shared):
    r = shared("info", "a\x1b[31mb\nc", code=3)
    assert b"\x1b" not in r.err
    assert len([x for x in r.errors.splitlines() if x.startswith("error: ")]) == 1


def test_events_of_exec_as_json_lines(shared, box):
    r = shared("exec", "--json", box, "--", "sh", "-c", r"printf 'a\303\244'; printf '\377' >&2; exit 3",
               code=3)
    assert r.err == b""
    events = r.lines
    assert events[0]["type"] == "started" and events[0]["id"]
    assert "".join(e["text"] for e in events if e["type"] == "stdout") == "a\u00e4"
    assert [e["base64"] for e in events if e["type"] == "stderr"] == ["/w=="]
    assert events[-1]["type"] == "exit" and events[-1]["exitCode"] == 3
    assert events[-1]["source"] == "process"


def test_json_never_splits_a_character(shared, box):
    r = shared("exec", "--json", box, "--", "sh", "-c",
               r"printf '\342'; sleep 0.2; printf '\202'; sleep 0.2; printf '\254'", code=0)
    assert "".join(e["text"] for e in r.lines if e["type"] == "stdout") == "\u20ac"


def test_events_of_run_as_json_lines(abx):
    r = abx("run", "--json", "--", "sh", "-c", "echo hi; kill -TERM $$", code=143)
    events = r.lines
    assert events[0]["type"] == "started" and events[0]["sandbox"]
    assert events[-1]["signal"] == "SIGTERM"


def test_json_tells_whose_code_it_is(shared, box):
    own = shared("exec", "--json", box, "--", "sh", "-c", "exit 127", code=127).lines[-1]
    assert own["source"] == "process" and own["exitCode"] == 127
    ours = shared("exec", "--json", box, "--", "/no/such/program", code=127)
    assert ours.lines[-1]["source"] == "abx" and ours.lines[-1]["exitCode"] == 127


def test_color_only_when_asked(shared, box):
    assert b"\x1b" not in shared("info", "nosuch", env={"FORCE_COLOR": ""}).err
    assert b"\x1b" in shared("info", "nosuch", "--color", "always").err
    assert b"\x1b" not in shared("info", "nosuch", "--color", "never", env={"FORCE_COLOR": "1"}).err
    assert b"\x1b" in shared("info", "nosuch", env={"FORCE_COLOR": "1"}).err
    assert b"\x1b" not in shared("info", "nosuch", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).err


def test_verbose_goes_to_stderr(shared, box):
    for level in ["-v", "-vv"]:
        r = shared("exec", level, box, "--", "echo", "data", code=0)
        assert r.out == b"data\n"
        assert r.err != b""
    assert shared("exec", "-q", box, "--", "echo", "data", code=0).err == b""


@pytest.mark.parametrize("args", [["context"], ["config", "list"], ["config", "path"], ["version"],
                                  ["gc"], ["gc", "--dry-run"], ["doctor"]])
def test_every_other_verb_prints_one_json_document(shared, box, args):
    r = shared.ok(*args, "--json")
    assert isinstance(r.json, dict) and r.out.endswith(b"}\n") and r.out.count(b"\n") == 1


def test_kill_prints_what_it_ended(abx):
    a, b = abx.create(), abx.create()
    assert set(abx.ok("kill", "--json", a, b).json["killed"]) == {a, b}
    c = abx.create()
    assert abx.ok("kill", "-q", c).err == b""


def test_doctor_finds_that_all_layers_hold(shared):
    d = shared.ok("doctor", "--json").json
    assert d["ok"] is True and d["provider"] == "local"
    names = {layer["name"] for layer in d["layers"]}
    assert {"user", "mount", "pid", "net", "overlay", "proc", "seccomp"} <= names
    bad = [layer for layer in d["layers"] if not layer["ok"] and layer["name"] not in ("range", "cgroups", "unlimited", "network", "names")]
    assert bad == []
    text = shared.ok("doctor").text
    assert "seccomp" in text
