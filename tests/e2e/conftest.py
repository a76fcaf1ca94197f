"""Fixtures: a fresh home for a test, a sandbox that cheap tests of a module share, a terminal."""

import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import harness  # noqa: E402
from harness import ABX, Abx, Terminal  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "once: nothing in it depends on who calls; one of two runs is enough")


def pytest_sessionstart(session):
    if not os.access(ABX, os.X_OK):
        pytest.exit(f"no program at {ABX}: build it with 'cmake --preset release && "
                    "cmake --build --preset release'", returncode=3)
    harness.become_subreaper()


def pytest_sessionfinish(session):
    for skeleton in harness.skeletons:
        harness.remove_tree(skeleton.parent)


def pytest_terminal_summary(terminalreporter):
    for line in harness.told:
        terminalreporter.write_line(f"soak: {line}")


@pytest.fixture
def abx():
    """The program with a home of its own, for one test."""
    a = Abx(furnished=True)
    yield a
    a.close()
    harness.reap()


@pytest.fixture
def fresh():
    """The same, with a home that does not exist yet."""
    a = Abx()
    yield a
    a.close()
    harness.reap()


@pytest.fixture(scope="module")
def shared():
    """The program with a home that the tests of a module share."""
    a = Abx(furnished=True)
    yield a
    a.close()
    harness.reap()


@pytest.fixture(scope="module")
def box(shared):
    """A sandbox that the tests of a module share. Tests leave it as they found it."""
    return shared.create("--name", "shared-box")


@pytest.fixture
def terminal():
    """terminal(abx, *args): the program on a terminal."""
    opened = []

    def open_terminal(abx, *args, **more):
        t = Terminal(abx, *args, **more)
        opened.append(t)
        return t

    yield open_terminal
    for t in opened:
        t.close()


@pytest.fixture
def spawn():
    """spawn(abx, *args): the program started and not waited for; ended after the test."""
    started = []

    def spawn_program(abx, *args, **more):
        p = abx.start(*args, **more)
        started.append(p)
        return p

    yield spawn_program
    for p in started:
        if p.poll() is None:
            p.kill()
        for stream in (p.stdin, p.stdout, p.stderr):
            if stream:
                try:
                    stream.close()
                except OSError:
                    pass
        try:
            p.wait(timeout=10)
        except subprocess.TimeoutExpired:
            pass
