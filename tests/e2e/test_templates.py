"""Templates: images and folders as what sandboxes are made from; layers, users, commands; sharing; hostile archives."""

import gzip
import io
import json
import lzma
import os
import signal
import subprocess
import tarfile
import time

import pytest

from harness import ROOT, Abx, reap, wait_for
from images import Image, busybox, entry, file, folder, hardlink, layer, sha256, symlink

UPPER = layer(folder("app", owner=1000), file("app/.wh.gone"), folder("d"), file("d/.wh..wh..opq"), file("d/new", b"n"))
LOWER = layer(folder("app", owner=1000), file("app/gone", b"x"), file("app/kept", b"kept", 0o600, 1000),
              folder("d"), file("d/old"), file("svc-file", b"s", owner=77), folder("set", 0o755),
              file("set/uid", b"#!", 0o4755))


def image(**config):
    return Image(busybox(), LOWER, UPPER, **config)


@pytest.fixture(scope="module")
def home():
    """A home with the template `sys`, which the tests of this module share."""
    a = Abx(furnished=True)
    image(Env=["PATH=/bin", "GREET=hello"], User="svc" if ROOT else "", WorkingDir="/srv/deep/dir",
          Entrypoint=["/bin/sh", "-c"], Cmd=["echo $GREET; pwd; id -u"]).docker(a.work / "sys.tar")
    a.ok("template", "add", "sys", a.work / "sys.tar")
    yield a
    a.close()
    reap()


def run(a, script, *flags, **more):
    return a("run", "--template", "sys", *flags, "--", "sh", "-c", script, **more)


# --- forms ---------------------------------------------------------------------------------------------------


def test_the_forms_of_one_image_are_one_template(home):
    source = image(Cmd=["true"])
    made = [source.docker(home.work / "docker.tar"),
            source.docker(home.work / "docker.tar.gz", compress=gzip.compress),
            source.oci(home.work / "layout"), source.oci_archive(home.work / "oci.tar", compress=lambda x: x)]
    ids = {home.ok("template", "add", f"form{i}", path).text.strip() for i, path in enumerate(made)}
    assert ids == {sha256(source.config)[:16]}


def test_zstd_layers_are_read(home):
    def zstd(data):
        return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout

    path = image(User="").oci(home.work / "zstd", compress=zstd)
    assert home.ok("run", "--image", path, "--", "/bin/cat", "/d/new").out == b"n"


def test_what_a_layer_removes_is_gone(home):
    result = run(home, "ls /app /d", code=0)
    assert result.text.split() == ["/app:", "kept", "/d:", "new"]


def test_the_image_says_what_runs_where_and_as_whom(home):
    result = home.ok("run", "--template", "sys")
    assert result.text.split() == ["hello", "/srv/deep/dir", "77" if ROOT else "1000"]


def test_a_command_replaces_that_of_the_image(home):
    assert home.ok("run", "--template", "sys", "-e", "GREET=you", "--", "env").text.count("GREET=you") == 1


def test_an_image_without_a_command_needs_one(home):
    path = Image(busybox()).docker(home.work / "plain.tar")
    result = home("run", "--json", "--image", path)
    assert result.code == 125 and result.error["exitCode"] == 2, repr(result)
    assert home("run", "--template", "host").code == 125
    assert home("run").code == 2


def test_only_one_source_is_taken(home):
    assert home("create", "--template", "sys", "--image", "x").code == 2


def test_etc_is_the_images_own_but_for_what_must_be_ours(home):
    result = run(home, "cat /etc/passwd; cat /etc/hostname; ls /etc", "--name", "etc-box", code=0)
    lines = result.text.splitlines()
    assert lines[:3] == ["root:x:0:0:root:/root:/bin/sh", "svc:x:77:77::/:/bin/sh",
                         "user:x:1000:1000::/home/user:/bin/sh"]
    assert lines[3] == "etc-box"
    assert set(lines[4:]) == {"group", "hostname", "hosts", "machine-id", "mtab", "passwd", "resolv.conf"}
    home.ok("kill", "etc-box")


def test_dev_proc_tmp_and_home_are_there(home):
    script = "echo x > /dev/null && echo x > /tmp/x && test -e /proc/self/stat && touch /dev/shm/x && echo ok"
    assert run(home, script, "-u", "user", code=0).out == b"ok\n"
    assert run(home, "touch ~/x /work/x && echo ok", "-u", "user", code=0).out == b"ok\n"


def test_set_user_id_bits_are_dropped(home):
    assert run(home, "stat -c %a /set/uid", code=0).out == b"755\n"


def test_the_mount_table_tells_nothing_of_the_host(home):
    assert str(home.home).encode() not in run(home, "cat /proc/self/mountinfo", code=0).out


# --- owners --------------------------------------------------------------------------------------------------


def test_owners_with_one_id_or_a_range(home):
    script = "stat -c '%u %g' /svc-file /app/kept /bin"
    single = run(home, script, "-u", "user", code=0).text.split()
    if ROOT:
        assert single == ["77", "77", "1000", "1000", "0", "0"]
        return
    assert single == ["1000"] * 6
    ranged = run(home, script, "-O", "ids=range", "-u", "root", code=0).text.split()
    assert ranged == ["77", "77", "1000", "1000", "0", "0"]
    assert run(home, "id -u", "-O", "ids=range", "-u", "svc", code=0).out == b"77\n"
    result = run(home, "true", "-u", "svc")
    assert result.code != 0 and "'user' and 'root' alone" in result.errors


def test_root_inside_can_change_what_is_not_its_own(home):
    flags = [] if ROOT else ["-O", "ids=range"]
    script = "touch /bin/x && rm /svc-file && echo ok"
    assert run(home, script, "-u", "root", *flags, code=0).out == b"ok\n"
    if not ROOT:  # the converted layers go, too
        home.ok("gc")


# --- the store -----------------------------------------------------------------------------------------------


def test_layers_are_shared_and_never_copied(home):
    a, b = (home.create("--template", "sys") for _ in range(2))
    ids = {home.sh(box, "stat -c '%d %i' /bin/busybox", code=0).text.split()[1] for box in (a, b)}
    assert len(ids) == 1
    used = subprocess.run(["du", "-s", home.home / "local/sandboxes" / a], stdout=subprocess.PIPE).stdout
    assert int(used.split()[0]) < 500
    home.sh(a, "echo changed > /d/new || true", code=0)
    assert home.sh(b, "cat /d/new", code=0).out == b"n"
    home.ok("kill", a, b)


def test_list_and_info(home):
    rows = {t.get("name"): t for t in home.ok("template", "ls", "--json").json["templates"]}
    assert list(rows)[0] == "host" and rows["sys"]["kind"] == "image" and rows["sys"]["layers"] == 3
    info = home.ok("image", "info", "--json", "sys").json
    assert info["command"][0] == "/bin/sh" and info["workdir"] == "/srv/deep/dir" and info["size"] > 0
    box = home.create("--template", "sys")
    assert home.info(box)["template"] == "sys"
    assert [s["template"] for s in home.ok("ls", "--json").json["sandboxes"] if s["id"] == box] == ["sys"]
    home.ok("kill", box)
    assert home("template", "info", "nothing").code == 3
    assert home("create", "--template", "nothing").code == 3


def test_names_and_removal(abx):
    path = image().docker(abx.work / "i.tar")
    abx.ok("template", "add", "one", path)
    abx.ok("template", "add", "one", path)  # the same again
    abx.ok("template", "add", "two", path)
    assert abx("template", "add", "one", Image(busybox()).docker(abx.work / "j.tar")).code == 5
    assert abx("template", "add", "host", path).code == 2
    assert abx("template", "add", "../x", path).code == 2
    box = abx.create("--template", "two")
    abx.ok("template", "rm", "one")
    assert abx("template", "rm", "two").code == 5
    abx.ok("kill", box)
    abx.ok("template", "rm", "two")
    abx.ok("gc")
    assert os.listdir(abx.home / "local/layers") == ["m"]
    assert abx("template", "rm", "two").code == 3


def test_a_folder_is_copied_and_does_not_change(abx):
    source = abx.work / "root"
    (source / "bin").mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(busybox())) as tar:
        tar.extractall(source)
    (source / "note").write_text("first")
    os.mkfifo(source / "pipe")
    abx.ok("template", "add", "f", source)
    (source / "note").write_text("second")
    result = abx.ok("run", "--template", "f", "--", "sh", "-c", "cat /note; test -p /pipe && echo fifo")
    assert result.out == b"firstfifo\n"
    assert abx.ok("template", "add", "g", source).text != abx.ok("template", "info", "-q", "f").text
    assert abx("template", "add", "h", abx.folder).code == 2  # it holds the store


def test_many_add_the_same_at_once(abx):
    path = image().docker(abx.work / "i.tar")
    started = [abx.start("template", "add", f"n{i % 2}", path) for i in range(6)]
    results = [(p.communicate(), p.returncode) for p in started]
    assert [code for _, code in results] == [0] * 6, results
    assert len(abx.ok("template", "ls", "--json").json["templates"]) == 3


def test_kill_in_the_middle_of_an_add_leaves_nothing_or_all(abx):
    big = layer(*(file(f"f{i}", os.urandom(2000)) for i in range(1500)))
    path = Image(busybox(), big).docker(abx.work / "i.tar")
    for wait_ms in (5, 20, 40, 80, 160):
        p = abx.start("template", "add", "t", path)
        time.sleep(wait_ms / 1000)
        p.send_signal(signal.SIGKILL)
        p.communicate()
        wait_for(lambda: not abx.left(), "the worker ends with who asked")
        if abx("template", "info", "t").code == 0:
            assert abx.ok("run", "--template", "t", "--", "ls", "/f1499").out == b"/f1499\n"
            abx.ok("template", "rm", "t")
        abx.ok("gc")
        layers = abx.home / "local/layers"
        assert not layers.exists() or [n for n in os.listdir(layers) if n.startswith(".new")] == []
    abx.ok("template", "add", "t", path)


# --- hostile archives ----------------------------------------------------------------------------------------


def refused(a, *entries, what=b""):
    path = Image(busybox(), layer(*entries)).docker(a.work / "evil.tar")
    result = a("template", "add", "evil", path)
    assert result.code != 0 and what in result.err, repr(result)
    assert a("template", "info", "evil").code == 3
    return result


def test_names_that_lead_out_are_refused(home):
    outside = home.folder / "outside"
    for name in ("../outside", "a/../../outside", f"../../../../../..{outside}"):
        refused(home, file(name, b"x"), what=name.encode()[:20])
    assert not outside.exists()


def test_absolute_names_stay_inside(home):
    path = Image(busybox(), layer(file("/etc/abs-name", b"in"))).docker(home.work / "abs.tar")
    home.ok("run", "--image", path, "--", "cat", "/etc/abs-name")
    assert not os.path.exists("/etc/abs-name")


def test_links_are_not_followed(home):
    target = home.folder / "target"
    target.mkdir(exist_ok=True)
    refused(home, symlink("out", str(target)), file("out/x", b"x"), what=b"out/x")
    refused(home, symlink("up", "../../../.."), file("up/tmp/abx-x", b"x"), what=b"up/tmp/abx-x")
    refused(home, hardlink("passwd", "/etc/passwd-no"), what=b"passwd")
    refused(home, hardlink("h", "../../../../etc/passwd"), what=b"leads out")
    refused(home, symlink("s", "/etc"), hardlink("h", "s/passwd"), what=b"'h'")
    assert os.listdir(target) == []


def test_whiteouts_with_tricks_are_refused(home):
    for name in (".wh.", ".wh..", ".wh...", "a/.wh..wh.x", ".wh.a/b"):
        refused(home, file(name), what=b"refused")


def test_devices_are_left_out_and_odd_owners_are_nobodys(home):
    path = Image(busybox(), layer(
        entry("disk", tarfile.BLKTYPE, devmajor=8, devminor=0), entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3),
        file("odd", b"", owner=2**31 - 5), file("x", pax_headers={
            "SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.trusted.x": "y", "SCHILY.xattr.user.mine": "m"}),
    )).docker(home.work / "dev.tar")
    assert home.ok("run", "--image", path, "--", "ls", "-a", "/").text.split().count("disk") == 0


def test_broken_archives_are_refused(home):
    source = image()
    path = home.work / "broken"
    whole = source.docker(home.work / "whole.tar").read_bytes()
    path.write_bytes(whole[:len(whole) // 2])
    assert home("template", "add", "b", path).code == 1
    path.write_bytes(b"")
    assert home("template", "add", "b", path).code == 1
    path.write_bytes(os.urandom(10000))
    assert home("template", "add", "b", path).code == 1
    assert home("template", "add", "b", "/nowhere").code == 3
    bad = Image(busybox(), layer(file("x")), diff_ids=["sha256:" + sha256(busybox()), "sha256:" + "0" * 64])
    assert b"broken" in home("template", "add", "b", bad.docker(path)).err


def test_blobs_must_have_their_digests(home):
    layout = image(Cmd=["x"]).oci(home.work / "changed")
    blob = max((layout / "blobs/sha256").iterdir(), key=lambda p: p.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[5] ^= 1  # a time in the head of gzip: the contents stay as they are
    blob.write_bytes(data)
    home.ok("gc")
    for name in ("sys",):
        assert home("template", "info", name).code == 0
    other = Image(layer(file("only-here", os.urandom(100)))).oci(home.work / "changed2")
    blob = [p for p in (other / "blobs/sha256").iterdir() if p.read_bytes()[:2] == b"\x1f\x8b"][0]
    data = bytearray(blob.read_bytes())
    data[5] ^= 1
    blob.write_bytes(data)
    result = home("template", "add", "changed", other)
    assert result.code == 1 and b"digest" in result.err, repr(result)


def test_xz_is_named(home):
    path = Image(layer(file("xz-only", os.urandom(50)))).oci(home.work / "xz", compress=lzma.compress)
    assert b"compressed with xz" in home("template", "add", "x", path).err


def test_a_bomb_of_zeros_ends_at_the_limit(home):
    huge = tarfile.TarInfo("huge")
    huge.size = 1 << 60
    path = Image(busybox(), huge.tobuf(tarfile.PAX_FORMAT) + b"\0" * 1024).docker(home.work / "bomb.tar")
    assert b"more bytes than are taken" in home("template", "add", "bomb", path).err
    refused(home, *(file("/".join(["d"] * 300) + f"/{i}") for i in range(2)), what=b"deep")


def test_another_machine_is_refused(home):
    source = image()
    source.config = json.dumps({**json.loads(source.config), "architecture": "pdp11"}).encode()
    result = home("template", "add", "p", source.docker(home.work / "pdp.tar"))
    assert result.code == 1 and "pdp11" in result.errors
