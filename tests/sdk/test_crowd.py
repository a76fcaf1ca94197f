"""Many clients with streams, each killed at a random moment: the door goes on, holds nothing of theirs, and once their sandboxes
are killed there is no process left."""

import json
import os
import subprocess
import time
from pathlib import Path

from door import ABX, LIMIT, SOAK, Door, command

CLIENTS = 200 if SOAK else 10
SANDBOXES = 20 if SOAK else 2


def memory(pid):
    """Anonymous memory in KiB."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["RssAnon"].split()[0])


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def wait_for(question, what, seconds=60):
    end = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def mine(door):
    """Processes with this door's home in their environment or command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if str(door.home).encode() in Path(f"/proc/{name}/environ").read_bytes() + Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
            except OSError:
                continue
    return found


def test_clients_killed_at_any_moment():
    door = Door()
    try:
        pid = json.loads(door.run(ABX, "e2b", "status", "--json"))["pid"]
        held = descriptors(pid)
        words, more, folder = command("python-new", "crowd.py", str(CLIENTS), str(SANDBOXES), "4711")
        done = subprocess.run(words, env=door.environment(**more), cwd=folder, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr[-3000:]
        failed, *boxes = done.stdout.split()
        assert failed == "0", done.stderr[-3000:]
        print(f"{CLIENTS} clients: {memory(pid)} KiB, {descriptors(pid)} descriptors, before {held}")
        assert memory(pid) < 48 * 1024
        for box in boxes:  # nobody listens, nobody is stopped by that: they live, and answer
            assert door.run(ABX, "-P", "local", "exec", box, "--", "echo", "alive") == "alive\n"
        door.run(ABX, "-P", "local", "kill", "--all", "--yes")
        # memory that only the crowd needed goes back, and what its provider opens once stays
        wait_for(lambda: memory(pid) < 8 * 1024, "the memory of dead clients stays")
        wait_for(lambda: descriptors(pid) <= held + 24, "connections of dead clients stay open")
        door.run(ABX, "e2b", "stop")
        wait_for(lambda: not mine(door), "processes are left")
    finally:
        door.close()
