"""The table of standard input: what is passed on, what is closed at once, and the flags that change it."""

import os
import socket
import subprocess

import pytest

from harness import ABX, LIMIT, socket_pair

READ = ["--", "sh", "-c", "cat; echo end"]


def test_a_file_is_passed_on(shared, box, tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"from file\n")
    with open(path, "rb") as f:
        assert shared("exec", box, *READ, stdin=f, code=0).out == b"from file\nend\n"


def test_a_file_is_read_from_where_it_stands(shared, box, tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"head\ntail\n")
    with open(path, "rb") as f:
        f.seek(5)
        os.lseek(f.fileno(), 5, os.SEEK_SET)
        assert shared("exec", box, *READ, stdin=f, code=0).out == b"tail\nend\n"


def test_a_pipe_is_passed_on(shared, box):
    assert shared("exec", box, *READ, input=b"from pipe\n", code=0).out == b"from pipe\nend\n"


def test_a_socket_is_passed_on(shared, box):
    ours, theirs = socket_pair()
    ours.sendall(b"from socket\n")
    ours.shutdown(socket.SHUT_WR)
    assert shared("exec", box, *READ, stdin=theirs, code=0).out == b"from socket\nend\n"
    ours.close()
    theirs.close()


def test_dev_null_and_other_devices_are_closed_at_once(shared, box):
    assert shared("exec", box, *READ, code=0).out == b"end\n"
    with open("/dev/zero", "rb") as zero:
        assert shared("exec", box, *READ, stdin=zero, code=0).out == b"end\n"


def test_closed_stdin(shared, box):
    r = subprocess.run(["sh", "-c", f'"{ABX}" exec {box} -- sh -c "cat; echo end" <&-'],
                       env=shared.environment(), capture_output=True, timeout=LIMIT)
    assert (r.returncode, r.stdout) == (0, b"end\n"), r


def open_pipe():
    """A pipe that nobody writes to and nobody closes."""
    return os.pipe()


def test_n_closes_whatever_it_is(shared, box):
    r, w = open_pipe()
    assert shared("exec", "-n", box, *READ, stdin=r, code=0).out == b"end\n"
    assert shared("exec", "--no-stdin", box, *READ, input=b"x", code=0).out == b"end\n"
    os.close(r)
    os.close(w)


def test_abx_stdin_closed_is_n_by_default(shared, box):
    r, w = open_pipe()
    closed = {"ABX_STDIN": "closed"}
    assert shared("exec", box, *READ, stdin=r, env=closed, code=0).out == b"end\n"
    os.close(r)
    os.close(w)
    assert shared("exec", "-i", box, *READ, input=b"x\n", env=closed, code=0).out == b"x\nend\n"


def test_i_passes_on_whatever_it_is(shared, box):
    with open("/dev/zero", "rb") as zero:
        r = shared("exec", "-i", box, "--", "head", "-c", "100000", stdin=zero, code=0)
    assert r.out == bytes(100000)


def test_the_last_of_i_and_n_wins(shared, box):
    assert shared("exec", "-i", "-n", box, *READ, input=b"x\n", code=0).out == b"end\n"
    assert shared("exec", "-n", "-i", box, *READ, input=b"x\n", code=0).out == b"x\nend\n"


def test_the_end_does_not_wait_for_stdin(shared, box):
    r, w = open_pipe()
    assert shared("exec", box, "--", "echo", "done", stdin=r, code=0).out == b"done\n"
    os.close(r)
    os.close(w)


def test_endless_stdin(shared, box):
    for path in ["/dev/zero"]:
        with open(path, "rb") as f:
            assert shared("exec", "-i", box, "--", "head", "-c", "3", stdin=f, code=0).out == bytes(3)
            assert shared("exec", "-i", box, "--", "true", stdin=f, code=0).out == b""


def test_a_command_that_closes_its_input_goes_on(shared, box):
    r = shared("exec", box, "--", "sh", "-c", "exec <&-; sleep 0.2; echo alive", input=bytes(5_000_000), code=0)
    assert r.out == b"alive\n"


def test_input_is_passed_as_it_comes(shared, box, spawn):
    p = spawn(shared, "exec", box, "--", "sh", "-c", "while read x; do echo got $x; done; echo eof",
              stdin=subprocess.PIPE)
    for word in [b"a", b"b"]:
        p.stdin.write(word + b"\n")
        p.stdin.flush()
        assert p.stdout.readline() == b"got " + word + b"\n"
    p.stdin.close()
    assert p.stdout.readline() == b"eof\n"
    assert p.wait(LIMIT) == 0


def test_t_without_a_terminal_is_an_error(shared, box):
    for flags in (["-t"], ["-it"], ["-t", "-i"]):
        r = shared("exec", *flags, box, "--", "true", code=2)
        assert "terminal" in r.errors and "hint: " in r.errors
    shared("exec", "-T", box, "--", "true", code=0)
    shared("exec", "-t", "-T", box, "--", "true", code=0)


def test_run_on_a_terminal_has_no_input_and_no_pty(abx, terminal):
    t = terminal(abx, "run", "--", "sh", "-c", "test -t 0 || test -t 1 || echo no-tty; cat; echo end")
    t.expect("no-tty")
    t.expect("end")
    assert t.end() == 0
    assert t.is_restored()


def test_input_pasted_into_a_terminal_is_not_eaten(shared, box, terminal):
    t = terminal(shared, "exec", box, "--", "sh", "-c", "cat; echo end")
    t.write("typed\n")
    t.expect("end")
    assert t.end() == 0
    import fcntl
    import struct
    import termios
    waiting = struct.unpack("i", fcntl.ioctl(t.slave, termios.FIONREAD, b"\0" * 4))[0]
    assert waiting == len("typed\n")


def test_i_on_a_terminal_passes_lines(shared, box, terminal):
    t = terminal(shared, "exec", "-i", box, "--", "sh", "-c", "test -t 0 || read x; echo got $x")
    t.write("line\n")
    t.expect("got line")
    assert t.end() == 0


@pytest.mark.parametrize("command", [["bash"], ["python3"], ["/bin/sh"]])
def test_a_bare_interpreter_gets_the_hint(shared, box, terminal, command):
    t = terminal(shared, "exec", box, "--", *command)
    t.expect("-it")
    assert t.end() == 0


def test_no_hint_away_from_a_terminal(shared, box):
    assert shared("exec", box, "--", "bash", code=0).err == b""


def test_shell_reads_a_script(shared, box):
    r = shared("shell", box, input=b"echo hi; exit 5\n", code=5)
    assert r.out == b"hi\n"
