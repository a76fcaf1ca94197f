"""Help, manual pages, schema and the parser say the same; unknown words get the nearest one."""

import re
import subprocess

import pytest

from harness import ABX

VERBS = {
    "run": [],
    "create": [],
    "ls": ["list", "ps"],
    "info": ["inspect", "get"],
    "exec": [],
    "code": [],
    "shell": ["sh", "ssh", "connect", "attach"],
    "cp": ["copy"],
    "sync": [],
    "e2b serve": [],
    "e2b status": [],
    "e2b stop": [],
    "e2b env": [],
    "files ls": [],
    "files cat": [],
    "files write": [],
    "files rm": [],
    "files mkdir": [],
    "files mv": [],
    "files stat": [],
    "files watch": [],
    "jobs": [],
    "logs": [],
    "signal": [],
    "wait": [],
    "extend": ["renew", "timeout"],
    "port": ["ports"],
    "network": [],
    "stats": ["metrics"],
    "pause": [],
    "stats": ["metrics"],
    "snapshot create": [],
    "snapshot ls": ["snapshot list"],
    "snapshot rm": ["snapshot remove"],
    "fork": [],
    "template add": ["image add"],
    "template ls": ["template list", "image ls"],
    "template info": ["image info"],
    "template rm": ["image rm"],
    "resume": ["unpause"],
    "kill": ["rm", "delete"],
    "gc": [],
    "doctor": [],
    "provider list": ["provider ls"],
    "provider info": ["provider inspect"],
    "provider caps": [],
    "provider use": [],
    "provider login": [],
    "provider logout": [],
    "provider validate": [],
    "provider engine serve": [],
    "provider engine status": [],
    "provider engine stop": [],
    "provider engine restart": [],
    "provider engine logs": [],
    "provider new": [],
    "provider install": ["provider add", "provider upgrade"],
    "provider link": [],
    "provider remove": ["provider rm", "provider uninstall"],
    "provider test": [],
    "provider verify": [],
    "provider call": [],
    "provider log": [],
    "config list": [],
    "config get": [],
    "config set": [],
    "config unset": [],
    "config path": [],
    "config trust": [],
    "context": [],
    "completion": [],
    "schema": [],
    "version": [],
    "help": [],
}
WORDS = [(verb, word) for verb, aliases in VERBS.items() for word in [verb, *aliases]]

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def schema(shared):
    return shared.ok("schema").json


def verbs_of(schema):
    return {v["name"]: v for v in schema["verbs"]}


@pytest.mark.parametrize("verb,word", WORDS, ids=[w for _, w in WORDS])
def test_each_verb_and_alias_has_help(shared, verb, word):
    shown = shared.ok(*word.split(), "--help")
    assert shown.err == b""
    text = shown.text
    assert f"abx {verb}" in text
    assert "xamples" in text and "xit codes" in text and "lags" in text
    assert shared.ok("help", *word.split()).out == shown.out
    assert shared.ok(*word.split(), "-h").out == shown.out
    for alias in VERBS[verb]:
        assert alias in text


def test_help_needs_no_home_and_leaves_none(shared, fresh):
    fresh.ok("--help", env={"ABX_HOME": "/nonexistent/home"})
    fresh.ok("exec", "--help")
    assert not fresh.home.exists()


def test_abx_alone_prints_a_short_help(shared):
    shown = shared()
    assert shown.code == 0
    assert 8 <= len(shown.text.splitlines()) <= 40
    assert "abx run" in shown.text or "  run" in shown.text
    assert "inspect" not in shown.text  # aliases are only in the verb's own help


def test_the_short_help_names_every_verb(shared, schema):
    shown = shared.ok().text
    assert len(shown.splitlines()) <= 22
    words = set(shown.split("examples:")[0].split())
    assert {v["name"].split()[0] for v in schema["verbs"]} <= words


def test_every_verb_has_two_examples_that_can_be_parsed(shared, schema):
    for verb in schema["verbs"]:
        text = shared.ok("help", *verb["name"].split()).text
        examples = re.findall(r"^  (?! )(.*)$", text.split("\nexamples:\n")[1].split("\nflags:")[0].split("\nglobal flags:")[0],
                              re.M)
        assert len(examples) >= 2, verb["name"]
        for line in examples:
            assert "abx " in line
            assert subprocess.run(["bash", "-n", "-c", line], capture_output=True).returncode == 0, line


def test_version(shared, fresh):
    shown = fresh.ok("--version")
    assert re.fullmatch(r"abx \d+\.\d+\.\d+ \([^,()]+, [^()]+\)\n", shown.text)
    assert fresh.ok("version").out == shown.out
    v = fresh.ok("version", "--json").json
    assert shown.text.startswith(f"abx {v['version']} (")
    assert "local" in v["providers"] and isinstance(v["protocols"], dict)
    assert not fresh.home.exists()


def test_licenses(shared):
    text = shared.ok("version", "--licenses").text
    for name in ["libuv", "curl", "OpenSSL", "yyjson", "llhttp", "wslay", "libseccomp"]:
        assert name.lower() in text.lower()


@pytest.mark.parametrize("typed,nearest", [
    (["rnu", "--", "true"], "run"),
    (["craete"], "create"),
    (["files", "lss", "x"], "files ls"),
    (["config", "gett", "x"], "config get"),
    (["kil", "x"], "kill"),
])
def test_an_unknown_verb_names_the_nearest(shared, typed, nearest):
    r = shared(*typed, code=2)
    assert r.out == b""
    assert r.errors.startswith("error: ")
    assert f"'{nearest}'" in r.errors or f"abx {nearest}" in r.errors


@pytest.mark.parametrize("typed,nearest", [
    (["run", "--tty-no", "--", "true"], None),
    (["create", "--nmae", "x"], "--name"),
    (["exec", "--workdri", "/", "x", "--", "true"], "--workdir"),
    (["ls", "--jsno"], "--json"),
])
def test_an_unknown_flag_names_the_nearest(shared, typed, nearest):
    r = shared(*typed, code=2)
    assert r.errors.startswith("error: ")
    if nearest:
        assert nearest in r.errors
    assert re.search(r"^code: E1001 \(UsageError\)$", r.errors, re.M)


@pytest.mark.parametrize("typed", [
    ["run"], ["exec"], ["exec", "x"], ["cp", "a"], ["cp", "a", "b", "c"], ["signal", "x", "p1"],
    ["extend", "x"], ["kill"], ["pause"], ["resume"], ["info"], ["ls", "extra"], ["config", "set", "provider"], ["files"],
    ["config"], ["create", "--timeout"], ["create", "--timeout", "abc"], ["create", "--timeout", "-5"],
    ["create", "--timeout", "5y"], ["ls", "-o", "xml"], ["ls", "--limit", "x"], ["create", "--keep"],
    ["run", "-l", "novalue", "--", "true"], ["create", "-l", "=x"], ["run", "-e", "=x", "--", "true"],
    ["files", "write", "--mode", "999", "x:/a"], ["exec", "-d", "-t", "x", "--", "true"],
    ["exec", "-d", "-i", "x", "--", "true"], ["shell"], ["jobs"], ["wait"], ["logs"],
], ids=" ".join)
def test_wrong_usage_is_code_2(shared, typed):
    r = shared(*typed, code=2)
    assert r.out == b""
    assert r.errors.startswith("error: "), repr(r)


def test_the_schema_lists_exactly_these_verbs(schema):
    verbs = verbs_of(schema)
    assert set(verbs) == set(VERBS)
    for name, aliases in VERBS.items():
        assert set(aliases) <= set(verbs[name].get("aliases", [])), name


def test_the_schema_has_flags_outputs_and_exit_codes(schema):
    for name, verb in verbs_of(schema).items():
        assert verb["summary"], name
        assert verb["exitCodes"], name
        for flag in verb["flags"]:
            assert {"name", "type"} <= set(flag), (name, flag)


def test_every_flag_of_the_schema_is_in_the_help(shared, schema):
    for name, verb in verbs_of(schema).items():
        text = shared.ok("help", *name.split()).text
        for flag in verb["flags"]:
            assert f"--{flag['name']}" in text, (name, flag["name"])


def test_the_manual_pages_hold_what_the_help_holds(shared, schema, tmp_path):
    shared.ok("help", "--man", tmp_path)
    pages = {p.name: p for p in tmp_path.rglob("*") if p.is_file()}
    assert "abx.1" in pages
    for name, verb in verbs_of(schema).items():
        page = pages[f"abx-{name.replace(' ', '-')}.1"]
        source = page.read_text()
        assert source.startswith((".TH", ".\\\"", "'\\\""))
        plain = subprocess.run(["man", "-l", str(page)], capture_output=True, text=True, check=True,
                               env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MANWIDTH": "200",
                                    "MANPAGER": "cat"}, stdin=subprocess.DEVNULL).stdout
        plain = plain.replace("\u2010", "-").replace("\u2212", "-")
        assert verb["summary"][:30] in plain, name
        for flag in verb["flags"]:
            assert f"--{flag['name']}" in plain, (name, flag["name"])


def test_groff_finds_no_fault_in_the_manual_pages(shared, tmp_path):
    shared.ok("help", "--man", tmp_path)
    for page in sorted(tmp_path.rglob("*.1")):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", str(page)], capture_output=True,
                              text=True)
        assert done.returncode == 0 and done.stderr == "", f"{page.name}: {done.stderr}"


def test_help_has_no_escape_codes_and_fits(shared):
    for env in [{"COLUMNS": "40"}, {"COLUMNS": "200"}, {"NO_COLOR": "1"}, {"TERM": "dumb"}]:
        out = shared.ok("help", "run", env=env).out
        assert b"\x1b" not in out


def test_a_broken_pipe_ends_help_quietly(shared):
    r = subprocess.run(["bash", "-c", f"set -o pipefail; {ABX} schema | head -c 1 >/dev/null; "
                        "echo ${PIPESTATUS[0]}"], capture_output=True, text=True,
                       env=shared.environment(), stdin=subprocess.DEVNULL)
    assert r.stdout.strip() in ("0", "141")
    assert r.stderr == ""
