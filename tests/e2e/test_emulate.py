"""What the host makes of other operations, over a plugin that says it has less than it has: input by files, watching by
listing, stat by a command. The suite's cases hold as for a native feature."""

import hashlib
import os
import re

import pytest

pytestmark = pytest.mark.once

EMULATED = ["process.stdin", "fs.stat", "filesystem.watch"]


@pytest.fixture(scope="module")
def lame(shared, tmp_path_factory):
    """The id of a linked plugin without stdin, stat and watch."""
    folder = tmp_path_factory.mktemp("lame") / "lame"
    shared.ok("provider", "new", "lame", "--lang", "python", cwd=folder.parent)
    manifest, program = folder / "abx-provider.toml", folder / "plugin.py"
    manifest.write_text(manifest.read_text().replace('"process.stdin", ', ""))
    text, n = re.subn(r'"process\.stdin": "native"', '"fs.stat": "unsupported"', program.read_text())
    assert n == 1
    program.write_text(text)
    shared.ok("provider", "link", folder, "--yes")
    yield "lame"
    shared.ok("provider", "remove", "lame", "--yes")


@pytest.fixture
def box(shared, lame):
    made = shared.ok("-P", lame, "create", "-q").text.strip()
    yield made
    shared.ok("kill", made)


def left_over(shared, box):
    """Files of input that nobody removed."""
    listed = shared.ok("exec", "-n", box, "--", "sh", "-c", 'cd; ls -A').text.split()
    return [name for name in listed if name.startswith(".abx")]


@pytest.mark.parametrize("group", ["stdin", "watch"])
def test_suite(shared, lame, group):
    r = shared("provider", "test", lame, "--only", group, "--json")
    summary = r.json["summary"]
    assert summary["failed"] == 0 and summary["passed"] >= 8, r.json["cases"]
    assert r.code == 0


def test_map_says_so(shared, lame, box):
    features = shared.ok("info", box, "--json").json["features"]
    assert [features[name] for name in EMULATED] == ["emulated"] * 3
    assert features["process"] == features["filesystem"] == "native"


@pytest.mark.parametrize("size", [0, 1, 65537, 3 << 20])
def test_input_arrives_whole(shared, box, size):
    data = os.urandom(size)
    r = shared.ok("exec", box, "--", "sha256sum", input=data)
    assert r.text.split()[0] == hashlib.sha256(data).hexdigest()
    assert left_over(shared, box) == []


def test_reader_that_does_not_read(shared, box):
    assert shared("exec", box, "--", "sh", "-c", "exit 3", input=b"x" * 200000).code == 3
    assert shared("exec", box, "--", "/no/such/program", input=b"x").code == 127
    assert left_over(shared, box) == []


def test_shell_and_words_are_kept(shared, box):
    assert shared.ok("exec", box, "--", "sh", "-c", 'cat; echo "$1|$2"', "sh", "a b", "'", input=b"in ").text == "in a b|'\n"


def test_stat(shared, box):
    shared.ok("exec", "-n", box, "--", "sh", "-c", "printf 12345 >'a b'; ln -s 'a b' link; mkdir dir; chmod 640 'a b'")
    stat = lambda path: shared.ok("files", "stat", f"{box}:{path}", "--json").json
    plain = stat("./a b")
    plain = plain[0] if isinstance(plain, list) else plain
    assert (plain["name"], plain["type"], plain["size"], plain["mode"]) == ("a b", "file", 5, 0o640)
    assert plain["path"].endswith("/a b") and "/./" not in plain["path"]
    link = stat("link")
    link = link[0] if isinstance(link, list) else link
    assert (link["type"], link["target"]) == ("symlink", "a b")
    assert shared("files", "stat", f"{box}:none").code == 3
