"""What the Python programs of this folder share: cases, and a line of JSON for each that was tried.

A program is run as PROGRAM sync|async. Its cases are written once, as coroutines: done() waits for what the asynchronous
clients return and passes on what the others do."""

import asyncio
import inspect
import json
import sys
import time
import traceback

ASYNC = sys.argv[1] == "async"
cases = []


def case(call, about, since=None):
    """A call of the SDK and what is seen of it. since: the first version of the SDK that has it."""

    def keep(body):
        cases.append((call, about, since, body))
        return body

    return keep


async def done(x):
    return await x if inspect.isawaitable(x) else x


async def refused(kind, call, *args, **more):
    """The exception of this class that a call ends with."""
    try:
        got = await done(call(*args, **more))
    except kind as e:
        return e
    except Exception as e:
        raise AssertionError(f"{type(e).__name__} instead of {kind.__name__}: {e}") from e
    raise AssertionError(f"no {kind.__name__} but {got!r}")


async def until(question, seconds=30):
    """Ask until the answer is true, and return it."""
    end = time.monotonic() + seconds
    while True:
        answer = await done(question())
        if answer:
            return answer
        assert time.monotonic() < end, "did not happen"
        await asyncio.sleep(0.05)


def number(version):
    return tuple(int(part) for part in version.split("."))


def tell(**line):
    print(json.dumps(line), flush=True)


async def try_one(call, about, body, *args):
    start = time.monotonic()
    try:
        await asyncio.wait_for(body(*args), 120)
        why = None
    except Exception as e:
        place = traceback.extract_tb(e.__traceback__)
        own = [f for f in place if "/sdk/" in f.filename and "site-packages" not in f.filename] or place
        why = f"line {own[-1].lineno}: {own[-1].line}: {type(e).__name__}: {e}"
    tell(call=call, about=about, passed=why is None, why=why, ms=round((time.monotonic() - start) * 1000))


async def run_all(version, make, only=()):
    """Every case with a sandbox that all of them share. make: gives it."""
    box = await done(make())
    try:
        for call, about, since, body in cases:
            if only and not any(word in f"{call}: {about}" for word in only):
                continue
            if since and number(version) < number(since):
                tell(call=call, about=about, passed=True, why=f"not in {version}", ms=0)
                continue
            await try_one(call, about, body, *([box] if inspect.signature(body).parameters else []))
    finally:
        await done(box.kill())
