"""The store of providers by the command line: install, upgrade, link, verify, remove; who may see what; what is refused, by name;
broken receipts; two at once; no space, no right to write; killed at any moment."""

import io
import json
import os
import random
import signal
import socket
import subprocess
import tarfile
import time
import zlib

import pytest

from harness import ABX, HELPERS, LIMIT, ROOT, SOAK, count, wait_for
from plugins import make_plugin, tree_sha256


@pytest.fixture
def demo(tmp_path):
    return make_plugin(tmp_path / "demo")


def store(abx, *rest):
    return abx.home.joinpath("providers", *rest)


def receipt(abx, id="demo"):
    return json.loads(store(abx, id, ".abx-receipt.json").read_text())


def rest_of_store(abx):
    """What is in the store beside plugins, their lock and links."""
    names = os.listdir(store(abx)) if store(abx).is_dir() else []
    return sorted(x for x in names if x.startswith(".") and x not in (".lock", ".links"))


def refused(abx, source, *words, code=1):
    r = abx("provider", "install", source, code=code)
    for word in words:
        assert word in r.errors, repr(r)
    assert r.out == b"" and rest_of_store(abx) == []
    assert not store(abx, "demo").exists()
    return r


# --- the usual ways ---------------------------------------------------------------------------------------


def test_install_verify_remove(abx, demo):
    made = abx.ok("provider", "install", demo)
    assert made.text == "demo\n" and "installed provider 'demo' 1.0.0" in made.errors
    r = receipt(abx)
    assert r["schema"] == 1 and r["trust"] == "local" and r["source"] == str(demo) and r["consent"] == []
    assert r["tree_sha256"] == tree_sha256(store(abx, "demo"))
    assert abx.ok("provider", "verify", "--json").json["providers"][0]["ok"] is True
    assert abx.ok("provider", "remove", "demo").out == b""
    assert not store(abx, "demo").exists() and rest_of_store(abx) == []
    assert "E3004" in abx("provider", "remove", "demo", code=3).errors


def test_the_same_again_is_no_change(abx, demo):
    abx.ok("provider", "install", demo)
    before = os.stat(store(abx, "demo")).st_ino, receipt(abx)
    r = abx.ok("provider", "install", demo, "--json").json
    assert r["step"] == "same" and (os.stat(store(abx, "demo")).st_ino, receipt(abx)) == before


def test_up_and_down(abx, demo):
    for version, flags, step in [("1.0.0", [], "new"), ("1.10.0", [], "upgrade"), ("1.9.0", ["--yes"], "downgrade"),
                                 ("1.9.1-rc.1", [], "upgrade"), ("1.9.1", [], "upgrade")]:
        make_plugin(demo, version=version)
        r = abx.ok("provider", "install", "--json", demo, *flags).json
        assert (r["step"], r["version"]) == (step, version)
    make_plugin(demo, version="1.9.0")
    assert "--yes" in abx("provider", "install", demo, code=2).errors
    assert receipt(abx)["version"] == "1.9.1"
    (demo / "more").write_text("x")
    make_plugin(demo, version="1.9.1")
    assert abx.ok("provider", "install", "--json", demo).json["step"] == "replace"


def test_a_person_is_asked(abx, demo, terminal):
    t = terminal(abx, "provider", "install", demo)
    t.expect("apiKey, domain; may it? [y/N] ")
    t.write("y\n")
    assert t.end() == 0
    assert receipt(abx)["consent"] == ["apiKey", "domain"]
    make_plugin(demo, version="0.9.0")
    t = terminal(abx, "provider", "install", demo)
    t.expect("go back to 0.9.0? [y/N] ")
    t.write("n\n")
    assert t.end() == 130 and receipt(abx)["version"] == "1.0.0"


def test_consent(abx, demo):
    r = abx.ok("provider", "install", demo, "--yes")
    assert "'demo' asks to see apiKey, domain and may not; '--inherit apiKey,domain' lets it" in r.errors
    assert r.errors.count("\n") == 2 and receipt(abx)["consent"] == []
    assert "it asks for apiKey, domain" in abx("provider", "install", demo, "--inherit", "apiUrl", code=2).errors
    assert "no common key" in abx("provider", "install", demo, "--inherit", "password", code=2).errors
    r = abx.ok("provider", "install", demo, "--inherit", "apiKey")
    assert receipt(abx)["consent"] == ["apiKey"] and "it may see apiKey" in r.errors
    make_plugin(demo, version="1.1.0")
    abx.ok("provider", "install", demo)  # what was given stays given
    assert receipt(abx)["consent"] == ["apiKey"] and receipt(abx)["version"] == "1.1.0"
    abx.ok("provider", "install", demo, "--inherit", "none")
    assert receipt(abx)["consent"] == []


def test_a_link(abx, demo):
    assert "--yes" in abx("provider", "link", demo, code=2).errors
    abx.ok("provider", "link", demo, "--yes", "--inherit", "domain")
    assert store(abx, "demo").is_symlink() and os.path.realpath(store(abx, "demo")) == str(demo)
    (demo / "plugin").write_text("#!/bin/sh\nexit 1\n")
    r = abx.ok("provider", "verify", "--json").json["providers"][0]
    assert r["ok"] and not r["compared"] and r["trust"] == "link"
    assert abx.ok("provider", "link", "--json", demo, "--yes").json["consent"] == ["domain"]
    (demo / "abx-provider.toml").rename(demo / "away")
    assert abx("provider", "verify", "demo", code=12)
    (demo / "away").rename(demo / "abx-provider.toml")
    demo.chmod(0o777)
    assert "chmod go-w" in abx("provider", "verify", "demo", code=12).errors
    demo.chmod(0o755)
    abx.ok("provider", "install", demo)
    assert not store(abx, "demo").is_symlink() and os.listdir(store(abx, ".links")) == []
    abx.ok("provider", "link", demo, "--yes")
    abx.ok("provider", "remove", "demo")
    assert (demo / "plugin").exists() and os.listdir(store(abx, ".links")) == []


def test_dry_run(abx, demo):
    plan = abx.ok("provider", "install", demo, "--dry-run", "--json").json
    assert plan["actions"][0]["operation"] == "provider.install" and plan["actions"][0]["params"]["step"] == "new"
    assert not store(abx, "demo").exists() and rest_of_store(abx) == []
    abx.ok("provider", "install", demo)
    assert abx.ok("provider", "remove", "demo", "--dry-run", "--json").json["actions"][0]["provider"] == "demo"
    assert store(abx, "demo").exists()


def test_sandboxes_are_not_lost_unasked(abx, demo):
    abx.ok("provider", "install", demo)
    (abx.home / "ledger").mkdir(mode=0o700, exist_ok=True)
    entry = {"id": "abcdefghijkl", "key": "abcdefghijkl", "provider": "demo", "complete": True, "createdAt": "2026-01-01T00:00:00Z"}
    (abx.home / "ledger" / "abcdefghijkl.json").write_text(json.dumps(entry))
    r = abx("provider", "remove", "demo", code=2)
    assert "1 sandbox, which cannot be reached without it" in r.errors and "--yes" in r.errors
    abx.ok("provider", "remove", "demo", "--yes")


def test_from_the_catalog(abx):
    """The same program with a catalog of the tests in it."""
    program = str(HELPERS / "abx_with_catalog")
    r = abx.ok("provider", "install", "demo", "--json", program=program).json
    assert r["trust"] == "catalog" and r["source"] == "catalog" and r["consent"] == ["apiKey", "domain"]
    assert r["treeSha256"] == tree_sha256(store(abx, "demo"))
    assert os.readlink(store(abx, "demo", "part")) == "lib/part"
    assert abx.ok("provider", "install", "demo", "--json", program=program).json["step"] == "same"
    assert "it has demo" in abx("provider", "install", "other", code=3, program=program).errors
    abx.ok("provider", "verify")


# --- what changes is found -----------------------------------------------------------------------------------


def test_every_change_is_named(abx, tmp_path):
    demo = make_plugin(tmp_path / "demo", files={"lib/a": b"a", "lib/b\nc": b"b"})
    os.symlink("a", demo / "lib" / "l")
    place = store(abx, "demo")

    def change(path, how):
        how(place / path)

    def swap_link(path):
        path.unlink()
        path.symlink_to("b\nc")

    for path, how, word in [
        ("lib/a", lambda p: p.write_bytes(b"b"), "'lib/a' was changed"),
        ("lib/a", lambda p: p.chmod(0o600), "'lib/a' was changed"),
        ("lib/b\nc", lambda p: p.unlink(), "'lib/b\\nc' is gone"),
        ("lib/new", lambda p: p.write_bytes(b""), "'lib/new' was added"),
        ("lib/new", lambda p: p.mkdir(), "'lib/new' was added"),
        ("lib/l", swap_link, "'lib/l' was changed"),
        ("lib/l", lambda p: (p.unlink(), os.mkfifo(p)), "'lib/l' of the plugin is refused: it is a fifo"),
        ("lib", lambda p: p.chmod(0o700), "'lib' was changed"),
        (".abx-files", lambda p: (p.write_bytes(b""), (place / "plugin").write_text("")), "another digest"),
    ]:
        abx.ok("provider", "install", demo)
        abx.ok("provider", "verify", "demo")
        change(path, how)
        r = abx("provider", "verify", "demo", code=12)
        assert "E8003" in r.errors and word in r.errors, repr(r)
        assert "put" in r.errors.split("hint: ")[1]
    abx.ok("provider", "install", demo)
    abx.ok("provider", "verify")


def test_nothing_of_a_changed_plugin_runs(abx, tmp_path):
    demo = make_plugin(tmp_path / "demo")
    mark = tmp_path / "ran"
    (demo / "plugin").write_text(f"#!/bin/sh\n: > '{mark}'\n")
    abx.ok("provider", "install", demo)
    assert abx("-P", "demo", "run", "--", "true", code=125) and mark.exists()
    mark.unlink()
    store(abx, "demo", "extra").write_text("")
    for words, code in [(["run", "--", "true"], 125), (["create"], 12)]:
        r = abx("-P", "demo", *words, code=code)
        assert "E8003" in r.errors and "'extra' was added" in r.errors and not mark.exists()
    store(abx, "demo", "extra").unlink()
    abx("-P", "demo", "run", "--", "true", code=125)
    assert mark.exists()
    mark.unlink()
    # Another folder in its place, by a link that abx did not make.
    store(abx, "demo").rename(tmp_path / "away")
    store(abx, "demo").symlink_to(tmp_path / "away")
    assert "E8003" in abx("-P", "demo", "run", "--", "true", code=125).errors and not mark.exists()
    abx.ok("provider", "remove", "demo", "--yes")  # the ledger does not know what became of what was begun
    assert (tmp_path / "away" / "plugin").exists()


def test_whose_it_is(abx, demo):
    abx.ok("provider", "install", demo)
    store(abx, "demo").chmod(0o775)
    assert "chmod go-w" in abx("provider", "verify", "demo", code=12).errors
    store(abx, "demo").chmod(0o755)
    store(abx).chmod(0o777)
    assert "chmod 700" in abx("provider", "verify", "demo", code=2).errors
    store(abx).chmod(0o700)
    if ROOT:
        os.chown(store(abx, "demo"), 1000, 1000)
        assert "belongs to another user" in abx("provider", "verify", "demo", code=12).errors
        os.chown(store(abx, "demo"), 0, 0)
        os.chown(store(abx, "demo", "plugin"), 1000, 1000)
        assert "belongs to another user" in abx("provider", "verify", "demo", code=12).errors


@pytest.mark.parametrize("text,word", [
    (b"", "no JSON"), (b"{", "no JSON"), (b"[]", "no schema"), (b"{}", "no schema"), (b'{"schema":"1"}', "no schema"),
    (b'{"schema":2}', "newer version"), (b'{"schema":1}', "lacks a member"), (b"\0" * 100, "no JSON"), (None, "no receipt"),
    ("id", "another provider"), ("tree_sha256", "tree_sha256"), ("trust", "trust"), ("version", "version"), ("consent", "consent"),
])
def test_broken_receipts(shared, demo, text, word):
    abx = shared
    abx.ok("provider", "install", demo)
    path = store(abx, "demo", ".abx-receipt.json")
    if isinstance(text, str):
        path.write_text(json.dumps({**receipt(abx), text: "x"}))
    elif text is None:
        path.unlink()
    else:
        path.write_bytes(text)
    r = abx("provider", "verify", "demo", code=12)
    assert "E8003" in r.errors and word in r.errors and "remove" in r.errors, repr(r)
    assert abx("provider", "verify", "--json", code=12).json["providers"][0]["ok"] is False
    assert abx.ok("provider", "install", "--json", demo).json["step"] == "replace"
    abx.ok("provider", "verify")
    if text is None:
        path.unlink()
    abx.ok("provider", "remove", "demo")


# --- sources that are refused ---------------------------------------------------------------------------------


def test_odd_files_are_refused_by_name(abx, demo):
    os.mkfifo(demo / "pipe")
    refused(abx, demo, "'pipe'", "fifo")
    (demo / "pipe").unlink()
    s = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(demo)
    s.bind("sock")
    os.chdir(here)
    refused(abx, demo, "'sock'", "socket")
    s.close()
    (demo / "sock").unlink()
    if ROOT:
        os.mknod(demo / "dev", 0o600 | 0o020000, os.makedev(1, 3))
        refused(abx, demo, "'dev'", "device")
        (demo / "dev").unlink()
    for target in ["/etc/passwd", "../x", "lib/../../x", "nothing/../../x"]:
        os.symlink(target, demo / "out")
        refused(abx, demo, "'out'", "leaves")
        (demo / "out").unlink()
    (demo / "a" / "b").mkdir(parents=True)
    os.symlink("../..", demo / "a" / "b" / "root")  # the plugin's folder itself
    os.symlink("root/..", demo / "a" / "b" / "above")
    refused(abx, demo, "'a/b/above'", "leaves")
    (demo / "a" / "b" / "above").unlink()
    os.symlink("round", demo / "round")
    refused(abx, demo, "'round'", "circle")
    (demo / "round").unlink()
    (demo / "README").write_text("")
    (demo / "Readme").write_text("")
    refused(abx, demo, "differ only by case", "README", "Readme")
    (demo / "Readme").unlink()
    os.symlink("not there", demo / "dangling")
    os.symlink("a/b", demo / "inside")
    abx.ok("provider", "install", demo)
    assert os.readlink(store(abx, "demo", "inside")) == "a/b"


def test_a_manifest_is_needed(abx, demo):
    (demo / "abx-provider.toml").write_text("schema = 1\n")
    assert "E8" in refused(abx, demo, "abx-provider.toml", code=12).errors
    (demo / "abx-provider.toml").unlink()
    refused(abx, demo, "abx-provider.toml", code=12)
    make_plugin(demo, id="local")
    refused(abx, demo, "local", code=12)
    refused(abx, demo.parent / "none", "No such file", code=3)
    refused(abx, "https://example.com/demo.tar.gz", "nothing is downloaded", code=3)
    refused(abx, "/dev/null", "neither a folder nor")
    refused(abx, abx.home.parent, "holds the store", code=2)


def test_names_and_modes(abx, demo):
    odd = os.fsencode(demo) + b"/x\n\t\xff\x1b[31m"
    with open(odd, "wb") as f:
        f.write(b"x")
    (demo / "plugin").chmod(0o4777)
    (demo / ".git").mkdir()
    (demo / ".git" / "config").write_text("")
    (demo / "deep").mkdir(mode=0o2775)
    subprocess.run(["sh", "-c", 'umask 077; exec "$0" "$@"', ABX, "provider", "install", demo], env=abx.environment(),
                   stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=LIMIT)
    assert abx.ok("provider", "install", demo, "--json").json["step"] == "same"
    assert receipt(abx)["tree_sha256"] == tree_sha256(store(abx, "demo"))
    assert store(abx, "demo", "plugin").stat().st_mode & 0o7777 == 0o755
    assert store(abx, "demo", "deep").stat().st_mode & 0o7777 == 0o755
    assert not store(abx, "demo", ".git").exists()
    with open(os.fsencode(store(abx, "demo")) + b"/x\n\t\xff\x1b[31m", "ab") as f:
        f.write(b"y")
    r = abx("provider", "verify", "demo", code=12)
    assert b"\x1b" not in r.err and "x\\n\\t\\xff\\x1b[31m" in r.errors


def test_many_files(abx, demo):
    many = demo / "many"
    for i in range(count(2, 50)):
        (many / str(i)).mkdir(parents=True)
        for k in range(1000):
            os.close(os.open(many / str(i) / str(k), os.O_CREAT | os.O_WRONLY, 0o644))
    abx.ok("provider", "install", demo)
    assert receipt(abx)["entries"] == 2 + 1 + count(2, 50) * 1001
    abx.ok("provider", "verify")
    (store(abx, "demo", "many", "1", "500")).write_text("x")
    assert "'many/1/500' was changed" in abx("provider", "verify", "demo", code=12).errors
    abx.ok("provider", "remove", "demo")


# --- archives --------------------------------------------------------------------------------------------------


def entry(name, content=b"", **more):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def archive(path, entries, top="", mode="w:gz"):
    plugin = [entry(top + "abx-provider.toml", MANIFEST_BYTES), entry(top + "plugin", b"#!/bin/sh\n", mode=0o755)]
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT) as t:
        for info, content in plugin + entries:
            t.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return path


MANIFEST_BYTES = b"""schema = 1
id = "demo"
name = "Demo"
version = "1.0.0"
[runtime]
kind = "exec"
protocol = "epp/1"
command = ["./plugin"]
features = ["process"]
"""


@pytest.mark.parametrize("top", ["", "./", "demo-1.0/"])
def test_an_archive(abx, tmp_path, top):
    path = archive(tmp_path / "demo.tar.gz", [
        entry(top + "lib", type=tarfile.DIRTYPE, mode=0o2777), entry(top + "lib/a", b"a", mode=0o4644),
        entry(top + "lib/hard", type=tarfile.LNKTYPE, linkname=top + "lib/a"),
        entry(top + "soft", type=tarfile.SYMTYPE, linkname="lib/a"), entry(top + "lib", type=tarfile.DIRTYPE, mode=0o755),
        entry(top + ".abx-receipt.json", b"{}")], top=top)
    r = abx.ok("provider", "install", path, "--json").json
    assert r["treeSha256"] == tree_sha256(store(abx, "demo")) and r["source"] == str(path)
    assert sorted(os.listdir(store(abx, "demo"))) == [".abx-files", ".abx-receipt.json", "abx-provider.toml", "lib", "plugin", "soft"]
    assert store(abx, "demo", "lib", "hard").read_bytes() == b"a"
    abx.ok("provider", "verify")
    # The same files from a folder have the same digest.
    subprocess.run(["tar", "xzf", path, "-C", tmp_path, "--no-same-owner"], check=True)
    again = abx.ok("provider", "install", tmp_path / top if top else tmp_path, "--json", "--yes").json
    assert again["step"] == ("same" if top == "demo-1.0/" else "replace")


HOSTILE = {
    "up": (entry("../evil", b"x"), "'../evil'", "leads out"),
    "up-inside": (entry("lib/../../evil", b"x"), "evil", "leads out"),
    "absolute": (entry("/tmp/evil", b"x"), "'/tmp/evil'", "absolute"),
    "link-absolute": (entry("evil", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "'evil'", "leaves"),
    "link-up": (entry("evil", type=tarfile.SYMTYPE, linkname="../../x"), "'evil'", "leaves"),
    "hard-absolute": (entry("evil", type=tarfile.LNKTYPE, linkname="/etc/passwd"), "'evil'", "leaves"),
    "hard-up": (entry("evil", type=tarfile.LNKTYPE, linkname="../../x"), "'evil'", "leaves"),
    "hard-nothing": (entry("evil", type=tarfile.LNKTYPE, linkname="none"), "'evil'", "no file that came before"),
    "char": (entry("evil", type=tarfile.CHRTYPE, devmajor=1, devminor=3), "'evil'", "device"),
    "block": (entry("evil", type=tarfile.BLKTYPE, devmajor=8), "'evil'", "device"),
    "fifo": (entry("evil", type=tarfile.FIFOTYPE), "'evil'", "fifo"),
    "twice": (entry("plugin", b"other"), "'plugin'", "twice"),
    "file-over-folder": (entry("lib", b"x"), "'lib'", "twice"),
    "folder-over-file": (entry("plugin", type=tarfile.DIRTYPE), "'plugin'", "twice"),
    "through-file": (entry("plugin/evil", b"x"), "'plugin/evil'", "stands in its way"),
    "through-link": (entry("inside/evil", b"x"), "'inside/evil'", "stands in its way"),
    "long-name": (entry("e" * 300, b"x"), "eee", "255 bytes"),
    "deep": (entry("/".join("d" * 300), b"x"), "d/d", "too deep"),
    "case": (entry("PLUGIN", b"x"), "case", "plugin"),
    "newline": (entry("../a\nb\x1b", b""), "'../a\\nb\\x1b'", "leads out"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_archives(shared, tmp_path, what):
    abx = shared
    bad, *words = HOSTILE[what]
    path = archive(tmp_path / "x.tar.gz", [entry("lib", type=tarfile.DIRTYPE), entry("lib/a", b""),
                                           entry("inside", type=tarfile.SYMTYPE, linkname="lib"), bad])
    refused(abx, path, *words)
    assert not (abx.home / "evil").exists() and not os.path.exists("/tmp/evil")


def test_bombs(abx, tmp_path):
    path = tmp_path / "x.tar.gz"
    big = tarfile.TarInfo("bomb")
    big.size = 20 << 30
    head = archive(tmp_path / "plain.tar", [], mode="w").read_bytes()[:512 * 4]
    z = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = z.compress(head + big.tobuf(tarfile.GNU_FORMAT)) + z.compress(bytes(1 << 20)) + z.flush()
    path.write_bytes(piece)
    refused(abx, path, "'bomb'", "1024 MiB", code=2)
    folder = entry("d", type=tarfile.DIRTYPE)[0].tobuf(tarfile.GNU_FORMAT)
    path.write_bytes(zlib.compress(head + folder * 100001, 1, wbits=31))
    refused(abx, path, "more than 100000 entries", code=2)
    # A few MiB that say they are 900.
    z = zlib.compressobj(9, zlib.DEFLATED, 31)
    end = tarfile.TarInfo("huge")
    end.size = 900 << 20
    data = z.compress(head + end.tobuf(tarfile.GNU_FORMAT))
    path.write_bytes(data + b"".join(z.compress(bytes(1 << 20)) for _ in range(2)) + z.flush())
    refused(abx, path, "cut off")


def test_broken_archives(abx, tmp_path):
    good = archive(tmp_path / "good.tar.gz", [entry("data", os.urandom(100000))]).read_bytes()
    path = tmp_path / "x.tar.gz"
    for n in (len(good) // 2, len(good) - 4, 100):
        path.write_bytes(good[:n])
        refused(abx, path, "cut off")
    path.write_bytes(good[:60000] + bytes([good[60000] ^ 1]) + good[60001:])
    refused(abx, path, "broken")
    for mode, word in [("w:bz2", "bzip2"), ("w:xz", "xz"), ("w", "not compressed with gzip")]:
        archive(path, [], mode=mode)
        refused(abx, path, word, "tar czf")
    for raw, word in [(b"PK\x03\x04aaaa", "zip"), (b"", "not compressed"), (b"\x1f", "not compressed"), (b"\x1f\x8b" + b"\0" * 50, "broken")]:
        path.write_bytes(raw)
        refused(abx, path, word)
    z = zlib.compressobj(9, zlib.DEFLATED, 31)
    path.write_bytes(z.compress(b"no tar " * 1000) + z.flush())
    refused(abx, path, "tar archive")
    z = zlib.compressobj(9, zlib.DEFLATED, 31)
    path.write_bytes(z.compress(bytes(10240)) + z.flush())
    refused(abx, path, "abx-provider.toml", code=12)


# --- bad luck ---------------------------------------------------------------------------------------------------


def test_two_at_once(abx, tmp_path):
    demo = make_plugin(tmp_path / "demo", files={f"f{i}": os.urandom(50000) for i in range(40)})
    other = make_plugin(tmp_path / "other", version="2.0.0", files={f"g{i}": os.urandom(50000) for i in range(40)})
    running = [abx.start("provider", "install", source, "--yes") for source in (demo, other) * 3]
    for p in running:
        out, err = p.communicate(timeout=LIMIT)
        assert p.returncode == 0, err
    abx.ok("provider", "verify")
    names = set(os.listdir(store(abx, "demo"))) - {".abx-receipt.json", ".abx-files"}
    assert names in (set(os.listdir(demo)), set(os.listdir(other))) and rest_of_store(abx) == []


def test_readers_see_the_old_or_the_new(abx, tmp_path):
    folders = [make_plugin(tmp_path / v, version=v, files={f"{v}{i}": os.urandom(1000) for i in range(30)}) for v in ("1.0.0", "2.0.0")]
    abx.ok("provider", "install", folders[0])
    for i in range(count(3, 100)):
        p = abx.start("provider", "install", folders[(i + 1) % 2], "--yes")
        while p.poll() is None:
            abx.ok("provider", "verify", "demo")
        assert p.wait() == 0
        p.communicate()


def on_small_disk(abx, size, *words):
    script = f'mount -t tmpfs -o {size},mode=700 none "{abx.home}" && "{ABX}" "$@"; code=$?; find "{abx.home}/providers" 1>&2; exit $code'
    return subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *map(str, words)], env=abx.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)


def test_a_full_disk(abx, tmp_path):
    if not ROOT:
        return  # an ordinary user cannot make a small disk
    demo = make_plugin(tmp_path / "demo", files={"big": os.urandom(3 << 20), "lib/x": b"x"})
    for size in ("size=1m", "nr_inodes=8"):
        r = on_small_disk(abx, size, "provider", "install", demo)
        assert r.returncode == 7 and b"E4003" in r.stderr, r
        assert b".new-" not in r.stderr and b"providers/demo" not in r.stderr, r


def test_a_store_that_cannot_be_written(abx, demo, tmp_path):
    abx.ok("provider", "install", demo)
    make_plugin(demo, version="2.0.0")
    script = f'mount --bind "{store(abx)}" "{store(abx)}" && mount -o remount,ro,bind "{store(abx)}" && exec "{ABX}" "$@"'
    prefix = ["unshare", "-m", "sh", "-c", script, "sh"] if ROOT else [ABX]
    store(abx).chmod(0o700 if ROOT else 0o500)
    try:
        for words, code in [(["install", str(demo)], 2), (["remove", "demo"], 2), (["verify"], 0), (["link", str(demo), "--yes"], 2)]:
            r = subprocess.run([*prefix, "provider", *words], env=abx.environment(), stdin=subprocess.DEVNULL,
                               capture_output=True, timeout=LIMIT)
            assert r.returncode == code, r
            assert code == 0 or r.stderr.startswith(b"error: ") and b"providers" in r.stderr, r
    finally:
        store(abx).chmod(0o700)
    assert receipt(abx)["version"] == "1.0.0"


def test_interrupted(abx, tmp_path):
    demo = make_plugin(tmp_path / "demo", files={f"d{i}": bytes(1000000) for i in range(100)})
    p = abx.start("provider", "install", demo)
    wait_for(lambda: p.poll() is not None or rest_of_store(abx), "it began")
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=LIMIT)
    assert p.returncode in (0, 130) and rest_of_store(abx) == [], err
    assert store(abx, "demo").exists() == (p.returncode == 0)


# --- killed -----------------------------------------------------------------------------------------------------


class Trials:
    """Old and new, and the time that a change takes here."""

    def __init__(self, abx, tmp_path):
        self.abx = abx
        self.folders = [make_plugin(tmp_path / v, version=v, files={f"lib{v}/{i}": os.urandom(3000) for i in range(20)})
                        for v in ("1.0.0", "2.0.0")]
        abx.ok("provider", "install", self.folders[0])
        begin = time.monotonic()
        abx.ok("provider", "install", self.folders[1])
        self.takes = time.monotonic() - begin

    def kill_at_random(self, *words):
        p = self.abx.start("provider", *words, "--yes")
        time.sleep(random.uniform(0, 1.2) * self.takes)
        p.kill()
        p.communicate()

    def state(self):
        """The version that is there, whole, or None; what the killed run left is gone by the next command."""
        listed = self.abx("provider", "verify", "--json")
        assert rest_of_store(self.abx) == [], os.listdir(store(self.abx))
        found = listed.json["providers"]
        assert listed.code == 0 and len(found) <= 1, repr(listed)
        linked = [x for x in os.listdir(store(self.abx)) if store(self.abx, x).is_symlink()]
        links = store(self.abx, ".links")
        assert len(linked) == (len(os.listdir(links)) if links.is_dir() else 0)
        return found[0]["version"] if found else None


@pytest.mark.parametrize("what", ["upgrade", "install", "remove", "link"])
def test_killed_at_random_moments(abx, tmp_path, what):
    t = Trials(abx, tmp_path)
    seen = set()
    for i in range(count(3, 250)):
        if what == "install":
            abx.ok("provider", "remove", "demo")
            t.kill_at_random("install", t.folders[0])
        elif what == "remove":
            abx.ok("provider", "install", t.folders[0], "--yes")
            t.kill_at_random("remove", "demo")
        elif what == "link":
            abx.ok("provider", "install", t.folders[0], "--yes")
            t.kill_at_random("link", t.folders[1])
        else:
            abx.ok("provider", "install", t.folders[i % 2], "--yes")
            t.kill_at_random("install", t.folders[(i + 1) % 2])
        version = t.state()
        seen.add(version)
        assert version in {"upgrade": ("1.0.0", "2.0.0"), "link": ("1.0.0", "2.0.0")}.get(what, ("1.0.0", None))
        if version is None:
            abx.ok("provider", "install", t.folders[0])
    assert not SOAK or len(seen) == 2  # some were too early, some too late
    abx.ok("provider", "install", t.folders[0], "--yes")
    assert t.state() == "1.0.0"
