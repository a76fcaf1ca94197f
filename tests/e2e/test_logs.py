"""logs: times, the last lines, several jobs, a pager."""

import re
import subprocess

import pytest

from harness import wait_for

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def job(abx, box, script):
    return abx.ok("exec", "-d", box, "--", "sh", "-c", script).text.strip()


@pytest.fixture(scope="module")
def mixed(shared, box):
    """A job that wrote to both streams in turns, with pauses that a clock sees."""
    name = job(shared, box, "echo one; sleep 0.1; echo two >&2; sleep 0.1; printf 'three\\nfo'; sleep 0.1; printf ur")
    shared.ok("wait", box, name)
    return name


def times_of(events):
    return [e["time"] for e in events if "time" in e]


def test_timestamps_stand_in_front_of_each_line(shared, box, mixed):
    r = shared.ok("logs", "--timestamps", box, mixed)
    assert re.fullmatch(f"({STAMP}) one\n{STAMP} three\n{STAMP} four", r.text)
    assert re.fullmatch(f"{STAMP} two\n", r.errors)
    stamps = [line.split(" ")[0] for line in (r.text + "\n" + r.errors).splitlines()]
    assert sorted(stamps)[:2] == [stamps[0], stamps[3]]  # one, then two of stderr


def test_with_times_the_streams_come_in_their_order(shared, box, mixed):
    both = subprocess.run([shared.start.__globals__["ABX"], "logs", "--timestamps", box, mixed],
                          env=shared.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert re.sub(STAMP + " ", "", both.stdout.decode()) == "one\ntwo\nthree\nfour"
    events = shared.ok("logs", "--timestamps", "--json", box, mixed).lines
    assert [e.get("text") for e in events[1:-1]] == ["one\n", "two\n", "three\nfo", "ur"]
    assert times_of(events) == sorted(times_of(events)) and len(set(times_of(events))) == 4


def test_tail(shared, box, mixed):
    assert shared.ok("logs", "--tail", "1", box, mixed).out == b"four"
    r = shared.ok("logs", "--tail", "3", box, mixed)
    assert (r.out, r.err) == (b"three\nfour", b"two\n")
    assert shared.ok("logs", "--tail", "0", box, mixed).out == b""
    assert shared.ok("logs", "--tail", "99", box, mixed).out == b"one\nthree\nfour"
    events = shared.ok("logs", "--json", "--tail", "2", box, mixed).lines
    assert "".join(e.get("text", "") for e in events) == "three\nfour"


def test_tail_of_much(shared, box):
    name = job(shared, box, "seq 1 500000")
    shared.ok("wait", box, name)
    assert shared.ok("logs", "--tail", "2", box, name).out == b"499999\n500000\n"
    stamped = shared.ok("logs", "--timestamps", box, name).text.splitlines()
    assert len(stamped) == 500000 and re.fullmatch(STAMP + " 500000", stamped[-1])


def test_since_a_time(shared, box, mixed):
    stamps = times_of(shared.ok("logs", "--timestamps", "--json", box, mixed).lines)
    assert shared.ok("logs", "--since", stamps[2], box, mixed).out == b"three\nfour"
    r = shared.ok("logs", "--since", stamps[1], box, mixed)
    assert (r.out, r.err) == (b"three\nfour", b"two\n")
    assert shared.ok("logs", "--since", stamps[1], "--tail", "1", box, mixed).out == b"four"
    assert shared.ok("logs", "--since", "1h", box, mixed).out == b"one\nthree\nfour"
    assert shared.ok("logs", "--since", "none", box, mixed).out == b"one\nthree\nfour"
    assert shared.ok("logs", "--since", "2999-01-01T00:00:00+02:00", box, mixed).out == b""
    assert "2026" in shared("logs", "--since", "yesterday", box, mixed, code=2).errors


def test_follow_goes_on_behind_the_last_lines(shared, box, spawn):
    name = job(shared, box, "seq 1 9; until test -e /tmp/go; do sleep 0.05; done; echo end; rm /tmp/go")
    wait_for(lambda: b"9\n" in shared.ok("logs", box, name).out)
    p = spawn(shared, "logs", "-f", "--tail", "2", box, name)
    assert p.stdout.read(4) == b"8\n9\n"
    shared.sh(box, "touch /tmp/go", code=0)
    assert p.stdout.read() == b"end\n" and p.wait(timeout=20) == 0


def test_several_jobs(shared, box):
    a = job(shared, box, "printf 'a1\na2'")
    b = job(shared, box, "echo b1; echo b2 >&2")
    shared.ok("wait", box)
    r = shared.ok("logs", box, a, b)
    assert r.text == f"{a} | a1\n{a} | a2\n{b} | b1\n" and r.errors == f"{b} | b2\n"
    followed = shared.ok("logs", "-f", box, a, b)
    assert sorted(followed.text.splitlines()) == sorted(r.text.splitlines())
    assert shared.ok("logs", "--tail", "1", box, a, b).text == f"{a} | a2\n"
    events = shared.ok("logs", "--json", box, a, b).lines
    assert {e["job"] for e in events} == {a, b}
    assert [e["job"] for e in events if e["type"] == "exit"] == [a, b]
    assert shared("logs", box, a, "p999", code=3).text == f"{a} | a1\n{a} | a2\n"


def test_lines_of_two_running_jobs_are_not_mixed(shared, box):
    script = "i=0; while [ $i -lt 200 ]; do printf abc; printf 'def\\n'; i=$((i+1)); done"
    a, b = job(shared, box, script), job(shared, box, script)
    lines = shared.ok("logs", "-f", box, a, b).text.splitlines()
    assert len(lines) == 400 and set(lines) == {f"{a} | abcdef", f"{b} | abcdef"}


def test_ctrl_c_leaves_the_job_alone(shared, box, spawn):
    name = job(shared, box, "echo x; sleep 1000")
    p = spawn(shared, "logs", "-f", box, name)
    assert p.stdout.read(2) == b"x\n"
    p.send_signal(2)
    assert p.wait(timeout=20) == 130
    assert [j["state"] for j in shared.ok("jobs", "--json", box).json["processes"] if j["id"] == name] == ["running"]
    shared.ok("signal", box, name, "KILL")


def test_a_closed_reader_ends_it(shared, box, spawn):
    name = job(shared, box, "yes")
    p = spawn(shared, "logs", "-f", box, name)
    p.stdout.read(1000)
    p.stdout.close()
    assert p.wait(timeout=20) == 141
    shared.ok("signal", box, name, "KILL")


# --- the pager -------------------------------------------------------------------------------------------------


PAGER = {"PAGER": "echo '<paged>'; cat; echo '</paged>'"}


@pytest.mark.parametrize("args", [["help", "run"], ["run", "--help"], ["help"], ["logs", "BOX", "JOB"]], ids=" ".join)
def test_a_pager_on_a_terminal(shared, box, mixed, terminal, args):
    t = terminal(shared, *[a.replace("BOX", box).replace("JOB", mixed) for a in args], env=PAGER)
    t.expect("<paged>")
    t.expect("</paged>")
    assert t.end() == 0


@pytest.mark.parametrize("args,env", [
    (["logs", "-f", "BOX", "JOB"], PAGER),
    (["help", "run", "--no-input"], PAGER),
    (["help", "run"], {**PAGER, "CI": "1"}),
    (["ls"], PAGER),
    (["help", "run"], {"PAGER": ""}),
    (["logs", "--json", "BOX", "JOB"], PAGER),
], ids=lambda x: " ".join(x) if isinstance(x, list) else "-")
def test_no_pager_elsewhere(shared, box, mixed, terminal, args, env):
    t = terminal(shared, *[a.replace("BOX", box).replace("JOB", mixed) for a in args], env=env)
    assert t.end() == 0
    assert b"<paged>" not in t.seen
    assert b"<paged>" not in shared.ok("help", "run", env=PAGER).out


def test_a_pager_that_is_left_early_is_no_failure(shared, box, terminal):
    name = job(shared, box, "seq 1 300000")
    shared.ok("wait", box, name)
    t = terminal(shared, "logs", box, name, env={"PAGER": "head -n 1"})
    t.expect("1\r\n")
    assert t.end() == 0
