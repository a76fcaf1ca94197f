"""What agents do all day works inside."""

import io
import os
import tarfile
import zipfile

import pytest

from harness import count, wait_for

WHEEL = {
    "tiny/__init__.py": "def answer():\n    return 42\n",
    "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tiny-1.0.dist-info/RECORD": "tiny/__init__.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\n"
                                 "tiny-1.0.dist-info/RECORD,,\n",
}


def ok(abx, box, script, **more):
    return abx.sh(box, "set -e\n" + script, code=0, **more).text


def foreground(abx, box):
    """What has the terminal of the sandbox's one shell."""
    script = ("for p in /proc/[0-9]*; do set -- $(cut -d')' -f2- $p/stat 2>/dev/null); [ \"$5\" != 0 ] && [ \"$6\" = \"$3\" ]"
              " && cat $p/comm; done; true")
    names = abx.sh(box, script).text.split()
    return names[0] if names else None


def test_a_shell_with_job_control(shared, box, terminal):
    t = terminal(shared, "shell", box)
    t.write("PS1='> '; set -m; echo rea''dy\n")
    t.expect("ready\r\n")
    t.write("sleep 1000\n")
    wait_for(lambda: "sleep" in shared.sh(box, "cat /proc/[0-9]*/comm").text.split())
    t.write(b"\x1a")
    t.expect("Stopped")
    t.write("bg; jobs\n")
    t.expect("Running")
    t.expect("sleep 1000 &")
    t.write("fg\n")
    t.expect("sleep 1000\r\n")
    wait_for(lambda: foreground(shared, box) == "sleep")
    t.write(b"\x03")
    wait_for(lambda: foreground(shared, box) != "sleep")
    t.write("echo d''one; exit 4\n")
    t.expect("done\r\n")
    assert t.end() == 4


def test_python_venv_and_pip(shared, box):
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as z:
        for name, text in WHEEL.items():
            z.writestr(name, text)
    shared("files", "write", f"{box}:/work/tiny-1.0-py3-none-any.whl", input=wheel.getvalue(), code=0)
    out = ok(shared, box, "cd /work; python3 -m venv v; v/bin/pip -q install --no-index ./tiny-1.0-py3-none-any.whl;"
                          "v/bin/python -c 'import tiny; print(tiny.answer())'; v/bin/pip list --format freeze")
    assert "42" in out and "tiny==1.0" in out


def test_node_and_npm(shared, box):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:gz") as t:
        for name, text in [("package.json", '{"name":"tiny","version":"1.0.0","main":"i.js"}'),
                           ("i.js", "module.exports = 42")]:
            member = tarfile.TarInfo("package/" + name)
            member.size = len(text)
            t.addfile(member, io.BytesIO(text.encode()))
    shared("files", "write", f"{box}:/work/tiny.tgz", input=tar.getvalue(), code=0)
    out = ok(shared, box, "mkdir -p /work/n; cd /work/n; npm init -y >/dev/null; npm install --offline --no-audit ../tiny.tgz >/dev/null;"
                          "node -e 'console.log(require(\"tiny\"))'")
    assert out == "42\n"


def test_gcc_and_make_on_all_cores(shared, box):
    make = "all: a b c d\n%: %.c\n\tgcc -O1 -o $@ $<\n"
    shared("files", "write", f"{box}:/work/c/Makefile", input=make.encode(), code=0)
    out = ok(shared, box, "cd /work/c; for i in a b c d; do echo \"int puts(const char *); int main(void) { puts(\\\"$i\\\"); }\""
                          " > $i.c; done; make -s -j$(nproc); ./a; ./d; nproc")
    assert out == f"a\nd\n{len(os.sched_getaffinity(0))}\n"


def test_git(shared, box):
    out = ok(shared, box, """
        git config --global user.name U; git config --global user.email u@example.org
        mkdir /work/r; cd /work/r; git init -q -b main; echo 1 > f; git add f; git commit -q -m one
        git clone -q /work/r /work/r2; cd /work/r2; git worktree add -q ../r3 -b side; cd ../r3
        echo 2 > f; git commit -q -am two; git push -q origin side; cd ../r; git log --oneline side | wc -l
        git status --porcelain; git fsck 2>&1""")
    assert out.startswith("2\n") and "ownership" not in out


@pytest.mark.parametrize("user", ["user", "root"])
def test_git_as_both_users(abx, user):
    a = abx.create()
    r = abx("exec", "-u", user, a, "--", "sh", "-c", "cd $(mktemp -d) && git init -q . && git status --porcelain", code=0)
    assert r.err == b""


def test_tar_rsync_sqlite(shared, box):
    out = ok(shared, box, """
        mkdir -p /work/t/a; cd /work/t; echo x > a/f; ln -s f a/l; ln a/f a/h; tar czf t.tgz a; mkdir o; tar xzf t.tgz -C o
        readlink o/a/l; stat -c %h o/a/f; rsync -aH a/ p/; stat -c %h p/f
        sqlite3 d.db 'create table t(x); insert into t values(7); select x from t'""")
    assert out == "f\n2\n2\n7\n"


def test_a_server_in_the_background(shared, box):
    shared.ok("exec", "-d", box, "--", "python3", "-m", "http.server", "8123", "--bind", "127.0.0.1")
    wait_for(lambda: shared.sh(box, "python3 -c 'import urllib.request as u;"
                                    "print(u.urlopen(\"http://127.0.0.1:8123\").status)'").out == b"200\n")


def test_devices_and_proc(shared, box):
    out = ok(shared, box, "echo x > /dev/shm/f; cat /dev/shm/f; test -c /dev/ptmx; python3 -c 'import pty, os; pty.openpty();"
                          "from multiprocessing import Pool; print(sum(Pool(2).map(abs, [-1, -2])))'; ls -d /proc/1 /proc/self")
    assert out.split() == ["x", "3", "/proc/1", "/proc/self"]


@pytest.mark.parametrize("name", ["ünï 漢字 🙂", "n" * 255, "a\nb", "-rf", " lead", "tab\t*?"],
                         ids=["unicode", "long", "newline", "dash", "blank", "glob"])
def test_names(shared, box, name):
    shared("files", "write", f"{box}:/work/names/{name}", input=b"data", code=0)
    assert shared.ok("files", "cat", f"{box}:/work/names/{name}").out == b"data"
    found = [f["name"] for f in shared.ok("files", "ls", "--json", f"{box}:/work/names").json["files"]]
    assert name in found
    shared.ok("cp", f"{box}:/work/names/{name}", shared.work / "one")
    assert (shared.work / "one").read_bytes() == b"data"


def test_many_files_in_a_folder(shared, box):
    n = count(1000, 100000)
    ok(shared, box, f"mkdir /work/many; cd /work/many; python3 -c 'for i in range({n}): open(str(i), \"w\").close()'")
    assert len(shared.ok("files", "ls", "--json", "--limit", "0", f"{box}:/work/many").json["files"]) == n
    assert ok(shared, box, "cd /work; ls many | wc -l; rm -r many").split()[0] == str(n)


def test_sparse_and_large_files(shared, box):
    out = ok(shared, box, "cd /work; truncate -s 5G big; printf end | dd of=big bs=1 seek=5368709117 conv=notrunc 2>/dev/null;"
                          "stat -c '%s %b' big; tail -c 3 big")
    size, blocks = out.split("\n")[0].split()
    assert size == str(5 << 30) and int(blocks) < 1000 and out.endswith("end")
    assert shared.ok("files", "stat", "--json", f"{box}:/work/big").json["size"] == 5 << 30
    ok(shared, box, "rm /work/big")


def test_links(shared, box):
    out = ok(shared, box, "mkdir /work/k; cd /work/k; echo 1 > f; ln f h; ln -s f s; ln -s /work/k d; ln -s nowhere n;"
                          "stat -c %h f; cat d/s; readlink n; echo 2 >> h; cat f")
    assert out.split() == ["2", "1", "nowhere", "1", "2"]
    kinds = {f["name"]: f["type"] for f in shared.ok("files", "ls", "--json", f"{box}:/work/k").json["files"]}
    assert kinds["s"] == kinds["n"] == "symlink" and kinds["h"] == "file"
