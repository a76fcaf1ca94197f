"""abx provider new: a folder for each language, complete, with a test of its own that passes, and the whole conformance suite;
names, folders that are there; what a plugin says beside the protocol."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = {
    "python": [[sys.executable, "test_plugin.py"]],
    "node": [["node", "plugin.test.mjs"]],
    "go": [["make", "-s"], ["go", "test", "."]],
    "bash": [["bash", "test_plugin.sh"]],
    "js": [],
    "c": [["make", "-s", "CFLAGS=-O1 -Wall -Wextra -Werror"], ["./test.sh"]],
}

# How many cases apply; in bash there are sandboxes and commands in the foreground, no more; a module has no processes.
APPLY = {"bash": 50, "js": 45}
# An ordinary user differs in what processes may do, whatever started them: two languages show it.
LANGUAGES = list(TESTS) if os.geteuid() == 0 else ["python", "c"]
SOURCE = Path(__file__).resolve().parents[2]
TOOLS = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/local/go/bin"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_its_own_test_passes(shared, tmp_path, language):
    folder = tmp_path / "mine"
    report = shared.ok("provider", "new", "mine-1", "--lang", language, "--dir", folder, "--json").json
    assert report["id"] == "mine-1" and report["language"] == language
    assert {"abx-provider.toml", "README.md"} <= set(report["files"]) == {p.name for p in folder.iterdir()}
    assert "@NAME@" not in "".join(p.read_text(encoding="utf-8") for p in folder.iterdir())
    assert "does not isolate" in (folder / "README.md").read_text(encoding="utf-8")
    for command in TESTS[language]:
        subprocess.run(command, cwd=folder, check=True, timeout=100, stdin=subprocess.DEVNULL, env=TOOLS)
    checked = shared.ok("provider", "validate", folder, "--json").json
    assert checked["valid"] and checked["id"] == "mine-1" and checked["warnings"] == 0
    only = [] if os.geteuid() == 0 else ["--only", "process"]
    report = shared("provider", "test", folder, "--json", *only, timeout=150).json
    bad = [(c["name"], c.get("why"), c.get("exchange")) for c in report["cases"] if c["outcome"] == "failed"]
    assert not bad and report["summary"]["passed"] >= (APPLY.get(language, 140) if not only else 20), bad
    state = Path(f"/tmp/abx-mine-1-{os.geteuid()}")
    assert language == "js" or not list(state.iterdir())


@pytest.mark.once
def test_the_types_of_a_module_know_every_operation_and_every_error():
    text = (SOURCE / "scaffold/js/kit.d.ts").read_text()
    operations = re.findall(r'ABX_OP\(\w+, "\w+\.(\w+)"', (SOURCE / "src/ops/ops.def").read_text())
    types = re.findall(r'ABX_ERR\(\w+, +"E\d+", +"(\w+)"', (SOURCE / "src/base/errors.def").read_text())
    assert len(operations) > 40 and len(types) > 30
    assert not [n for n in operations if f"  {re.sub('_(.)', lambda m: m[1].upper(), n)}?(" not in text]
    assert not [t for t in types if f"  readonly {t}: ErrorClass;" not in text]


def test_installed_it_is_a_provider_like_any_other(abx, tmp_path):
    abx.ok("provider", "new", "demo", cwd=tmp_path)
    abx.ok("provider", "install", "./demo", "--yes", cwd=tmp_path)
    assert abx.ok("-P", "demo", "run", "--", "echo", "hi").text == "hi\n"
    box = abx.ok("-P", "demo", "create").text.strip()
    job = abx.ok("exec", "-d", box, "--", "sh", "-c", "echo kept; exit 3").text.strip()
    assert abx("wait", box, job, code=3).out == b"" and abx.ok("logs", box, job).text == "kept\n"
    abx.ok("kill", box)
    assert abx("info", box, code=3).out == b""


def test_a_stray_line_fails_the_test(shared, tmp_path):
    folder = tmp_path / "loud"
    shared.ok("provider", "new", "loud", "--dir", folder)
    plugin = folder / "plugin.py"
    plugin.write_text("print('banner', flush=True)\n" + plugin.read_text(encoding="utf-8"), encoding="utf-8")
    assert shared.ok("-P", folder, "run", "--", "echo", "hi").text == "hi\n"
    r = shared("provider", "test", folder, "--case", "output.none", "--json", code=12)
    assert r.error["code"] == "E8001" and "banner" in r.error["message"] + r.error.get("hint", "")


def test_a_failure_shows_what_went_over(shared, tmp_path):
    """A plugin with a fault, a secret in its options, and what the report says of both."""
    folder = tmp_path / "faulty"
    shared.ok("provider", "new", "faulty", "--dir", folder)
    manifest = folder / "abx-provider.toml"
    manifest.write_text(manifest.read_text(encoding="utf-8") + '\n[[options]]\nname = "token"\ntype = "string"\nsecret = true\n',
                        encoding="utf-8")
    files = folder / "files.py"
    text = files.read_text(encoding="utf-8")
    files.write_text(text.replace('return {"path": text(path), "size": size}', 'return {"path": "hush-hush-4711", "size": 0}'),
                     encoding="utf-8")
    r = shared("provider", "test", folder, "--case", "files.write-read", "--json", "-O", "token=env:TOKEN",
               env={"TOKEN": "hush-hush-4711"}, code=1)
    case = r.json["cases"][0]
    assert case["outcome"] == "failed" and case["rule"].startswith("docs/providers/epp.md, fs.write: result ")
    assert case["exchange"].startswith("> fs.write {") and "hush-hush" not in r.text


def test_a_folder_is_named_after_the_provider(shared, tmp_path):
    r = shared.ok("provider", "new", "demo", cwd=tmp_path)
    assert r.text == "demo\n" and "abx provider test ./demo" in r.errors
    assert 'id = "demo"' in (tmp_path / "demo/abx-provider.toml").read_text(encoding="utf-8")


def test_nothing_is_overwritten(shared, tmp_path):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/mine").write_text("mine", encoding="utf-8")
    r = shared("provider", "new", "demo", "--json", cwd=tmp_path, code=5)
    assert r.error["code"] == "E4001" and [p.name for p in (tmp_path / "demo").iterdir()] == ["mine"]
    assert shared("provider", "new", "demo", "--dir", tmp_path / "no/way", "--json", code=1).error["code"] == "E6005"


def test_names_are_checked(shared, tmp_path):
    for name in ("Demo", "-x", "a/b", "..", "a" * 64, "local", "alicloud-express"):
        r = shared("provider", "new", "--dir", tmp_path / "x", "--json", "--", name, code=2)
        assert r.error["code"] == "E1001" and not (tmp_path / "x").exists()
    assert shared("provider", "new", "demo", "--lang", "cobol", cwd=tmp_path, code=2).out == b""


@pytest.mark.parametrize("word, near", [("javascript", "js"), ("py", "python"), ("pyhton", "python"), ("nodejs", "node"), ("cobol", None)])
def test_a_language_of_another_name_is_hinted_at(shared, tmp_path, word, near):
    hint = shared("provider", "new", "demo", "--json", "--lang", word, cwd=tmp_path, code=2).error["hint"]
    assert hint.startswith(f"did you mean '{near}'?" if near else "one of: c|python|js")


def test_a_dry_run_writes_nothing(shared, tmp_path):
    r = shared.ok("provider", "new", "demo", "--dry-run", "--json", cwd=tmp_path)
    assert "plugin.py" in r.text and not list(tmp_path.iterdir())
