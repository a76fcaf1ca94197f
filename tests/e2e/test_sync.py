"""sync: one way, two ways, ignored names, conflicts, dry runs, interruption, watching."""

import json
import os
import signal
import subprocess
import time

import pytest

from harness import count, wait_for


def tree(top):
    """path -> kind or content of everything below a folder of this machine, even while it changes."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            rel = os.path.relpath(path, top)
            if os.path.islink(path):
                found[rel] = "-> " + os.readlink(path)
            elif os.path.isdir(path):
                found[rel] = "dir"
            else:
                try:
                    with open(path, "rb") as f:
                        found[rel] = f.read()
                except FileNotFoundError:
                    pass  # a part that got its name since
    return found


SHOW = r"""
cd "$1" && find . -mindepth 1 -printf '%P\0%y\0%l\0' | while IFS= read -r -d '' p && IFS= read -r -d '' t && IFS= read -r -d '' l; do
printf '%s\0%s\0' "$p" "$t"; case $t in f) base64 -w0 "./$p";; l) printf %s "$l";; esac; printf '\0'; done
"""


def inside(abx, box, top):
    """The same of a folder in a sandbox."""
    import base64
    out = abx.ok("exec", box, "--", "bash", "-c", SHOW, "show", top).out
    words = out.split(b"\0")[:-1]
    found = {}
    for i in range(0, len(words), 3):
        path, kind, value = words[i].decode("utf-8", "surrogateescape"), words[i + 1], words[i + 2]
        found[path] = ("dir" if kind == b"d" else "-> " + value.decode() if kind == b"l"
                       else base64.b64decode(value))
    return found


def fill(top):
    top.mkdir()
    (top / "a").write_text("1")
    (top / "d").mkdir()
    (top / "d" / "b").write_text("2")
    (top / "d" / "empty").mkdir()
    (top / "with space").write_text("3")
    (top / "new\nline").write_text("4")
    (top / "\u00e4\u4e2d\U0001f600").write_text("5")
    (top / ("n" * 255)).write_text("6")
    (top / "-dash").write_text("7")
    (top / "link").symlink_to("d/b")
    (top / "out").symlink_to("/etc/passwd")
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    os.utime(top / "a", ns=(1_000_000_000_123_456_789, 1_000_000_000_123_456_789))


@pytest.fixture
def place(shared, box):
    """A folder of its own in the shared sandbox."""
    name = f"/work/sync{time.monotonic_ns()}"
    yield name
    shared.sh(box, f"chmod -R u+rwX {name}; rm -rf {name}")


def test_there_and_back(shared, box, place, tmp_path):
    fill(tmp_path / "src")
    shared.ok("sync", tmp_path / "src", f"{box}:{place}")
    assert inside(shared, box, place) == tree(tmp_path / "src")
    assert shared.sh(box, f"stat -c '%a %.Y' {place}/run.sh {place}/a", code=0).text.splitlines()[1].endswith(
        " 1000000000.123456789")
    assert shared.sh(box, f"stat -c %a {place}/run.sh", code=0).text == "755\n"
    shared.ok("sync", f"{box}:{place}", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(tmp_path / "src")
    assert (tmp_path / "back" / "a").stat().st_mtime_ns == 1_000_000_000_123_456_789
    assert (tmp_path / "back" / "run.sh").stat().st_mode & 0o777 == 0o755


def actions(result):
    return sorted((a["action"], a.get("to"), a["path"]) for a in result.json["actions"])


def test_only_what_differs_is_copied(shared, box, place, tmp_path):
    src = tmp_path / "src"
    fill(src)
    shared.ok("sync", src, f"{box}:{place}")
    again = shared.ok("sync", "--json", src, f"{box}:{place}").json
    assert (again["files"], again["deleted"], again["actions"]) == (0, 0, [])
    (src / "a").write_text("changed")
    (src / "run.sh").chmod(0o700)
    (src / "link").unlink()
    (src / "link").symlink_to("a")
    some = shared.ok("sync", "--json", src, f"{box}:{place}")
    assert actions(some) == [("copy", "sandbox", p) for p in ("a", "link", "run.sh")]
    assert inside(shared, box, place) == tree(src)


def test_delete_and_dry_run(shared, box, place, tmp_path):
    src = tmp_path / "src"
    fill(src)
    shared.ok("sync", src, f"{box}:{place}")
    before = inside(shared, box, place)
    (src / "a").unlink()
    (src / "new").write_text("n")
    subprocess.run(["rm", "-r", src / "d"], check=True)
    dry = shared.ok("sync", "--delete", "--dry-run", "--json", src, f"{box}:{place}")
    assert dry.json["dryRun"] is True
    assert actions(dry) == [("copy", "sandbox", "new"), ("delete", "sandbox", "a"), ("delete", "sandbox", "d")]
    table = shared.ok("sync", "--delete", "--dry-run", src, f"{box}:{place}").text.splitlines()
    assert table[0].split() == ["ACTION", "TO", "SIZE", "PATH"] and len(table) == 4
    assert inside(shared, box, place) == before
    shared.ok("sync", src, f"{box}:{place}")
    assert "a" in inside(shared, box, place)  # nothing goes without --delete
    shared.ok("sync", "--delete", src, f"{box}:{place}")
    assert inside(shared, box, place) == tree(src)


def test_many_are_deleted_at_once(shared, box, place, tmp_path):
    src = tmp_path / "src"
    src.mkdir()
    (src / "keep").write_text("k")
    shared.ok("exec", box, "--", "bash", "-c",
              f"mkdir -p {place}/x; cd {place}; for i in {{1..12}}; do echo > \"./-f $i\"; done; echo > $'x/new\\nline'")
    done = shared.ok("sync", "--delete", "--json", src, f"{box}:{place}").json
    assert done["deleted"] == 13
    assert inside(shared, box, place) == {"keep": b"k"}


def test_types_take_each_others_place(shared, box, place, tmp_path):
    src = tmp_path / "src"
    src.mkdir()
    (src / "one").mkdir()
    (src / "one" / "x").write_text("x")
    (src / "two").write_text("2")
    (src / "three").symlink_to("two")
    shared.ok("sync", src, f"{box}:{place}")
    subprocess.run(["rm", "-r", src / "one", src / "two", src / "three"], check=True)
    (src / "one").write_text("1")
    (src / "two").mkdir()
    (src / "two" / "y").write_text("y")
    (src / "three").write_text("3")
    refused = shared("sync", src, f"{box}:{place}", code=5)
    assert "conflict: 'one': a folder" in refused.errors
    assert inside(shared, box, place)["two/y"] == b"y"
    shared.ok("sync", "--delete", src, f"{box}:{place}")
    assert inside(shared, box, place) == tree(src)
    shared.ok("sync", "--delete", f"{box}:{place}", tmp_path / "back")
    shared.sh(box, f"rm {place}/one; mkdir -p {place}/one/deep; rm -r {place}/two; echo 2 > {place}/two", code=0)
    shared.ok("sync", "--delete", f"{box}:{place}", tmp_path / "back")
    assert tree(tmp_path / "back") == inside(shared, box, place)


def test_ignored_names(shared, box, place, tmp_path):
    src = tmp_path / "src"
    src.mkdir()
    (src / ".abxignore").write_text("# built\n*.o\n!keep.o\n/top\nbuild/\na/**/z\n")
    for name in ["x.o", "keep.o", "top", "d/top", "d/x.o", "build/f", "d/build/f", "a/b/c/z", "a/y", "skip.me"]:
        (src / name).parent.mkdir(parents=True, exist_ok=True)
        (src / name).write_text(name)
    shared.ok("sync", "--exclude", "skip.*", src, f"{box}:{place}")
    files = {p for p, kind in inside(shared, box, place).items() if kind != "dir"}
    assert files == {".abxignore", "keep.o", "d/top", "a/y"}
    # What is ignored stays on the other side too, with the folders that it lies in.
    shared.sh(box, f"cd {place}; mkdir -p gone/build more; echo > gone/build/g; echo > gone/h; echo > more/x.o; echo > m", code=0)
    shared.ok("sync", "--delete", "--exclude", "skip.*", src, f"{box}:{place}")
    left = inside(shared, box, place)
    assert "gone/build/g" in left and "more/x.o" in left
    assert "gone/h" not in left and "m" not in left
    shared.ok("sync", "--include", "*.o", "--include", "build/", src, f"{box}:{place}")
    left = inside(shared, box, place)
    assert left["x.o"] == b"x.o" and left["build/f"] == b"build/f" and "top" not in left


def test_an_empty_source_removes_nothing(shared, box, place, tmp_path):
    (tmp_path / "src").mkdir()
    shared.sh(box, f"mkdir {place}; echo > {place}/x", code=0)
    refused = shared("sync", "--delete", tmp_path / "src", f"{box}:{place}", code=2)
    assert "--yes" in refused.errors
    assert shared("sync", "--delete", tmp_path / "nothing", f"{box}:{place}", code=3)
    assert shared("sync", "--delete", "-y", tmp_path / "nothing", f"{box}:{place}", code=3)
    assert "x" in inside(shared, box, place)
    shared.ok("sync", "--delete", "-y", tmp_path / "src", f"{box}:{place}")
    assert inside(shared, box, place) == {}
    shared.sh(box, f"rmdir {place}", code=0)
    shared("sync", f"{box}:{place}", tmp_path / "back", code=3)
    assert not (tmp_path / "back").exists()


def test_checksum(shared, box, place, tmp_path):
    src = tmp_path / "src"
    fill(src)
    shared.ok("sync", src, f"{box}:{place}")
    # The same size and time, other contents: only --checksum sees it.
    shared.sh(box, f"cd {place}; printf 9 > a; touch -d @1000000000.123456789 a; touch d/b", code=0)
    assert shared.ok("sync", "--checksum", "--dry-run", "-o", "name", src, f"{box}:{place}").text == "a\n"
    assert shared.ok("sync", "--dry-run", "-o", "name", src, f"{box}:{place}").text == "d/b\n"
    shared.ok("sync", "--checksum", src, f"{box}:{place}")
    assert inside(shared, box, place) == tree(src)


def test_links_are_never_followed(shared, box, place, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("s")
    (tmp_path / "src" / "link").symlink_to(tmp_path / "outside")
    shared.ok("sync", tmp_path / "src", f"{box}:{place}")
    assert inside(shared, box, place) == {"link": f"-> {tmp_path / 'outside'}"}
    # A folder in the sandbox, a link of the same name here: the link is replaced, what is behind it stays.
    shared.sh(box, f"cd {place}; rm link; mkdir link; echo evil > link/secret", code=0)
    shared.ok("sync", "--delete", f"{box}:{place}", tmp_path / "src")
    assert (tmp_path / "outside" / "secret").read_text() == "s"
    assert not (tmp_path / "src" / "link").is_symlink()
    assert (tmp_path / "src" / "link" / "secret").read_text() == "evil\n"


def test_two_ways(shared, box, place, tmp_path):
    src = tmp_path / "src"
    fill(src)
    pair = ("sync", "--two-way", "--json", src, f"{box}:{place}")
    shared.ok(*pair)
    assert shared.ok(*pair).json["actions"] == []
    (src / "a").write_text("here")
    (src / "with space").unlink()
    subprocess.run(["rm", "-r", src / "d" / "empty"], check=True)
    shared.sh(box, f"cd {place}; echo there > d/b; rm ./-dash; mkdir fresh; echo f > fresh/f; mv run.sh walk.sh", code=0)
    done = shared.ok(*pair)
    assert actions(done) == sorted([
        ("copy", "sandbox", "a"), ("delete", "sandbox", "with space"), ("delete", "sandbox", "d/empty"),
        ("copy", "local", "d/b"), ("delete", "local", "-dash"), ("copy", "local", "fresh"),
        ("copy", "local", "fresh/f"), ("copy", "local", "walk.sh"), ("delete", "local", "run.sh")])
    assert inside(shared, box, place) == tree(src)
    assert shared.ok(*pair).json["actions"] == []
    names = os.listdir(shared.home / "sync")
    assert all(n.startswith(f"{box}.") for n in names)
    assert (shared.home / "sync").stat().st_mode & 0o777 == 0o700


def test_conflicts_stay_as_they_are(shared, box, place, tmp_path):
    src = tmp_path / "src"
    fill(src)
    pair = ("sync", "--two-way", src, f"{box}:{place}")
    shared.ok(*pair)
    (src / "a").write_text("here")
    (src / "d" / "b").unlink()
    (src / "other").write_text("o")
    shared.sh(box, f"cd {place}; echo there > a; echo changed > d/b; echo q > q", code=0)
    for _ in range(2):
        left = shared(*pair, code=5)
        assert "conflict: 'a': both sides have changed it" in left.errors
        assert "conflict: 'd/b': changed in the sandbox, removed on this machine" in left.errors
    assert (src / "a").read_text() == "here" and inside(shared, box, place)["a"] == b"there\n"
    assert (src / "q").read_text() == "q\n" and inside(shared, box, place)["other"] == b"o"
    (src / "a").unlink()
    shared.sh(box, f"rm {place}/d/b", code=0)
    assert shared(*pair, code=5).errors.count("conflict:") == 1
    shared.sh(box, f"rm {place}/a", code=0)
    shared.ok(*pair)
    assert inside(shared, box, place) == tree(src)


def test_an_emptied_side_of_two_ways_asks(shared, box, place, tmp_path):
    src = tmp_path / "src"
    fill(src)
    pair = ("sync", "--two-way", src, f"{box}:{place}")
    shared.ok(*pair)
    shared.sh(box, f"rm -rf {place}", code=0)
    refused = shared(*pair, code=2)
    assert "--yes" in refused.errors
    assert "a" in tree(src)
    shared.ok(*pair, "-y")
    assert tree(src) == {}


def test_ended_in_the_middle(abx, tmp_path):
    """SIGKILL at any moment: the next run completes, and half a file never counts as somebody's change."""
    src = tmp_path / "src"
    src.mkdir()
    for i in range(20):
        (src / f"f{i}").write_bytes(os.urandom(400_000))
    box = abx.create()
    pair = ("sync", "--two-way", src, f"{box}:/work/s")
    for turn in range(count(4, 40)):
        for i in range(0, 20, 3):
            (src / f"f{i}").write_bytes(os.urandom(300_000 + turn))
        p = abx.start(*pair)
        time.sleep(0.004 * (turn % 20 + 1))
        p.kill()
        p.communicate()
        done = abx(*pair)
        # The lock goes with the process; what tar still had in its hands is ended with its stream.
        if done.code == 5:
            assert False, repr(done)
        wait_for(lambda: abx(*pair, "--json").json["actions"] == [], "in step again")
        assert inside(abx, box, "/work/s") == tree(src)
    assert not [n for n in os.listdir(src) if n.startswith(".abx-")]


def test_two_runs_at_once(shared, box, place, tmp_path):
    src = tmp_path / "src"
    fill(src)
    p = shared.start("sync", "--two-way", "--watch", src, f"{box}:{place}")
    try:
        wait_for(lambda: shared.sh(box, f"test -e {place}/run.sh").code == 0, "the first run")
        other = shared("sync", "--two-way", src, f"{box}:{place}", code=5)
        assert "already" in other.errors
    finally:
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=30)
    assert p.returncode == 130


def test_watching(shared, box, place, tmp_path):
    src = tmp_path / "src"
    fill(src)
    p = shared.start("sync", "--two-way", "--watch", "--json", src, f"{box}:{place}")
    try:
        wait_for(lambda: shared.sh(box, f"test -e {place}/run.sh").code == 0, "the first run")
        (src / "d" / "new folder").mkdir()
        (src / "d" / "new folder" / "x").write_text("x")
        wait_for(lambda: shared.sh(box, f"cat '{place}/d/new folder/x'").out == b"x", "from here")
        shared.sh(box, f"mkdir -p {place}/p/q; echo y > {place}/p/q/y", code=0)
        wait_for(lambda: (src / "p/q/y").exists() and (src / "p/q/y").read_text() == "y\n", "from there")
        for i in range(200):  # a burst
            (src / f"burst{i}").write_text(str(i))
        os.rename(src / "d", src / "e")
        shared.sh(box, f"rm {place}/a", code=0)
        wait_for(lambda: not (src / "a").exists(), "removed there")
        wait_for(lambda: shared.sh(box, f"cat {place}/burst199 {place}/e/b").out == b"1992", "the burst")
        wait_for(lambda: inside(shared, box, place) == tree(src), "in step")
    finally:
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=30)
    assert p.returncode == 130
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines and all(set(line) >= {"files", "bytes", "deleted", "conflicts", "actions"} for line in lines)
    assert len(lines) < 30  # changes are taken together


def test_watching_one_way_out(shared, box, place, tmp_path):
    shared.sh(box, f"mkdir {place}; echo 1 > {place}/one", code=0)
    p = shared.start("sync", "--watch", "--delete", "-q", f"{box}:{place}", tmp_path / "back")
    try:
        wait_for(lambda: (tmp_path / "back" / "one").exists(), "the first run")
        shared.sh(box, f"cd {place}; mkdir d; echo 2 > d/two; rm one; touch last", code=0)
        wait_for(lambda: set(tree(tmp_path / "back")) == {"d", "d/two", "last"}, "the change")
    finally:
        p.send_signal(signal.SIGTERM)
        out, err = p.communicate(timeout=30)
    assert (p.returncode, out, err) == (143, b"", b"")


def test_words(shared, box, tmp_path):
    assert "ID:PATH" in shared("sync", tmp_path, tmp_path / "x", code=2).errors
    assert shared("sync", f"{box}:/a", f"{box}:/b", code=2)
    assert shared("sync", tmp_path, "nobody-here:/work", code=3)
    (tmp_path / "file").write_text("f")
    assert "no folder" in shared("sync", tmp_path / "file", f"{box}:/work/x", code=5).errors
    assert "no folder" in shared("sync", tmp_path, f"{box}:/etc/passwd", code=5).errors


def test_no_right_is_named(shared, box, place, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "x").write_text("x")
    refused = shared("sync", tmp_path / "src", f"{box}:/usr/share", code=1)
    assert "/usr/share" in refused.errors or "x" in refused.errors
    shared.sh(box, f"mkdir -p {place}/shut; echo > {place}/shut/f; chmod 0 {place}/shut/f", code=0)
    refused = shared("sync", f"{box}:{place}", tmp_path / "back")
    if refused.code != 0:  # a file that its owner may not read
        assert "shut/f" in refused.errors


def test_many_files(abx, tmp_path):
    n = count(1_000, 100_000)
    src = tmp_path / "src"
    for i in range(n):
        if i % 1000 == 0:
            (src / f"d{i // 1000}").mkdir(parents=True)
        (src / f"d{i // 1000}" / f"f{i}").write_bytes(b"x" * (i % 50))
    box = abx.create()
    assert abx.ok("sync", "--json", src, f"{box}:/work/s", timeout=900).json["files"] == n + -(-n // 1000)
    assert abx.ok("sync", "--json", src, f"{box}:/work/s", timeout=900).json["actions"] == []
    abx.ok("sync", f"{box}:/work/s", tmp_path / "back", timeout=900)
    subprocess.run(["diff", "-r", src, tmp_path / "back"], check=True)
