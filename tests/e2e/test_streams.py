"""Bytes are bytes: every size, both directions, both streams, slow and broken readers."""

import hashlib
import os
import random
import subprocess
import sys
import threading
import time

import pytest

from harness import ABX, LIMIT, SOAK, descriptors, own_memory, status, tell, wait_for, with_marker

BIG = 1_000_000_000 if SOAK else 10_000_000
SIZES = [0, 1, 65535, 65536, 65537, BIG]

# A pattern that no offset repeats: 8-byte counters, mixed so that every byte value comes.
COUNTERS = (
    "import sys\n"
    "n=int(sys.argv[1]); out=sys.stdout.buffer if sys.argv[2]=='1' else sys.stderr.buffer; i=0\n"
    "import struct\n"
    "while n>0:\n"
    "    b=struct.pack('<8192Q', *[(i+k)*0x9E3779B97F4A7C15 & (1<<64)-1 for k in range(8192)])[:n]\n"
    "    out.write(b); n-=len(b); i+=8192\n"
    "out.flush()\n")


def counters_hash(size):
    import struct
    h, i, n = hashlib.sha256(), 0, size
    while n > 0:
        b = struct.pack("<8192Q", *[(i + k) * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for k in range(8192)])[:n]
        h.update(b)
        n -= len(b)
        i += 8192
    return h.hexdigest()


def hash_of(stream, slow=False):
    h, total = hashlib.sha256(), 0
    while True:
        b = stream.read(65536)
        if not b:
            return h.hexdigest(), total
        h.update(b)
        total += len(b)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("channel", ["1", "2"])
def test_output_is_exact(shared, box, spawn, size, channel):
    p = spawn(shared, "exec", box, "--", "python3", "-c", COUNTERS, str(size), channel,
              stdout=subprocess.PIPE if channel == "1" else subprocess.DEVNULL,
              stderr=subprocess.PIPE if channel == "2" else subprocess.DEVNULL)
    got = hash_of(p.stdout if channel == "1" else p.stderr)
    assert p.wait(LIMIT) == 0
    assert got == (counters_hash(size), size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["pipe", "file", "socket"])
def test_input_is_exact(shared, box, tmp_path, size, kind):
    path = tmp_path / "in"
    with open(path, "wb") as f:
        rest, block = size, random.Random(size).randbytes(65536)
        h = hashlib.sha256()
        while rest > 0:
            b = block[:rest]
            f.write(b)
            h.update(b)
            rest -= len(b)
    command = [ABX, "exec", box, "--", "sha256sum"]
    if kind == "file":
        with open(path, "rb") as f:
            out = subprocess.run(command, env=shared.environment(), stdin=f, capture_output=True,
                                 timeout=LIMIT)
    else:
        import socket
        if kind == "pipe":
            r, w = os.pipe()
        else:
            a, b = socket.socketpair()
            r, w = a.detach(), b.detach()
        p = subprocess.Popen(command, env=shared.environment(), stdin=r, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        os.close(r)
        with open(path, "rb") as f, os.fdopen(w, "wb") as sink:
            while True:
                b = f.read(1 << 20)
                if not b:
                    break
                sink.write(b)
        o, e = p.communicate(timeout=LIMIT)
        out = subprocess.CompletedProcess(command, p.returncode, o, e)
    assert out.returncode == 0, out
    assert out.stdout.split()[0].decode() == h.hexdigest()


# Blocks of 1 MiB, each with its number: written by one, compared by the other.
BLOCKS = (
    "import random, sys\n"
    "block = bytearray(random.Random(7).randbytes(1 << 20))\n"
    "for i in range(int(sys.argv[2])):\n"
    "    block[:8] = i.to_bytes(8, 'little')\n"
    "    if sys.argv[1] == 'write':\n"
    "        sys.stdout.buffer.write(block)\n"
    "    elif sys.stdin.buffer.read(1 << 20) != block:\n"
    "        sys.exit(f'block {i} differs')\n"
    "if sys.argv[1] == 'read' and sys.stdin.buffer.read(1):\n"
    "    sys.exit('there is more')\n")


@pytest.mark.parametrize("way", ["out", "in"])
def test_ten_gigabytes_through_one_stream(abx, way):
    """Exact, and neither the program nor pid 1 grows."""
    a, n = abx.create(), 10_000 if SOAK else 64
    pid = abx.info(a)["pid"]
    inside = ["exec", a, "--", "python3", "-c", BLOCKS]
    outside = [sys.executable, "-c", BLOCKS]
    writer, reader = ["write", str(n)], ["read", str(n)]
    abx.ok("exec", a, "--", "true")
    before, held = own_memory(pid), descriptors(pid)
    if way == "out":
        ours = first = abx.start(*inside, *writer)
        last = subprocess.Popen(outside + reader, stdin=first.stdout, stderr=subprocess.PIPE)
    else:
        first = subprocess.Popen(outside + writer, stdout=subprocess.PIPE)
        ours = last = abx.start(*inside, *reader, stdin=first.stdout)
    first.stdout.close()
    peak, kept = 0, 0
    while last.poll() is None:
        peak, kept = max(peak, own_memory_or_0(ours.pid)), max(kept, own_memory(pid))
        time.sleep(0.1)
    assert last.wait() == 0, last.stderr.read()
    assert first.wait(LIMIT) == 0
    assert peak < 32_000 and kept < before + 8_000
    wait_for(lambda: descriptors(pid) <= held)
    tell(f"{n} MiB {way}: the program had at most {peak} KiB, pid 1 {kept} KiB (before {before})")


def own_memory_or_0(pid):
    return int(status(pid).get("RssAnon", "0").split()[0])


def test_round_trip_of_every_byte(shared, box):
    data = bytes(range(256)) * 300 + b"\r\n\0\xff"
    assert shared("exec", box, "--", "cat", input=data, code=0).out == data


def test_run_passes_both_ways_too(abx):
    data = os.urandom(300_001)
    r = abx("run", "--", "sh", "-c", "tee /dev/stderr", input=data, code=0)
    assert r.out == data and r.err == data


def test_both_streams_at_once(shared, box, spawn):
    size = 20_000_000 if SOAK else 3_000_000
    p = spawn(shared, "exec", box, "--", "sh", "-c",
              'python3 -c "$1" "$2" 2 & python3 -c "$1" "$2" 1; wait', "sh", COUNTERS, str(size))
    got = {}
    readers = [threading.Thread(target=lambda s=s, n=n: got.__setitem__(n, hash_of(s)))
               for n, s in [("out", p.stdout), ("err", p.stderr)]]
    for t in readers:
        t.start()
    for t in readers:
        t.join(LIMIT)
    assert p.wait(LIMIT) == 0
    want = (counters_hash(size), size)
    assert got == {"out": want, "err": want}


def test_one_blocked_stream_is_no_loss(shared, box, spawn):
    """stderr is not read until stdout has ended: it must wait, not vanish."""
    size = 500_000
    p = spawn(shared, "exec", box, "--", "sh", "-c",
              'python3 -c "$1" 30000 2; python3 -c "$1" "$2" 1', "sh", COUNTERS, str(size))
    assert hash_of(p.stdout) == (counters_hash(size), size)
    assert hash_of(p.stderr) == (counters_hash(30000), 30000)
    assert p.wait(LIMIT) == 0


def test_a_slow_reader_stops_the_producer(shared, box, spawn):
    """Nothing is lost, and what waits does not grow with what is produced."""
    p = spawn(shared, "exec", box, "--", "sh", "-c",
              "yes 0123456789abcde | head -c 200000000 & wait; echo done > /work/produced")
    head = p.stdout.read(100_000)
    for _ in range(20):
        head += p.stdout.read(1000)
        threading.Event().wait(0.01)
    assert shared.sh(box, "test ! -e /work/produced").code == 0
    rss = int(open(f"/proc/{p.pid}/statm").read().split()[1]) * 4096
    assert rss < 40 << 20
    total = len(head)
    while True:
        b = p.stdout.read(1 << 20)
        if not b:
            break
        total += len(b)
    assert p.wait(LIMIT) == 0 and total == 200_000_000
    assert set(head) == set(b"0123456789abcde\n")


def test_closed_stdout_is_an_error_or_quiet(shared, box):
    r = subprocess.run(["sh", "-c", f'"{ABX}" exec {box} -- echo hello >&-'], env=shared.environment(),
                       stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT)
    assert r.returncode in (125, 141), r
    r = subprocess.run(["sh", "-c", f'"{ABX}" exec {box} -- true >&- 2>&- <&-'], env=shared.environment(),
                       timeout=LIMIT)
    assert r.returncode == 0
    r = subprocess.run(["sh", "-c", f'"{ABX}" info {box} >&-'], env=shared.environment(),
                       stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT)
    assert r.returncode not in (0, 139, 134)


def test_closed_streams_are_not_taken_by_other_files(shared, box):
    """With 0, 1, 2 closed, the next opened file must not become the command's output."""
    r = subprocess.run(["sh", "-c", f'"{ABX}" create >&- 2>&- <&-'], env=shared.environment(),
                       stdin=subprocess.DEVNULL, timeout=LIMIT)
    assert r.returncode in (0, 1)
    for path in shared.home.rglob("*.json"):
        path.read_text().index("{")


def test_a_broken_pipe_ends_with_141_and_the_command_too(shared, box, spawn):
    marker = "broken4711"
    p = spawn(shared, "exec", box, "--", "sh", "-c", f": {marker}; while echo y; do :; done")
    assert p.stdout.read(4) == b"y\ny\n"
    p.stdout.close()
    assert p.wait(LIMIT) in (141, -13)
    wait_for(lambda: not with_marker(marker), "the command ends with its reader")


def test_yes_into_head(shared, box):
    r = subprocess.run(["bash", "-c", f'yes | "{ABX}" exec {box} -- head -1; echo ${{PIPESTATUS[*]}}'],
                       env=shared.environment(), capture_output=True, timeout=LIMIT)
    assert r.stdout == b"y\n141 0\n", r
    r = subprocess.run(["bash", "-c", f'"{ABX}" exec {box} -- yes | head -1; echo ${{PIPESTATUS[*]}}'],
                       env=shared.environment(), capture_output=True, timeout=LIMIT)
    assert r.stdout == b"y\n141 0\n", r
    assert r.stderr == b""


def test_no_space_on_stdout(shared, box):
    with open("/dev/full", "wb") as full:
        r = shared("exec", box, "--", "echo", "hello", stdout=full)
        assert r.code == 125 and "space" in r.errors
        r = shared("info", "--json", box, stdout=full)
        assert r.code not in (0, 2) and "space" in r.errors
        r = shared("files", "cat", f"{box}:/etc/passwd", stdout=full)
        assert r.code != 0 and "space" in r.errors


def test_output_before_the_end_comes_at_once(shared, box, spawn):
    p = spawn(shared, "exec", "-i", box, "--", "sh", "-c", "echo first; read x; echo $x", stdin=subprocess.PIPE)
    assert p.stdout.readline() == b"first\n"
    p.stdin.write(b"second\n")
    p.stdin.flush()
    assert p.stdout.readline() == b"second\n"
    p.stdin.close()
    assert p.wait(LIMIT) == 0


def test_order_within_one_file(shared, box, tmp_path):
    """Both streams into one file, as 2>&1 has it: nothing overwrites the other."""
    path = tmp_path / "both"
    with open(path, "wb") as f:
        shared("exec", box, "--", "sh", "-c", "for i in 1 2 3 4; do echo o$i; echo e$i >&2; done", stdout=f,
               stderr=f, code=0)
    assert sorted(path.read_text().split()) == ["e1", "e2", "e3", "e4", "o1", "o2", "o3", "o4"]


def test_stdout_to_a_file_appends_where_it_stands(shared, box, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"before\n")
    with open(path, "ab") as f:
        shared("exec", box, "--", "echo", "after", stdout=f, code=0)
    assert path.read_bytes() == b"before\nafter\n"


def test_the_caller_s_pipe_stays_blocking(shared, box):
    r, w = os.pipe()
    shared("exec", box, "--", "cat", stdin=r, stdout=w, code=0, env={"ABX_STDIN": "closed"})
    assert os.get_blocking(r) and os.get_blocking(w)
    os.close(r)
    os.close(w)
