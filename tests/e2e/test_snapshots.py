"""Snapshots and forks: the files of a sandbox, kept and made into others; what runs goes on; nothing inside leads out."""

import os
import signal
import threading
import time

import pytest

from harness import ROOT, Abx, reap, wait_for
from images import Image, busybox, file, folder, layer

PREPARE = r"""
mkdir -p d/sub && echo hello > d/f && ln d/f d/hard && ln -s f d/soft && chmod 640 d/f && touch -d @1000000000 d/f
dd if=/dev/zero of=sparse bs=1 count=1 seek=50M 2>/dev/null; mkfifo pipe; mkdir closed && echo x > closed/x && chmod 000 closed
echo new > /work/w
"""


@pytest.fixture(scope="module")
def home():
    a = Abx(furnished=True)
    yield a
    a.close()
    reap()


@pytest.fixture(scope="module")
def kept(home):
    """The id of a snapshot named `ready`."""
    box = home.create("--name", "origin")
    home.sh(box, PREPARE, code=0)
    made = home.ok("snapshot", "create", "origin", "--name", "ready")
    return made.text.strip()


def test_the_files_are_as_they_were(home, kept):
    script = ("cat d/hard /work/w; readlink d/soft; stat -c '%a %Y %h' d/f; test -p pipe && echo fifo;"
              "stat -c '%s' sparse; echo $(($(stat -c %b sparse) < 200)); stat -c %a closed; chmod 700 closed; cat closed/x")
    result = home.ok("run", "--snapshot", "ready", "--", "sh", "-c", script)
    assert result.text.split() == ["hello", "new", "f", "640", "1000000000", "2", "fifo", "52428801", "1", "0", "x"]


def test_snapshot_and_origin_are_apart(home, kept):
    box = home.create("--snapshot", kept)
    home.sh("origin", "echo changed > d/f; rm -f /work/w", code=0)
    assert home.sh(box, "cat d/f /work/w", code=0).out == b"hello\nnew\n"
    home.sh(box, "rm -rf d", code=0)
    assert home.sh("origin", "cat d/f", code=0).out == b"changed\n"
    assert home.info(box)["snapshot"] == kept and home.info(box)["template"] == "host"
    home.ok("kill", box)


def test_list_and_names(home, kept):
    rows = home.ok("snapshot", "ls", "--json").json["snapshots"]
    assert [r["name"] for r in rows if r["id"] == kept] == ["ready"]
    assert home("snapshot", "create", "origin", "--name", "ready").code == 5
    assert home("snapshot", "create", "origin", "--name", "../x").code == 2
    assert home("create", "--snapshot", "nothing").code == 3
    assert home("snapshot", "rm", "nothing").code == 3
    assert home("create", "--snapshot", "ready", "--template", "host").code == 2
    assert len(home.ok("snapshot", "ls", "-q").text.split()) == len(rows)


def test_a_removed_file_of_the_system_stays_removed(home):
    box = home.create()
    removed = "/usr/bin/awk" if ROOT else "/etc/services"
    home.sh(box, f"rm {removed}", "-u", "root", code=0)
    made = home.ok("fork", box).text.strip()
    assert home.sh(made, f"test ! -e {removed} && echo gone", code=0).out == b"gone\n"
    home.ok("kill", box, made)


def test_snapshots_lie_over_one_another(home):
    box = home.create()
    for i in range(20):  # more than are stacked before they are merged
        home.sh(box, f"echo {i} > f{i}; rm -f f{i - 3}; rm -rf d; mkdir d; echo {i} > d/{i}", code=0)
        made = home.ok("fork", box).text.strip()
        home.ok("kill", box)
        box = made
    assert home.sh(box, "echo f*; echo d/*", code=0).text.split() == ["f17", "f18", "f19", "d/19"]
    home.ok("kill", box)


def test_fork_has_a_name_and_leaves_no_snapshot(home):
    before = home.ok("snapshot", "ls", "--json").json
    home.ok("fork", "origin", "--name", "forked", "-l", "a=b", "--timeout", "10m")
    assert home.info("forked")["metadata"] == {"a": "b"}
    assert home.ok("snapshot", "ls", "--json").json == before
    home.ok("kill", "forked")
    assert home("fork", "nobody").code == 3


def test_an_interrupted_fork_leaves_nothing(home, kept, spawn):
    """Wherever it is hit: neither the snapshot that was its own nor a sandbox that nobody was told of."""
    def there():
        return home.ok("snapshot", "ls", "-q").text, sorted(home.ok("ls", "-q").text.split())
    before = there()
    began = time.monotonic()
    home.ok("kill", home.ok("fork", "origin").text.strip())
    took = time.monotonic() - began
    for i in range(1, 16):
        p = spawn(home, "fork", "origin")
        time.sleep(took * i / 16)
        p.send_signal(signal.SIGINT)
        made = p.communicate(timeout=30)[0].decode().split()
        if made:
            home.ok("kill", *made)
        assert there() == before


def test_a_fork_lives_on_without_its_source(home, kept):
    box = home.create("--snapshot", kept)
    made = home.ok("fork", box).text.strip()
    home.ok("kill", box)
    home.ok("gc")
    assert home.sh(made, "cat d/hard", code=0).out == b"hello\n"
    home.ok("kill", made)


def test_removal_leaves_what_others_use(abx):
    box = abx.create()
    abx.sh(box, "echo x > f", code=0)
    abx.ok("snapshot", "create", box, "--name", "one")
    other = abx.create("--snapshot", "one")
    abx.ok("snapshot", "rm", "one")
    abx.ok("gc")
    assert abx.sh(other, "cat f", code=0).out == b"x\n"
    abx.ok("kill", box, other)
    abx.ok("gc")
    assert os.listdir(abx.home / "local/layers") == ["m"]


def test_of_a_template(home):
    source = Image(busybox(), layer(folder("d"), file("d/a", b"a"), file("d/b", b"b")), Env=["PATH=/bin", "X=1"],
                   Cmd=["sh", "-c", "echo $X; ls /d"]).docker(home.work / "i.tar")
    home.ok("template", "add", "img", source)
    box = home.create("--template", "img")
    home.sh(box, "rm /d/a && echo c > /d/c", "-u", "root", code=0)
    home.ok("snapshot", "create", box, "--name", "of-img")
    home.ok("kill", box)
    assert home.ok("run", "--snapshot", "of-img").text.split() == ["1", "b", "c"]
    assert home("template", "rm", "img").code == 5
    home.ok("snapshot", "rm", "of-img")
    home.ok("template", "rm", "img")


def test_processes_stand_still_and_go_on(home):
    box = home.create()
    home.ok("exec", "-d", box, "--", "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > a; echo $i > b; done")
    wait_for(lambda: home.sh(box, "test -s b").code == 0)
    home.ok("snapshot", "create", box, "--name", "quiet")
    before = int(home.sh(box, "cat b || echo 0", code=0).text or 0)
    wait_for(lambda: int(home.sh(box, "cat b").text.strip() or 0) > before, "it goes on")
    a, b = (int(x or 0) for x in home.ok("run", "--snapshot", "quiet", "--", "sh", "-c",
                                         "echo $(cat a); echo $(cat b)").text.split("\n")[:2])
    assert a == 0 or b == 0 or 0 <= a - b <= 1
    home.ok("kill", box)


def test_a_paused_sandbox_stays_paused(home):
    box = home.create()
    home.ok("pause", box)
    home.ok("snapshot", "create", box)
    assert home.info(box)["state"] == "paused"
    home.ok("kill", box)


def test_a_killed_snapshot_lets_the_sandbox_go_on(home):
    box = home.create()
    home.sh(box, "for i in $(seq 300); do echo $i > f$i; done", code=0)
    p = home.start("snapshot", "create", box, "--name", "cut")
    time.sleep(0.03)
    p.send_signal(signal.SIGKILL)
    p.communicate()
    wait_for(lambda: home.sh(box, "echo on").out == b"on\n", "it goes on by itself", seconds=60)
    home.ok("gc")
    home.ok("kill", box)


def test_hostile_files_do_no_harm(home):
    box = home.create()
    home.sh(box, f"""
        ln -s / root; ln -s {home.home} home; mkdir -p x && ln -s ../../../../../../etc x/up
        d=deep; for i in $(seq 100); do d=$d/d; done; mkdir -p $d
        touch "$(printf 'a\\nb')" "$(printf '\\033[31m')"; ln -s /proc/self/mem mem
    """, code=0)
    made = home.ok("fork", box).text.strip()
    assert home.sh(made, "readlink root; readlink x/up; ls | wc -l", code=0).text.split()[:2] == [
        "/", "../../../../../../etc"]
    home.sh(box, "cd; for i in $(seq 400); do mkdir d && cd d; done", code=0)
    result = home("snapshot", "create", box)
    assert result.code == 2 and "nested deeper" in result.errors, repr(result)
    assert home.sh(box, "echo on", code=0).out == b"on\n"
    home.ok("kill", box, made)


def test_changes_in_the_middle_are_no_way_out(home):
    """Names are exchanged while they are copied: by a paused sandbox nothing, so the copy is taken of one that runs wild before."""
    box = home.create()
    home.ok("exec", "-d", box, "--", "sh", "-c",
            "mkdir a; while :; do mv a b; ln -s /etc a; rm a; mv b a; done")
    results = []
    threads = [threading.Thread(target=lambda: results.append(home("fork", box))) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert any(r.code == 0 for r in results), results
    for r in results:
        if r.code == 0:
            assert home.sh(r.text.strip(), "for d in a b; do test -L $d || test ! -e $d/shadow || exit 1; done", code=0)
            home.ok("kill", r.text.strip())
    home.ok("kill", box)


def test_one_snapshot_is_not_for_other_ids(home, kept):
    if ROOT:
        return
    assert home("create", "--snapshot", kept, "-O", "ids=range").code == 5
    box = home.create("-O", "ids=range")
    home.sh(box, "mkdir /srv/x && chown 5:6 /srv/x", "-u", "root", code=0)
    made = home.ok("fork", box).text.strip()
    assert home.sh(made, "stat -c '%u %g' /srv/x", code=0).out == b"5 6\n"
    home.ok("kill", box, made)
