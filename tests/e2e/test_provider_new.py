"""abx provider new: a folder for each language, complete, with a test of its own that passes; names, folders that are there."""

import subprocess
import sys

import pytest

TESTS = {
    "python": [[sys.executable, "test_plugin.py"]],
    "node": [["node", "plugin.test.mjs"]],
    "go": [["make", "-s"], ["go", "test", "."]],
    "c": [["make", "-s", "CFLAGS=-O1 -Wall -Wextra -Werror"], ["./test.sh"]],
}


@pytest.mark.parametrize("language", TESTS)
def test_its_own_test_passes(shared, tmp_path, language):
    folder = tmp_path / "mine"
    report = shared.ok("provider", "new", "mine-1", "--lang", language, "--dir", folder, "--json").json
    assert report["id"] == "mine-1" and report["language"] == language
    assert {"abx-provider.toml", "README.md"} <= set(report["files"]) == {p.name for p in folder.iterdir()}
    assert "@NAME@" not in "".join(p.read_text(encoding="utf-8") for p in folder.iterdir())
    assert "does not isolate" in (folder / "README.md").read_text(encoding="utf-8")
    for command in TESTS[language]:
        subprocess.run(command, cwd=folder, check=True, timeout=100, stdin=subprocess.DEVNULL)
    checked = shared.ok("provider", "validate", folder, "--json").json
    assert checked["valid"] and checked["id"] == "mine-1" and checked["warnings"] == 0


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


def test_a_dry_run_writes_nothing(shared, tmp_path):
    r = shared.ok("provider", "new", "demo", "--dry-run", "--json", cwd=tmp_path)
    assert "plugin.py" in r.text and not list(tmp_path.iterdir())
