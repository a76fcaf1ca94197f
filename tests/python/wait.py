"""Waiting for what must come."""

import time


def wait_for(question, seconds=30):
    """Ask until the answer is true, and return it."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.02)


def running(sandbox, word):
    """Processes of a sandbox that live and whose command line holds a word."""
    shown = sandbox.commands.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0\\n' '  '").stdout
    return word in shown
