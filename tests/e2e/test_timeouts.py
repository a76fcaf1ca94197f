"""Time limits of commands end all that was started; what a command leaves behind by itself lives on."""

import pytest

from harness import wait_for, with_marker

ESCAPES = {
    "same group": "sleep_ & wait",
    "own session": "setsid sh -c ': MARK; sleep 1000' & wait",
    "double fork": "(setsid sh -c '(: MARK; sleep 1000) & :' &); sleep 1000",
    "ignores TERM": "trap '' TERM INT HUP; : MARK; while :; do sleep 0.1; done",
    "closed streams": "setsid sh -c ': MARK; exec >&- 2>&- <&-; sleep 1000' & wait",
}


@pytest.mark.parametrize("name", ESCAPES)
def test_a_time_limit_ends_everything(shared, box, name):
    marker = "limit" + name.replace(" ", "")
    script = ESCAPES[name].replace("sleep_", "sh -c ': MARK; sleep 1000'").replace("MARK", marker)
    shared("exec", "--timeout", "500ms", box, "--", "sh", "-c", f": {marker}; {script}", code=124)
    wait_for(lambda: not with_marker(marker), "all are gone")
    assert shared.sh(box, "echo alive", code=0).out == b"alive\n"


def test_the_output_before_the_limit_is_kept(shared, box):
    r = shared("exec", "--timeout", "500ms", box, "--", "sh", "-c", "echo before; sleep 1000", code=124)
    assert r.out == b"before\n"


def test_the_limit_works_on_run(abx):
    r = abx("run", "--command-timeout", "500ms", "--", "sh", "-c", "echo before; setsid sleep 1000 & wait",
            code=124)
    assert r.out == b"before\n"
    assert abx.sandboxes() == []


def test_the_limit_is_kept_without_the_caller(abx):
    """A background command ends at its limit although nobody waits."""
    a = abx.create()
    job = abx.ok("exec", "-d", "--timeout", "300ms", a, "--", "sleep", "1000").text.strip()
    wait_for(lambda: {j["id"]: j for j in abx.ok("jobs", "--json", a).json["processes"]}[job]["state"]
             == "exited")
    abx("wait", a, job, code=124)


@pytest.mark.parametrize("limit", ["0", "none"])
def test_no_limit(shared, box, limit):
    assert shared("exec", "--timeout", limit, box, "--", "echo", "x", code=0).out == b"x\n"


@pytest.mark.parametrize("limit", ["500ms", "1h30m", "30s", "2h", "10", "1m"])
def test_durations_are_understood(shared, box, limit):
    shared("exec", "--timeout", limit, box, "--", "true", code=0)


def test_a_background_child_does_not_delay_the_end_and_lives_on(shared, box):
    marker = "lefton4711"
    r = shared("exec", box, "--", "sh", "-c", f"sh -c ': {marker}; sleep 1000' & echo done", code=0)
    assert r.out == b"done\n"
    assert with_marker(marker)
    shared.sh(box, f"pkill -f {marker} || true")
    wait_for(lambda: not with_marker(marker))


def test_output_of_a_child_right_after_the_end_still_comes(shared, box):
    r = shared("exec", box, "--", "sh", "-c", "(sleep 0.03; echo late) & echo now", code=0)
    assert r.out.startswith(b"now\n")


def test_the_call_s_limit_ends_the_command(shared, box):
    marker = "callends4711"
    shared("exec", "--wait-timeout", "500ms", box, "--", "sh", "-c", f": {marker}; setsid sleep 1000 & sleep 1000",
           code=125)
    wait_for(lambda: not with_marker(marker), "all are gone")
