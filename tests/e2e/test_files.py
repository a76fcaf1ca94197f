"""The file verbs."""

import os
import re
import signal
import time

import pytest

from harness import count, wait_for

RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, count(5_000_000, 1_000_000_000)])
def test_write_and_cat_are_exact(shared, box, size, tmp_path):
    path = tmp_path / "data"
    with open(path, "wb") as f:
        block = os.urandom(65536)
        for _ in range(size // 65536):
            f.write(block)
        f.write(block[: size % 65536])
    with open(path, "rb") as f:
        w = shared.ok("files", "write", "--json", f"{box}:/work/data", stdin=f)
    assert w.json == {"path": "/work/data", "size": size}
    with open(tmp_path / "back", "wb") as f:
        shared.ok("files", "cat", f"{box}:/work/data", stdout=f)
    assert (tmp_path / "back").read_bytes() == path.read_bytes()
    shared.ok("files", "rm", f"{box}:/work/data")


def test_write_makes_folders_and_sets_the_mode(shared, box):
    shared.ok("files", "write", "--mode", "0755", f"{box}:/work/a/b/c", input=b"x")
    assert shared.sh(box, "stat -c %a:%U /work/a/b/c; stat -c %U /work/a", code=0).text == "755:user\nuser\n"
    shared.ok("files", "write", f"{box}:rel", input=b"y")
    assert shared.sh(box, "cat ~/rel; rm -r ~/rel /work/a", code=0).text == "y"
    shared.ok("files", "put", "-u", "root", f"{box}:/work/r", input=b"z")
    assert shared.sh(box, "stat -c %U /work/r; rm -f /work/r", "-u", "root", code=0).text == "root\n"


def test_cat_of_several(shared, box):
    shared.ok("files", "write", f"{box}:/work/1", input=b"a")
    shared.ok("files", "write", f"{box}:/work/2", input=b"b")
    assert shared.ok("files", "cat", f"{box}:/work/1", f"{box}:/work/2").out == b"ab"
    assert shared.ok("files", "read", f"{box}:/work/2").out == b"b"
    shared.ok("files", "rm", f"{box}:/work/1", f"{box}:/work/2")


def test_ls(shared, box):
    shared.sh(box, "mkdir -p /work/l/sub/x; echo hello > /work/l/f; ln -s f /work/l/link; mkfifo /work/l/p; "
              "printf x > '/work/l/new\nline'", code=0)
    listed = {f["name"]: f for f in shared.ok("files", "ls", "--json", f"{box}:/work/l").json["files"]}
    assert set(listed) == {"sub", "f", "link", "p", "new\nline"}
    assert listed["sub"]["type"] == "dir" and listed["link"]["type"] == "symlink"
    assert listed["p"]["type"] == "other" and listed["link"]["target"] == "f"
    f = listed["f"]
    assert f["size"] == 6 and f["path"] == "/work/l/f" and f["owner"] == "user" and f["group"] == "user"
    assert f["mode"] in (0o644, 0o100644) and re.fullmatch(RFC3339, f["modifiedAt"])
    table = shared.ok("files", "ls", f"{box}:/work/l").text
    assert "hello" not in table and "sub" in table and "new\nline" not in table
    assert set(shared.ok("files", "ls", "-q", f"{box}:/work/l").text.split()) >= {"f", "sub"}
    deep = shared.ok("files", "ls", "--depth", "3", "--json", f"{box}:/work/l").json["files"]
    assert "/work/l/sub/x" in [x["path"] for x in deep]
    shared.ok("files", "ls", box)
    shared.ok("files", "ls", box, "/work")
    one = shared.ok("files", "ls", "--limit", "1", "--json", f"{box}:/work/l")
    assert len(one.json["files"]) == 1 and one.err
    shared.ok("files", "rm", "-r", f"{box}:/work/l")


def test_a_big_folder(shared, box):
    shared.sh(box, "mkdir /work/many; cd /work/many; seq 1 3000 | xargs touch", code=0)
    r = shared.ok("files", "ls", "--json", "--limit", "0", f"{box}:/work/many")
    assert len(r.json["files"]) == 3000
    assert len(shared.ok("files", "ls", "--json", f"{box}:/work/many").json["files"]) == 1000
    shared.ok("files", "rm", "-r", f"{box}:/work/many")


def test_stat(shared, box):
    shared.sh(box, "echo x > /work/s; chmod 640 /work/s; ln -s s /work/sl", code=0)
    s = shared.ok("files", "stat", "--json", f"{box}:/work/s").json
    assert s["type"] == "file" and s["size"] == 2 and s["mode"] & 0o777 == 0o640
    assert shared.ok("files", "stat", "--json", f"{box}:/work/sl").json["type"] == "symlink"
    assert shared.ok("files", "stat", "--json", f"{box}:/").json["type"] == "dir"
    assert "640" in shared.ok("files", "stat", f"{box}:/work/s").text or "rw-r-----" in shared.ok(
        "files", "stat", f"{box}:/work/s").text
    shared.sh(box, "rm /work/s /work/sl", code=0)


def test_mkdir(shared, box):
    shared.ok("files", "mkdir", f"{box}:/work/m/a/b")
    shared("files", "mkdir", f"{box}:/work/m", code=5)
    shared.ok("files", "mkdir", "-p", f"{box}:/work/m", f"{box}:/work/m/c")
    assert shared.sh(box, "ls /work/m", code=0).text.split() == ["a", "c"]
    shared.sh(box, "touch /work/m/file", code=0)
    assert shared("files", "mkdir", f"{box}:/work/m/file/x").code in (1, 5)
    shared.ok("files", "rm", "-r", f"{box}:/work/m")


def test_mv(shared, box):
    shared.sh(box, "echo 1 > /work/o; mkdir /work/od; echo 2 > /work/od/f", code=0)
    shared.ok("files", "mv", f"{box}:/work/o", "/work/n")
    shared.ok("files", "mv", f"{box}:/work/od", f"{box}:/work/nd")
    assert shared.sh(box, "cat /work/n /work/nd/f; rm -r /work/n /work/nd", code=0).text == "1\n2\n"


def test_rm(shared, box):
    shared.sh(box, "mkdir -p /work/rd/x; touch /work/rf; ln -s /etc /work/rl", code=0)
    r = shared("files", "rm", f"{box}:/work/rd")
    assert r.code != 0 and "-r" in r.errors
    shared.ok("files", "rm", "-r", f"{box}:/work/rd")
    shared.ok("files", "rm", f"{box}:/work/rf", f"{box}:/work/rl")
    shared("files", "rm", f"{box}:/work/rf", code=3)
    shared.ok("files", "rm", "-f", f"{box}:/work/rf")
    assert shared.sh(box, "ls -A /work; test -e /etc/passwd", code=0).text == ""


def test_a_folder_where_a_file_is_meant(shared, box):
    for args in [["files", "cat", f"{box}:/work"], ["files", "write", f"{box}:/work"]]:
        r = shared(*args, input=b"x")
        assert r.code in (1, 2, 5) and "/work" in r.errors, repr(r)
    r = shared("files", "ls", f"{box}:/etc/passwd")
    assert r.code in (0, 1, 2, 5)


def test_no_right(shared, box):
    shared.sh(box, "touch /work/ro; chmod 000 /work/ro", code=0)
    assert shared("files", "write", f"{box}:/proc/version", input=b"x").code in (1, 4)
    assert shared("files", "write", f"{box}:/usr/bin/x", input=b"x").code in (1, 4)
    shared.sh(box, "rm -f /work/ro", code=0)


def test_strange_names(shared, box):
    for name in ["sp ace", "new\nline", "\u00e4\U0001f600", "n" * 255, "-x", "a:b", "%41", "a?b=c&d", "a#b", "+",
                 "'\""]:
        shared.ok("files", "write", f"{box}:/work/{name}", input=name.encode())
        assert shared.ok("files", "cat", f"{box}:/work/{name}").text == name
        assert shared.ok("files", "stat", "--json", f"{box}:/work/{name}").json["name"] == name
        shared.ok("files", "rm", f"{box}:/work/{name}")
    r = shared("files", "write", f"{box}:/work/" + "n" * 256, input=b"x")
    assert r.code != 0 and r.errors.startswith("error: ")


def test_fifo_and_device_do_not_hang(shared, box):
    shared.sh(box, "mkfifo /work/p", code=0)
    for path in ("/work/p", "/dev/null", "/dev/zero"):
        r = shared("files", "cat", f"{box}:{path}")
        assert r.code == 1 and r.out == b"" and f"'{path}' is not a regular file" in r.errors, r
    shared.sh(box, "rm /work/p", code=0)


def events(p):
    import json
    while True:
        line = p.stdout.readline()
        if not line:
            return
        yield json.loads(line)


@pytest.mark.parametrize("recursive", [False, True])
def test_watch(shared, box, spawn, recursive):
    shared.sh(box, "mkdir -p /work/w/sub", code=0)
    p = spawn(shared, "files", "watch", "--json", *(["-r"] if recursive else []), f"{box}:/work/w")
    assert next(events(p)) == {"type": "started"}
    shared.sh(box, "echo 1 > /work/w/sub/deep; echo 1 > /work/w/f; mv /work/w/f /work/w/g; rm /work/w/g; "
              "mkdir /work/w/n; sleep 0.2; echo x > /work/w/n/y; touch /work/w/last", code=0)
    seen = []
    for e in events(p):
        seen.append((e["kind"], e["name"]))
        if e["name"] == "last":
            break
    assert ("create", "f") in seen and ("remove", "g") in seen and ("create", "n") in seen
    assert any(kind == "rename" for kind, _ in seen)
    assert any(name == "sub/deep" for _, name in seen) == recursive
    assert any(name == "n/y" for _, name in seen) == recursive
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=20)
    assert p.returncode == 130
    shared.ok("files", "rm", "-r", f"{box}:/work/w")


def test_watch_as_root_of_what_only_root_may_see(shared, box, spawn):
    if shared("exec", "-u", "root", box, "--", "true").code:  # one id only: there is no root but the user
        return
    shared.ok("exec", "-u", "root", box, "--", "sh", "-c", "umask 077; mkdir -p /work/r/sub")
    p = spawn(shared, "files", "watch", "--json", "-r", "-u", "root", f"{box}:/work/r")
    assert next(events(p)) == {"type": "started"}
    shared.ok("exec", "-u", "root", box, "--", "sh", "-c", "umask 077; mkdir /work/r/new; sleep 0.2; touch /work/r/sub/a /work/r/new/b /work/r/last")
    seen = set()
    for e in events(p):
        seen.add(e["name"])
        if e["name"] == "last":
            break
    assert {"sub/a", "new", "new/b"} <= seen
    shared.ok("exec", "-u", "root", box, "--", "rm", "-r", "/work/r")


def test_watch_of_what_is_not_there(shared, box):
    shared("files", "watch", f"{box}:/none", code=3)


def test_watch_ends_with_the_sandbox(abx, spawn):
    a = abx.create()
    p = spawn(abx, "files", "watch", f"{a}:/work")
    time.sleep(0.3)
    abx.ok("kill", a)
    wait_for(lambda: p.poll() is not None)
    assert p.returncode == 8


def test_watch_with_a_name(shared, box, spawn):
    p = spawn(shared, "files", "watch", "--json", "shared-box:/tmp")
    assert next(events(p))["type"] == "started"
    shared.sh(box, "touch /tmp/seen", code=0)
    assert next(events(p))["name"] == "seen"
