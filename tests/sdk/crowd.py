"""Clients that are killed at random moments: each a process of its own with a stream of output, a terminal and a watcher at once.
PROGRAM CLIENTS SANDBOXES SEED. The package is loaded once; every client is a fork of that. Prints the sandboxes that were made."""

import os
import random
import signal
import sys
import threading
import time

from e2b import PtySize, RateLimitException, Sandbox

FLOOD = "while :; do for i in 1 2 3 4 5 6 7 8 9; do printf %20000s; done; sleep 1; done"


def drain(handle):
    try:
        for _ in handle:
            pass
    except Exception:
        pass  # its sandbox was killed


def live(sandbox, number):
    """A client's life; somebody ends it."""
    box = Sandbox.connect(sandbox)
    threads = [threading.Thread(target=drain, args=[box.commands.run(FLOOD, background=True, timeout=0)]),
               threading.Thread(target=drain, args=[box.pty.create(PtySize(rows=24, cols=80), timeout=0)])]
    for t in threads:
        t.start()
    box.files.make_dir(f"client{number}")
    try:
        watcher = box.files.watch_dir(f"client{number}")
    except RateLimitException:
        watcher = None  # the kernel gives a user only so many
    while True:
        box.files.write(f"client{number}/f", b"x" * 100000)
        box.files.read(f"client{number}/f", format="bytes")
        if watcher:
            watcher.get_new_events()


def main():
    clients, sandboxes, seed = map(int, sys.argv[1:])
    dice = random.Random(seed)
    made = []
    starter = os.fork  # nothing of the package may run before the forks: its threads would stay behind
    reader, writer = os.pipe()
    if starter() == 0:
        os.close(reader)
        for _ in range(sandboxes):
            os.write(writer, Sandbox.create(timeout=3600, metadata={"crowd": "1"}).sandbox_id.encode() + b"\n")
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as f:
        made = f.read().split()
    assert len(made) == sandboxes
    waiting = []
    for number in range(clients):
        pid = starter()
        if pid == 0:
            try:
                live(made[number % sandboxes], number)
            except Exception as e:
                print(f"client {number}: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
            os._exit(1)
        waiting.append((time.monotonic() + dice.uniform(0.3, 6), pid))
    failed = 0
    for moment, pid in sorted(waiting):
        time.sleep(max(0, moment - time.monotonic()))
        os.kill(pid, signal.SIGKILL)
    for _, pid in waiting:
        failed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGKILL
    print(failed, *made)


main()
