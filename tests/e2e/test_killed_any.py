"""kill -9 of whichever process has a part in a command, at random moments: the command, pid 1, the remover, what maps
ids, what runs inside. Nobody waits for ever, who waited is told, and what is left over is cleared by the next command
or by gc."""

import collections
import os
import random
import signal
import time

import pytest

from harness import ROOT, command_of, count, descendants, mounts_of, reap, status, tell, wait_for

TIMES = count(2, 160)
MORE = {"run": 8, "run-range": 2, "snapshot": 4, "template": 4}  # times as often in a soak run: who helps them lives shortly
NAME = "box"
kills = collections.Counter()  # by the kind of process


@pytest.fixture(scope="module", autouse=True)
def figures():
    yield
    tell("killed: " + ", ".join(f"{n} {kind}" for kind, n in kills.most_common() if kind))


# words, and whether they want a sandbox that lives
COMMANDS = {
    "run": (["run", "--", "sh", "-c", "sleep 0.05; echo done"], False),
    "run-range": (["run", "-O", "ids=range", "--", "sleep", "0.05"], False),
    "create": (["create", "--name", "other"], False),
    "exec": (["exec", NAME, "--", "sh", "-c", "sleep 0.05; echo done"], True),
    "exec-d": (["exec", "-d", NAME, "--", "sleep", "1000"], True),
    "cp-in": (["cp", "tree", f"{NAME}:/work/in"], True),
    "cp-out": (["cp", f"{NAME}:/usr/share/doc/bash", "out"], True),
    "cp-file": (["cp", f"{NAME}:/bin/bash", "bash"], True),
    "cp-between": (["cp", f"{NAME}:/bin/bash", f"{NAME}:/work/b"], True),
    "sync": (["sync", "tree", f"{NAME}:/work/sync"], True),
    "pause": (["pause", NAME], True),
    "resume": (["resume", NAME], True),
    "kill": (["kill", NAME], True),
    "logs": (["logs", "-f", NAME], True),
    "snapshot": (["snapshot", "create", NAME], True),
    "template": (["template", "add", "made", "tree"], False),
}


def fill(folder):
    (folder / "tree").mkdir()
    for i in range(40):
        (folder / "tree" / f"f{i}").write_bytes(os.urandom(20000))


def is_ours(pid):
    return command_of(pid).split(b"\0")[0].endswith((b"abx", b"/proc/self/exe"))


def kind_of(pid, command):
    if pid == command:
        return "command line"
    inside = status(pid).get("NSpid", "").split()
    if len(inside) > 1:
        return "pid 1 (init and envd)" if inside[-1] == "1" else "processes inside"
    if is_ours(pid):
        try:
            return "removers" if os.getsid(pid) == pid else "workers"
        except ProcessLookupError:
            return None
    return os.path.basename(command_of(pid).split(b"\0")[0].decode(errors="replace")) or None


def victims_of(abx, command):
    """pid -> kind of all that lives for this command or its sandbox."""
    alive = [x for x in descendants() if x not in abx.before and status(x).get("State", "Z")[0] != "Z"]
    return {pid: kind for pid in alive if (kind := kind_of(pid, command))}


def choose(abx, p, dice, met):
    """Whoever is there at a random moment, or a while after one of the rarest kind came; kinds that were killed less often
    first. met: the kinds that were seen at this command."""
    time.sleep(dice.random() * 0.05)
    found = victims_of(abx, p.pid)
    met.update(found.values())
    if met and dice.random() < 0.5:
        rare = min(sorted(met), key=kills.__getitem__)
        for _ in range(200):
            if rare in found.values() or p.poll() is not None:
                break
            found = victims_of(abx, p.pid)
            met.update(found.values())
        time.sleep(dice.random() * 0.004)
    if not found:
        return p.pid, None
    rare = min(sorted(set(found.values())), key=kills.__getitem__)
    return dice.choice([pid for pid, kind in found.items() if kind == rare]), rare


def cgroups_of(box):
    found = []
    for top, folders, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(top, x) for x in folders if box in x]
    return found


def clear(abx, boxes):
    wait_for(lambda: not abx.left(), "all processes are gone")
    abx.ok("gc")
    wait_for(lambda: not abx.sandboxes() and not abx.trash(), "all folders are gone")
    assert abx.ledger() == [] and mounts_of(abx.home) == []
    assert [line for line in open("/proc/net/unix") if str(abx.home) in line] == []
    for box in boxes:
        wait_for(lambda: cgroups_of(box) == [], "its groups are gone")
    if ROOT and os.path.isdir("/run/abx/slots"):
        held = []
        for name in os.listdir("/run/abx/slots"):
            try:
                held += [name] if str(abx.home) in os.readlink(f"/run/abx/slots/{name}") else []
            except OSError:
                pass
        assert held == []


@pytest.mark.parametrize("name", list(COMMANDS))
def test_any_process_killed(abx, spawn, name):
    words, needs_box = COMMANDS[name]
    dice = random.Random(name)
    fill(abx.work)
    boxes, met = [], set()
    for _ in range(TIMES * count(1, MORE.get(name, 1))):
        if needs_box and (not boxes or abx("exec", NAME, "--", "true").code != 0):
            abx("kill", NAME)
            boxes.append(abx.create("--name", NAME))
            abx.ok("exec", "-d", NAME, "--", "sleep", "1000")
        if name == "resume":
            abx("pause", NAME)
        p = spawn(abx, *words)
        victim, kind = choose(abx, p, dice, met)
        ours = is_ours(victim)
        try:
            os.kill(victim, signal.SIGKILL)
            kills[kind] += 1
        except ProcessLookupError:
            ours = False
        if name == "logs":  # it follows for ever, unless what it follows has an end
            time.sleep(0.02)
            if p.poll() is None and victim != p.pid and not ours:
                p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)  # an exception here is a client that hangs
        if kind == "processes inside" and p.returncode == 137:
            ours = False  # the command itself, before its exec
        if p.returncode > 0 and ours and victim != p.pid and name != "logs":
            assert b"error: " in err, (name, p.returncode, err)
        reap({p.pid})
        abx("resume", NAME) if needs_box else None
        abx("kill", "other")
        abx("template", "rm", "made")
    abx.ok("kill", "--all", "-y")
    for made in abx.ok("snapshot", "ls", "--json").json["snapshots"]:
        abx.ok("snapshot", "rm", made["id"])
    clear(abx, boxes)
