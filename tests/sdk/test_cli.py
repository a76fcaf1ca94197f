"""The official command line, unchanged, against the door: its sandbox commands, in two versions."""

import json
import os
import pty
import re
import select
import subprocess
import time

import pytest

from door import CLIENTS, LIMIT


class Cli:
    def __init__(self, door, client):
        self.door, self.client = door, client
        self.program = str(CLIENTS / client / "node_modules/.bin/e2b")

    def __call__(self, *words, code=0, input=None):
        stdin = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
        done = subprocess.run([self.program, "sandbox", *words], env=self.door.environment(), capture_output=True, text=True,
                              timeout=LIMIT, **stdin)
        assert done.returncode == code, f"{words} -> {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def create(self, *words):
        made = self("create", "--detach", *words)
        return re.search(r"\b([a-z0-9]{12,32})\b", re.sub(r"\x1b\[[0-9;]*m", "", made).rpartition("ID")[2])[1]


@pytest.fixture(scope="module", params=["js-new", "js-old"])
def cli(door, request):
    return Cli(door, request.param)


@pytest.fixture(scope="module")
def box(cli):
    made = cli.create("base")
    yield made
    cli("kill", made)


def test_list_and_info(cli, box):
    listed = json.loads(cli("list", "--format", "json"))
    assert box in [x["sandboxId"] for x in listed]
    assert json.loads(cli("info", box, "--format", "json"))["sandboxId"] == box
    assert box in cli("list")


def test_exec(cli, box):
    assert cli("exec", box, "--", "echo", "two  words") == "two  words\n"
    assert cli("exec", "-c", "/tmp", "-e", "A=1", "-u", "user", box, "--", "sh", "-c", "pwd; echo $A") == "/tmp\n1\n"
    assert cli("exec", box, "--", "sh", "-c", "exit 7", code=7) == ""


def test_exec_reads_standard_input(cli, box):
    assert cli("exec", box, "--", "wc", "-c", input="x" * 200000).strip() == "200000"


def test_exec_in_the_background(cli, box):
    cli("exec", "-b", box, "--", "sh", "-c", "sleep 0.2; touch /tmp/in-background")
    end = time.monotonic() + 30
    while "there" not in cli("exec", box, "--", "sh", "-c", "test -e /tmp/in-background && echo there; true"):
        assert time.monotonic() < end


def test_pause_and_resume(cli):
    made = cli.create()
    cli("pause", made)
    assert made in [x["sandboxId"] for x in json.loads(cli("list", "--state", "paused", "--format", "json"))]
    cli("resume", made)
    assert cli("exec", made, "--", "echo", "on") == "on\n"
    cli("kill", made)


def test_metrics(cli, box):
    end = time.monotonic() + 60
    while '"cpuUsedPct"' not in cli("metrics", "--format", "json", box):
        assert time.monotonic() < end


def test_logs(cli, box):
    cli("logs", box)


def test_snapshots(cli, box):
    if cli.client == "js-old":
        return  # it has none
    cli("snapshot", "create", box)
    listed = json.loads(cli("snapshot", "list", "--format", "json", box))
    assert len(listed) == 1
    cli("snapshot", "delete", listed[0]["snapshotId"])
    assert json.loads(cli("snapshot", "list", "--format", "json", box)) == []


class Terminal:
    """The command line on a terminal."""

    def __init__(self, cli, *words):
        self.master, slave = pty.openpty()
        self.seen = b""
        self.process = subprocess.Popen([cli.program, "sandbox", *words], stdin=slave, stdout=slave, stderr=slave,
                                        env=cli.door.environment(TERM="xterm"), start_new_session=True)
        os.close(slave)

    def expect(self, text, seconds=60):
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen[-2000:]
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    assert text in self.seen, self.seen[-2000:]
        self.seen = self.seen.partition(text)[2]

    def type(self, text):
        os.write(self.master, text)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def test_connect_gives_a_terminal(cli, box):
    t = Terminal(cli, "connect", box)
    try:
        t.type(b"echo $((40+2))x; tty\n")
        t.expect(b"42x")
        t.expect(b"/dev/pts/")
        t.type(b"exit\n")
        t.process.wait(60)
    finally:
        t.close()


def test_create_gives_a_terminal(cli):
    t = Terminal(cli, "create", "base")
    try:
        t.type(b"echo $((40+2))x\n")
        t.expect(b"42x")
        t.type(b"exit\n")
        t.process.wait(60)
    finally:
        t.close()
