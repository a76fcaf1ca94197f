"""cp: what is kept (holes, times, hard links), what a cancelled copy leaves, many files, the line of progress."""

import os
import signal
import subprocess
import time

import pytest

from harness import count, wait_for as until


@pytest.fixture
def place(shared, box):
    name = f"/work/copy{time.monotonic_ns()}"
    shared.sh(box, f"mkdir {name}", code=0)
    yield name
    shared.sh(box, f"chmod -R u+rwX {name}; rm -rf {name}")


def stat_of(shared, box, path):
    """size, bytes on disk, mtime, mode, links"""
    return shared.sh(box, f"stat -c '%s %b %.Y %a %h' '{path}'", code=0).text.split()


def sparse(path, size=5 << 30):
    with open(path, "wb") as f:
        f.write(b"begin")
        f.seek(size // 2)
        f.write(b"middle")
        f.truncate(size)
    os.utime(path, ns=(1_600_000_000_123_456_789,) * 2)


def test_five_gigabytes_of_holes(shared, box, place, tmp_path):
    sparse(tmp_path / "sparse")
    shared.ok("cp", tmp_path / "sparse", f"{box}:{place}/file")
    size, blocks, when, *_ = stat_of(shared, box, f"{place}/file")
    assert int(size) == 5 << 30 and int(blocks) < 1000 and when.startswith("1600000000.12345678")
    shared.ok("cp", f"{box}:{place}/file", f"{box}:{place}/second")
    shared.ok("cp", f"{box}:{place}/second", tmp_path / "back")
    st = (tmp_path / "back").stat()
    assert st.st_size == 5 << 30 and st.st_blocks < 1000 and st.st_mtime_ns == 1_600_000_000_123_456_789
    with open(tmp_path / "back", "rb") as f:
        assert f.read(6) == b"begin\0"
        f.seek(5 << 29)
        assert f.read(7) == b"middle\0"
    (tmp_path / "d").mkdir()
    os.rename(tmp_path / "sparse", tmp_path / "d" / "sparse")
    shared.ok("cp", tmp_path / "d", f"{box}:{place}/d")
    shared.ok("cp", f"{box}:{place}/d", tmp_path / "e")
    assert (tmp_path / "e" / "sparse").stat().st_blocks < 1000
    assert (tmp_path / "e" / "sparse").stat().st_size == 5 << 30


def test_times_and_hard_links(shared, box, place, tmp_path):
    d = tmp_path / "d"
    d.mkdir()
    (d / "one").write_text("1")
    os.link(d / "one", d / "two")
    os.utime(d / "one", ns=(1_500_000_000_000_000_001,) * 2)
    shared.ok("cp", d, f"{box}:{place}/d")
    shared.ok("cp", f"{box}:{place}/d", tmp_path / "back")
    a, b = (tmp_path / "back" / "one").stat(), (tmp_path / "back" / "two").stat()
    assert a.st_ino == b.st_ino and a.st_mtime_ns == 1_500_000_000_000_000_001
    shared.ok("cp", d / "one", f"{box}:{place}/single")
    shared.ok("cp", f"{box}:{place}/single", tmp_path / "single")
    assert (tmp_path / "single").stat().st_mtime_ns == 1_500_000_000_000_000_001


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGKILL])
def test_a_cancelled_upload_leaves_the_old_file(shared, box, place, tmp_path, sig):
    shared.sh(box, f"echo old > {place}/f; chmod 640 {place}/f", code=0)
    os.mkfifo(tmp_path / "fifo")
    p = shared.start("cp", tmp_path / "fifo", f"{box}:{place}/f")
    with open(tmp_path / "fifo", "wb") as f:
        f.write(b"x" * 100_000)
        f.flush()
        until(lambda: shared.sh(box, f"ls -A {place}").text != "f\n", "the upload has begun")
        assert shared.sh(box, f"cat {place}/f").text == "old\n"
        p.send_signal(sig)
        p.communicate(timeout=30)
    assert p.returncode in (130, -sig)
    until(lambda: shared.sh(box, f"ls -A {place}; cat {place}/f").text == "f\nold\n", "nothing else is left")


def test_a_cancelled_download_leaves_the_old_file(abx, tmp_path):
    box = abx.create()
    abx.sh(box, "dd if=/dev/zero of=/work/big bs=1M count=100 2>/dev/null", code=0)
    (tmp_path / "big").write_text("old")
    for n in range(count(3, 30)):
        p = abx.start("cp", f"{box}:/work/big", tmp_path / "big")
        time.sleep(0.01 * (n + 1))
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=30)
        assert (tmp_path / "big").stat().st_size in (3, 100 << 20)
        assert os.listdir(tmp_path) == ["big"]


def test_a_link_in_the_sandbox_is_written_through(shared, box, place, tmp_path):
    shared.sh(box, f"cd {place}; echo old > real; ln -s real link; ln -s nothing dangling", code=0)
    (tmp_path / "f").write_text("new")
    shared.ok("cp", tmp_path / "f", f"{box}:{place}/link")
    shared.ok("cp", tmp_path / "f", f"{box}:{place}/dangling")
    assert shared.sh(box, f"cd {place}; readlink link dangling; cat real nothing").text == "real\nnothing\nnewnew"


def test_no_right_and_no_space_are_named(shared, box, place, tmp_path):
    (tmp_path / "f").write_text("f")
    assert "/usr/f" in shared("cp", tmp_path / "f", f"{box}:/usr/f", code=1).errors
    (tmp_path / "big").write_bytes(bytes(1 << 20))
    full = shared("cp", tmp_path / "big", f"{box}:/dev/full")
    assert full.code != 0 and full.err


def test_many_files_in_one_folder(shared, box, place, tmp_path):
    n = count(1_000, 100_000)
    (tmp_path / "d").mkdir()
    for i in range(n):
        (tmp_path / "d" / f"f{i}").write_bytes(b"x" * (i % 20))
    shared.ok("cp", tmp_path / "d", f"{box}:{place}/d", timeout=900)
    shared.ok("cp", f"{box}:{place}/d", tmp_path / "e", timeout=900)
    subprocess.run(["diff", "-r", tmp_path / "d", tmp_path / "e"], check=True)


def slow_copy(shared, box, tmp_path, terminal, *flags, **more):
    """A copy that waits for a second, on a terminal."""
    if not (tmp_path / "fifo").exists():
        os.mkfifo(tmp_path / "fifo")
    t = terminal(shared, "cp", *flags, str(tmp_path / "fifo"), f"{box}:/work/slow", **more)
    with open(tmp_path / "fifo", "wb") as f:
        f.write(b"x" * 100_000)
        f.flush()
        if not flags and not more.get("env"):
            t.expect("copying  ")
        else:
            time.sleep(0.7)
            t.read(0.05)
    while t.process.poll() is None:
        t.read(0.05)
    t.end()
    return t


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_progress_on_a_terminal(shared, box, tmp_path, terminal, cols):
    t = slow_copy(shared, box, tmp_path, terminal, cols=cols)
    assert t.process.returncode == 0
    assert t.seen.endswith(b"\r\x1b[K")  # it went away
    for line in t.seen.replace(b"\x1b[K", b"").split(b"\r"):
        assert len(line) < cols
    shared.sh(box, "rm /work/slow")


@pytest.mark.parametrize("how", ["-q", "-v", "--json", "CI", "dumb"])
def test_no_progress(shared, box, tmp_path, terminal, how):
    flags = [how] if how.startswith("-") else []
    env = {"CI": {"CI": "1"}, "dumb": {"TERM": "dumb"}}.get(how)
    t = slow_copy(shared, box, tmp_path, terminal, *flags, env=env)
    assert b"copying" not in t.seen and b"\x1b[K" not in t.seen
    shared.sh(box, "rm /work/slow")


def test_no_progress_in_a_pipe(shared, box, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    p = shared.start("cp", tmp_path / "fifo", f"{box}:/work/slow")
    with open(tmp_path / "fifo", "wb") as f:
        f.write(b"x")
        f.flush()
        time.sleep(0.7)
    out, err = p.communicate(timeout=30)
    assert (p.returncode, out, err) == (0, b"", b"")
    shared.sh(box, "rm /work/slow")
