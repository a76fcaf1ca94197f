"""--dry-run tells and changes nothing; creating again with the same key or name; the time limit of a whole command."""

import os
import signal
from pathlib import Path

import pytest


def picture(folder):
    """All below a folder but what sandboxes share: names, and contents of what can be read."""
    found = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in ("skeleton", "pool", "trash")]
        for name in folders + files:
            path = os.path.join(place, name)
            readable = name in files and os.path.isfile(path) and os.access(path, os.R_OK)
            found[path] = Path(path).read_bytes() if readable else None
    return found


CHANGES = [
    (["create", "--name", "new"], "sandbox.create"),
    (["run", "--", "true"], "sandbox.create process.start sandbox.kill"),
    (["run", "-d", "--", "true"], "sandbox.create process.start"),
    (["exec", "BOX", "--", "touch", "/work/changed"], "process.start"),
    (["exec", "-d", "BOX", "--", "touch", "/work/changed"], "process.start"),
    (["shell", "BOX"], "process.start"),
    (["cp", "BOX:/etc/hostname", "changed"], "cp"),
    (["cp", "here", "BOX:/work/changed"], "cp"),
    (["files", "write", "BOX:/work/changed"], "fs.write"),
    (["files", "rm", "BOX:/work/there"], "fs.remove"),
    (["files", "mkdir", "BOX:/work/a", "BOX:/work/b"], "fs.make_dir fs.make_dir"),
    (["files", "mv", "BOX:/work/there", "BOX:/work/changed"], "fs.rename"),
    (["signal", "BOX", "p1", "KILL"], "process.signal"),
    (["extend", "BOX", "1m"], "sandbox.set_timeout"),
    (["pause", "BOX"], "sandbox.pause"),
    (["resume", "BOX"], "sandbox.connect"),
    (["template", "add", "changed", "folder"], "sandbox.template_add"),
    (["template", "rm", "changed"], "sandbox.template_remove"),
    (["fork", "BOX"], "sandbox.fork"),
    (["snapshot", "create", "BOX"], "sandbox.snapshot_create"),
    (["snapshot", "rm", "changed"], "sandbox.snapshot_remove"),
    (["code", "BOX", "-c", "1"], "code.run"),
    (["kill", "BOX"], "sandbox.kill"),
    (["kill", "--all"], "sandbox.kill"),
    (["config", "set", "output", "json"], "config.set"),
    (["config", "unset", "output"], "config.unset"),
    (["help", "--man", "changed"], "help.man"),
]


@pytest.mark.parametrize("args,operations", CHANGES, ids=[" ".join(c[0][:2]) for c in CHANGES])
def test_every_verb_that_changes_something_has_a_dry_run(shared, box, args, operations):
    (shared.work / "here").write_text("x")
    (shared.work / "folder").mkdir(exist_ok=True)
    shared.sh(box, "echo x > /work/there", code=0)
    args = [a.replace("BOX", box) for a in args]
    before, info = picture(shared.folder), shared.info(box)
    r = shared.ok(*args, "--dry-run", "--json") if args[0] not in ("run", "exec") else shared.ok(
        args[0], "--dry-run", "--json", *args[1:])
    plan = r.json
    assert plan["dryRun"] is True
    assert " ".join(a["operation"] for a in plan["actions"]) == operations
    assert shared.ok(args[0], "--dry-run", *args[1:]).text.startswith("OPERATION ")
    assert picture(shared.folder) == before
    assert shared.info(box)["expiresAt"] == info["expiresAt"]
    assert shared.sh(box, "ls /work", code=0).text == "there\n"


def test_the_table_of_verbs_names_no_other_that_changes_something(shared):
    schema = shared.ok("schema").json
    reads = {"ls", "info", "files ls", "files cat", "files stat", "files watch", "jobs", "logs", "wait", "doctor",
             "config list", "config get", "template ls", "template info", "stats", "snapshot ls", "port", "config path", "context", "schema", "version", "completion"}
    own = {"gc", "config trust"}
    known = reads | own | {" ".join(c[0][:2]) for c in CHANGES} | {c[0][0] for c in CHANGES}
    late = {"sync", "network"}  # tested with themselves; here no sandbox can change its network
    unknown = {v["name"] for v in schema["verbs"]} - known - late
    assert not {u for u in unknown if not u.startswith(("provider", "e2b"))}


def test_a_dry_run_finds_what_is_wrong(shared, box):
    assert shared("kill", "--dry-run", "--json", box, "nosuch").json["actions"][0]["sandbox"] == box
    assert shared("exec", "--dry-run", "nosuch", "--", "true", code=125).out == b""
    assert shared("cp", "--dry-run", f"{box}:/no/such", "x", code=3).out == b""
    assert shared("cp", "--dry-run", "no-such", f"{box}:/", code=3).out == b""
    assert shared("config", "set", "--dry-run", "otuput", "x", code=2).out == b""
    assert shared("create", "--dry-run", "--name", "no name", code=2).out == b""
    assert shared("config", "set", "--dry-run", "providers.local.api_key", "secret", code=2).out == b""


def test_a_dry_run_shows_no_value_of_a_variable(shared):
    r = shared.ok("create", "--dry-run", "--json", "-e", "TOKEN=topsecret")
    assert b"topsecret" not in r.out + r.err
    assert r.json["actions"][0]["params"]["env"] == {"TOKEN": "..."}


# --- again ----------------------------------------------------------------------------------------------------


def test_the_same_key_gives_the_same_sandbox(abx):
    a = abx.create("--idempotency-key", "job 7")
    assert abx.create("--idempotency-key", "job 7") == a
    assert abx.create("--idempotency-key", "job 8") != a
    assert abx.ok("run", "-d", "--idempotency-key", "job 7", "--", "true").text.strip() == a
    assert len(abx.sandboxes()) == 2
    abx.ok("kill", a)
    assert abx.create("--idempotency-key", "job 7") != a
    assert "--keep" in abx("run", "--idempotency-key", "x", "--", "true", code=2).errors


def test_a_name_is_taken_or_reused(abx):
    a = abx.create("--name", "one")
    taken = abx("create", "--name", "one", "--json", code=5)
    assert taken.out == b"" and taken.error["sandbox"] == a and "--reuse" in taken.error["hint"]
    assert abx.create("--name", "one", "--reuse") == a
    assert abx.ok("run", "--name", "one", "--reuse", "--", "hostname").code == 0
    assert abx.ok("ls", "-q").text.split() == [a]
    assert "--name" in abx("create", "--reuse", code=2).errors
    assert abx("create", "--name", "one", "--no-reuse", code=5)
    abx.ok("kill", a)
    assert abx.create("--name", "one", "--reuse") != a


# --- the deadline of the whole command -------------------------------------------------------------------------


@pytest.mark.parametrize("args", [["files", "write", "BOX:/work/f"], ["cp", "-", "BOX:/work"],
                                  ["files", "watch", "BOX:/work"], ["wait", "BOX", "JOB"], ["logs", "-f", "BOX", "JOB"],
                                  ["config", "set", "output", "-"]], ids=lambda a: " ".join(a[:2]))
def test_wait_timeout_ends_every_wait(shared, box, args):
    """Also what waits for a pipe that nobody writes to."""
    job = shared.ok("exec", "-d", box, "--", "sleep", "1000").text.strip()
    r, w = os.pipe()
    args = [a.replace("BOX", box).replace("JOB", job) for a in args]
    done = shared(*args, "--wait-timeout", "300ms", "--json", stdin=r, code=9)
    assert done.error["code"] == "E5001" and "--wait-timeout" in done.error["hint"]
    os.close(r)
    os.close(w)
    shared.ok("signal", box, job, "KILL")


def test_wait_timeout_with_a_full_pipe(shared, box):
    shared.sh(box, "head -c 9000000 /dev/zero > /tmp/large", code=0)
    r, w = os.pipe()
    p = shared.start("files", "cat", "--wait-timeout", "500ms", f"{box}:/tmp/large", stdout=w)
    os.close(w)
    assert p.wait(timeout=60) == 9
    os.close(r)
    assert b"E5001" in p.stderr.read()
    p.stderr.close()


def test_wait_timeout_at_a_question(shared, box, terminal):
    t = terminal(shared, "kill", "--all", "--wait-timeout", "500ms")
    t.expect("[y/N]")
    assert t.end() == 9
    assert shared.info(box)["state"] == "running"


def test_ctrl_c_at_a_question(shared, box, terminal):
    t = terminal(shared, "kill", "--all")
    t.expect("[y/N]")
    t.write("\x03")
    assert t.end() == 130
    assert shared.info(box)["state"] == "running"
    t = terminal(shared, "config", "set", "providers.local.api_key", "-")
    t.expect("value: ")
    assert not t.is_restored()
    t.write("\x03")
    assert t.end() == 130
    assert t.is_restored()


def test_a_signal_at_a_hidden_question_restores_the_terminal(shared, terminal):
    for sig in [signal.SIGTERM, signal.SIGHUP]:
        t = terminal(shared, "config", "set", "providers.local.api_key", "-")
        t.expect("value: ")
        t.process.send_signal(sig)
        assert t.end() == 128 + sig
        assert t.is_restored()


def test_nobody_is_asked_without_a_terminal(shared, box, terminal):
    r = shared("kill", "--all", code=2)
    assert "-y" in r.errors and r.out == b""
    for more in [{"env": {"CI": "1"}}, {"env": {"ABX_NO_INPUT": "1"}}]:
        t = terminal(shared, "kill", "--all", **more)
        assert t.end() == 2 and b"[y/N]" not in t.seen and b"-y" in t.seen
    for flags in [["kill", "--all"], ["config", "set", "output", "-"]]:
        t = terminal(shared, *flags, "--no-input")
        assert t.end() == 2 and b"value:" not in t.seen
    assert shared.info(box)["state"] == "running"
    t = terminal(shared, "kill", "--all")
    t.expect("[y/N]")
    t.write("\n")  # the default is no
    assert t.end() == 1
    assert shared.info(box)["state"] == "running"
