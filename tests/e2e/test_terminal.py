"""shell, exec -it and run -it on a real terminal."""

import signal
import time

import pytest

from harness import prompt, wait_for, with_marker


@pytest.fixture
def shell(shared, box, terminal):
    t = terminal(shared, "shell", box)
    prompt(t)
    return t


def test_a_shell_echoes_and_returns_its_code(shared, box, terminal):
    t = terminal(shared, "shell", box)
    t.write("echo typ''ed; exit 7\n")
    t.expect("echo typ''ed")  # the terminal inside echoes
    t.expect("typed")
    assert t.end() == 7
    assert t.is_restored()


def test_it_is_a_terminal_with_our_size(shell):
    shell.write("stty size; tty; test -t 0 && test -t 1 && test -t 2 && echo all\n")
    shell.expect("24 80")
    shell.expect("/dev/pts/")
    shell.expect("all")
    assert shell.is_raw()


def test_a_resize_arrives(shell):
    shell.resize(40, 132)
    shell.write("sleep 0.3; stty size\n")
    shell.expect("40 132")


def test_ctrl_c_goes_through_as_a_byte(shell):
    shell.write("sh -c 'trap \"echo trapped\" INT; echo wait; sleep 1000; echo after'\n")
    shell.expect("wait\r\n")
    time.sleep(0.2)
    shell.write(b"\x03")
    shell.expect("trapped")
    shell.write("echo alive\n")
    shell.expect("alive")


def test_ctrl_d_ends_it(shell):
    shell.write(b"\x04")
    assert shell.end() == 0
    assert shell.is_restored()


def test_exec_it(shared, box, terminal):
    t = terminal(shared, "exec", "-it", box, "--", "python3", "-c",
                 "import sys,os; print(os.isatty(0), os.get_terminal_size()); x=input('name? '); print('hi '+x); "
                 "sys.exit(5)", rows=30, cols=100)
    t.expect("True")
    t.expect("columns=100, lines=30")
    t.expect("name? ")
    t.write("bob\r")
    t.expect("hi bob")
    assert t.end() == 5
    assert t.is_restored()


def test_run_it_removes_the_sandbox(abx, terminal):
    t = terminal(abx, "run", "-it", "--", "sh", "-c", "tty; read x; echo got $x; exit 3")
    t.expect("/dev/pts/")
    t.write("word\r")
    t.expect("got word")
    assert t.end() == 3
    assert abx.sandboxes() == []
    assert t.is_restored()


def test_exec_t_without_input(shared, box, terminal):
    t = terminal(shared, "exec", "-t", box, "--", "sh", "-c", "tty; stty size")
    t.expect("/dev/pts/")
    t.expect("24 80")
    assert t.end() == 0
    assert t.is_restored()


def test_term_is_passed_on(shared, box, terminal):
    t = terminal(shared, "exec", "-it", box, "--", "sh", "-c", "echo T=$TERM C=$COLORTERM.",
                 env={"TERM": "screen-256color", "COLORTERM": "truecolor"})
    t.expect("T=screen-256color C=truecolor.")
    assert t.end() == 0


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda s: s.name)
def test_the_terminal_is_restored_after_a_signal(shared, box, terminal, sig):
    marker = f"0.0471{sig.value}"
    t = terminal(shared, "exec", "-it", box, "--", "sh", "-c", f"echo up; exec sleep 1000 {marker}")
    t.expect("up")
    wait_for(t.is_raw)
    t.process.send_signal(sig)
    assert t.end() in (128 + sig, -sig)
    assert t.is_restored()
    wait_for(lambda: not with_marker(marker), "the command is gone")


def test_the_terminal_is_restored_when_the_sandbox_dies(abx, terminal):
    a = abx.create()
    t = terminal(abx, "shell", a)
    t.write("echo u''p\n")
    t.expect("up")
    abx.ok("kill", a)
    assert t.end() == 125
    assert t.is_restored()


def test_a_killed_program_ends_its_terminal_inside(shared, box, terminal):
    marker = "ptykill9"
    t = terminal(shared, "exec", "-it", box, "--", "sh", "-c", f": {marker}; echo up; sleep 1000")
    t.expect("up")
    t.process.kill()
    t.end()
    wait_for(lambda: not with_marker(marker), "the command is gone")


def test_much_output_through_the_terminal(shared, box, terminal):
    t = terminal(shared, "exec", "-it", box, "--", "sh", "-c", "seq 1 30000; echo THE-END")
    out = t.expect("THE-END", seconds=60)
    numbers = [int(x) for x in out.split() if x.isdigit()]
    assert numbers == list(range(1, 30001))
    assert t.end() == 0


def test_pasted_input_is_whole(shared, box, terminal):
    t = terminal(shared, "exec", "-it", box, "--", "sh", "-c", "stty -echo; echo go; head -c 60000 | md5sum")
    t.expect("go")
    text = (b"x" * 99 + b"\n") * 600
    import hashlib
    for i in range(0, len(text), 1000):
        t.write(text[i:i + 1000])
        t.read(0)
    t.expect(hashlib.md5(text).hexdigest(), seconds=30)
    assert t.end() == 0


def test_no_tty_shell_on_a_terminal(shared, box, terminal):
    t = terminal(shared, "shell", "-T", box)
    t.write("test -t 0 || echo no-tt''y; exit 2\n")
    t.expect("no-tty")
    assert t.end() == 2


def test_shell_works_as_root_and_in_a_folder(shared, box, terminal):
    t = terminal(shared, "shell", "-u", "root", "-w", "/tmp", box)
    t.write("echo U$(id -u) $PWD; exit\n")
    t.expect("U0 /tmp")
    t.end()


def test_create_on_a_terminal_gives_one_hint(abx, terminal):
    t = terminal(abx, "create")
    t.expect("abx exec")
    assert t.end() == 0
    q = terminal(abx, "create", "-q")
    assert q.end() == 0
    assert b"abx" not in q.seen


def test_a_question_is_asked_on_a_terminal(abx, terminal):
    a = abx.create()
    t = terminal(abx, "kill", "--all")
    t.expect("[y/N] ")
    t.write("n\n")
    assert t.end() != 0
    assert abx.sandboxes() == [a]
    t = terminal(abx, "kill", "--all")
    t.expect("[y/N] ")
    t.write("y\n")
    assert t.end() == 0
    assert abx.sandboxes() == []


def test_no_question_when_ci_or_no_input_is_set(abx, terminal):
    abx.create()
    for args, env in [(["kill", "--all", "--no-input"], {}), (["kill", "--all"], {"CI": "1"}),
                      (["kill", "--all"], {"ABX_NO_INPUT": "1"})]:
        t = terminal(abx, *args, env=env)
        assert t.end() == 2
