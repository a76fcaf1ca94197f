"""What the escape suite stands on: the attacks of tests/e2e/probe, tried outside and inside.

An attack counts only after it worked somewhere: in a naive sandbox (namespaces and nothing else, tests/e2e/probe/naive.c),
on this machine, or, where no place of this machine may let it through, against calls that are answered as if granted
(tests/e2e/probe/grant.c). Then it is made inside, as user and as root, and must be refused."""

import subprocess

from harness import HELPERS, ROOT

PROBE = str(HELPERS / "probe")
INSIDE = "/work/probe"
USERS = ["user", "root"]
WORKED, REFUSED = 0, 1
# Where the caller of the test is root the attack outside is made by nobody in particular, as that caller is inside.
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if ROOT else []


class Outcome:
    def __init__(self, code, text):
        self.code, self.text = code, text

    def __repr__(self):
        return f"{self.code}: {self.text}"


def outside(*args, nobody=False, **more):
    """The attack on this machine; options of the program come first."""
    p = subprocess.run([*(NOBODY if nobody else []), PROBE, *map(str, args)], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, **more)
    return Outcome(p.returncode, p.stdout.decode(errors="replace"))


def proven(*args, at=None, grants=(), first=("naive", "grants"), **more):
    """The attack works: in a naive sandbox, or else where what it asks for is granted."""
    seen = []
    for way in first:
        if way == "naive":
            options = ["-n", *(["-x", at] if at else [])]
        elif way == "host":
            options = []
        else:
            options = [x for call in grants for x in ("-g", call)]
            if not options:
                continue
        got = outside(*options, *args, **more)
        seen.append(got)
        if got.code == WORKED:
            return
    raise AssertionError(f"{args} proves nothing: {seen}")


def bring(abx, box):
    """The attacks, into a sandbox."""
    abx.ok("cp", PROBE, f"{box}:{INSIDE}")


def attack(abx, box, *args, user="user", flags=(), **more):
    r = abx("exec", "-u", user, *flags, box, "--", INSIDE, *map(str, args), **more)
    return Outcome(r.code, r.text + r.errors)


def refused(abx, box, *args, users=USERS, **more):
    """Inside nobody gets it."""
    for user in users:
        got = attack(abx, box, *args, user=user, **more)
        assert got.code == REFUSED and "refused" in got.text, (user, args, got)

