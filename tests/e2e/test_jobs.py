"""Background processes: their list, their kept output with exact offsets, waiting, signals."""

import subprocess
import time

import pytest

from harness import count, wait_for

NUMBERS = "i=0; while [ $i -lt {n} ]; do echo line-$i; i=$((i+1)); done"


def start(abx, box, script, *flags):
    return abx.ok("exec", "-d", *flags, box, "--", "sh", "-c", script).text.strip()


def job(abx, box, name):
    return {j["id"]: j for j in abx.ok("jobs", "--json", box).json["processes"]}[name]


def test_a_job_is_listed_and_keeps_its_end(shared, box):
    name = start(shared, box, "sleep 0.2; exit 4", "-w", "/tmp")
    j = job(shared, box, name)
    assert j["state"] == "running" and j["cwd"] == "/tmp" and j["cmd"][:2] == ["sh", "-c"]
    assert j["background"] is True and j["startedAt"].endswith("Z") and "exitCode" not in j
    shared("wait", box, name, code=4)
    j = job(shared, box, name)
    assert j["state"] == "exited" and j["exitCode"] == 4
    assert name in shared.ok("jobs", box).text
    assert name in shared.ok("jobs", "-q", box).text.split()


def test_logs_go_to_both_streams(shared, box):
    name = start(shared, box, "echo out; echo err >&2")
    shared("wait", box, name, code=0)
    r = shared.ok("logs", box, name)
    assert (r.out, r.err) == (b"out\n", b"err\n")
    events = shared.ok("logs", "--json", box, name).lines
    assert {"type": "stdout", "text": "out\n"} in events
    assert events[-1]["type"] == "exit"


def test_logs_without_a_job_is_the_last(shared, box):
    start(shared, box, "echo one")
    name = start(shared, box, "echo two")
    shared("wait", box, name, code=0)
    assert shared.ok("logs", box).out == b"two\n"


def test_follow_goes_on_until_the_end(shared, box, spawn):
    name = start(shared, box, "echo a; sleep 0.5; echo b; sleep 0.5; echo c; exit 3")
    p = spawn(shared, "logs", "-f", box, name)
    assert [p.stdout.readline() for _ in range(3)] == [b"a\n", b"b\n", b"c\n"]
    p.communicate(timeout=20)
    assert p.returncode == 0


def test_logs_without_follow_ends_at_once(shared, box):
    name = start(shared, box, "echo a; sleep 1000")
    wait_for(lambda: shared.ok("logs", box, name).out == b"a\n")
    shared.ok("signal", box, name, "KILL")


def test_two_followers_see_the_same(shared, box, spawn):
    name = start(shared, box, "sleep 0.3; " + NUMBERS.format(n=3000))
    ps = [spawn(shared, "logs", "-f", box, name) for _ in range(2)]
    want = b"".join(b"line-%d\n" % i for i in range(3000))
    assert [p.communicate(timeout=60)[0] for p in ps] == [want, want]


def test_20_mb_are_kept_whole(shared, box):
    """More than the ring holds: the rest comes from the file, at exact offsets."""
    size = count(20_000_000, 200_000_000)
    script = ("import sys\nfor i in range(%d): sys.stdout.write('%%015d\\n' %% i)" % (size // 16))
    name = shared.ok("exec", "-d", box, "--", "python3", "-c", script).text.strip()
    shared("wait", box, name, code=0)
    out = shared.ok("logs", box, name).out
    assert len(out) == size // 16 * 16
    assert out[:16] == b"%015d\n" % 0 and out[-16:] == b"%015d\n" % (size // 16 - 1)
    lines = out.split(b"\n")
    assert all(int(lines[i]) == i for i in range(0, size // 16, 997))


def test_follow_from_the_beginning_while_it_grows(shared, box, spawn):
    script = ("import sys,time\nfor i in range(200000):\n sys.stdout.write('%015d\\n' % i)\n"
              " if i % 20000 == 0: sys.stdout.flush(); time.sleep(0.05)")
    name = shared.ok("exec", "-d", box, "--", "python3", "-c", script).text.strip()
    p = spawn(shared, "logs", "-f", box, name)
    out, _ = p.communicate(timeout=60)
    assert out == b"".join(b"%015d\n" % i for i in range(200000))


def test_wait_for_all(shared, abx):
    a = abx.create()
    abx("wait", a, code=0)
    start(abx, a, "sleep 0.3")
    start(abx, a, "sleep 0.1; exit 6")
    abx("wait", a, code=6)


def test_a_foreground_command_is_no_background_job(shared, box):
    name = shared("exec", "--json", box, "--", "sh", "-c", "exit 0", code=0).lines[0]["id"]
    for j in shared.ok("jobs", "--json", box).json["processes"]:
        assert j["id"] != name or j["background"] is False


def test_jobs_live_without_any_program_of_ours(abx):
    a = abx.create()
    name = start(abx, a, "sleep 0.5; echo later")
    time.sleep(0.8)
    assert abx.ok("logs", a, name).out == b"later\n"


def test_background_input_is_closed(shared, box):
    name = shared.ok("exec", "-d", box, "--", "sh", "-c", "cat; echo end", input=b"ignored").text.strip()
    shared("wait", box, name, code=0)
    assert shared.ok("logs", box, name).out == b"end\n"


def test_detach_returns_although_the_job_holds_its_streams(shared, box):
    r = subprocess.run(["sh", "-c", f'"{__import__("harness").ABX}" exec -d {box} -- sleep 1000 | cat'],
                       env=shared.environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    name = r.stdout.decode().strip()
    shared.ok("signal", box, name, "KILL")


def test_binary_logs_are_exact(shared, box):
    name = shared.ok("exec", "-d", box, "--", "python3", "-c",
                     "import sys; sys.stdout.buffer.write(bytes(range(256))*1000)").text.strip()
    shared("wait", box, name, code=0)
    assert shared.ok("logs", box, name).out == bytes(range(256)) * 1000


@pytest.mark.parametrize("flag", ["--json", "-o=jsonl"])
def test_logs_json_is_lines(shared, box, flag):
    name = start(shared, box, "printf 'x\\377'")
    shared("wait", box, name, code=0)
    events = shared.ok("logs", flag, box, name).lines
    import base64
    got = b"".join(e["text"].encode() if "text" in e else base64.b64decode(e["base64"])
                   for e in events if e["type"] == "stdout")
    assert got == b"x\xff"
