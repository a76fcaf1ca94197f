"""What goes wrong around a program: interrupts, forks, ends, programs of providers that die."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import BUILD, SITE, TEMPORARY, VENV
from wait import running, wait_for

from agent_sandbox import ProviderCrashedError, Sandbox


def start(text, *args, **env):
    """A program of its own that uses the package."""
    return subprocess.Popen([VENV / "bin/python", "-X", "faulthandler", "-c", textwrap.dedent(text), *args], env={**os.environ, **env},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end_of(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize("face", ["sync", "async"])
def test_keyboard_interrupt(sandbox, face):
    mark = f"71{len(face)}0"
    process = start(f"""
        import asyncio, sys, threading
        from agent_sandbox import AsyncSandbox, Sandbox
        def wait_in_a_thread(sandbox):  # so that the main thread may not be the one that drives
            sandbox.commands.run("sleep 1")
        try:
            if "{face}" == "sync":
                sandbox = Sandbox.connect(sys.argv[1])
                threading.Thread(target=wait_in_a_thread, args=(sandbox,), daemon=True).start()
                sandbox.commands.run(["sleep", "{mark}"])
            else:
                async def main():
                    sandbox = await AsyncSandbox.connect(sys.argv[1])
                    await sandbox.commands.run(["sleep", "{mark}"])
                asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted")
        """, sandbox.id)
    wait_for(lambda: running(sandbox, f"sleep {mark}"))
    process.send_signal(signal.SIGINT)
    code, out, err = end_of(process)
    assert (code, out) == (0, "interrupted\n"), err
    wait_for(lambda: not running(sandbox, f"sleep {mark}"))


@pytest.mark.parametrize("how", ["end", "exit", "kill"])
def test_a_program_that_ends(sandbox, how):
    process = start("""
        import os, signal, sys, threading
        from agent_sandbox import Sandbox
        sandbox = Sandbox.connect(sys.argv[1])
        a = sandbox.commands.start(["sleep", "7201"])
        b = sandbox.commands.start("yes", stdin=True)
        next(iter(b))
        threading.Thread(target=lambda: a.wait(), daemon=True).start()
        reader = sandbox.files.read("/dev/zero", "stream")
        lives = sandbox.commands.run(["sleep", "7202"], background=True)
        print("there", flush=True)
        if sys.argv[2] == "exit":
            sys.exit(3)
        if sys.argv[2] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        """, sandbox.id, how)
    code, out, err = end_of(process)
    assert (code, out) == ({"end": 0, "exit": 3, "kill": -9}[how], "there\n"), err
    assert "Fatal" not in err and "Traceback" not in err, err
    wait_for(lambda: not running(sandbox, "sleep 7201") and not running(sandbox, "yes "))
    assert running(sandbox, "sleep 7202")
    sandbox.commands.run("kill $(pidof -s sleep 2>/dev/null || grep -l 7202 /proc/[0-9]*/cmdline | cut -d/ -f3)")


def test_loop_that_ends_with_open_streams(sandbox):
    process = start("""
        import asyncio, sys
        from agent_sandbox import AsyncSandbox
        kept = []
        async def main():
            sandbox = await AsyncSandbox.connect(sys.argv[1])
            kept.append(await sandbox.commands.start(["sleep", "7203"]))
            kept.append(asyncio.ensure_future(sandbox.commands.run(["sleep", "7204"])))
            await asyncio.sleep(0.3)
        asyncio.run(main())
        print("done", flush=True)
        """, sandbox.id)
    code, out, err = end_of(process)
    assert (code, out) == (0, "done\n") and "Fatal" not in err, err
    wait_for(lambda: not running(sandbox, "sleep 7203") and not running(sandbox, "sleep 7204"))


def test_fork(sandbox):
    process = start("""
        import os, sys, threading
        from agent_sandbox import Sandbox
        with Sandbox.create(provider="local") as mine:
            command = mine.commands.start("echo from the parent; sleep 0.5; echo on")
            first = next(iter(command))
            stop = threading.Event()
            def busy():
                while not stop.is_set():
                    mine.commands.run(["true"])
            thread = threading.Thread(target=busy)
            thread.start()
            for n in range(5):
                pid = os.fork()
                if pid == 0:
                    try:
                        assert mine.commands.run(["echo", str(n)]).stdout == f"{n}\\n"
                        try:
                            next(command)
                            os._exit(2)
                        except RuntimeError:
                            pass
                        command.close()
                        sys.exit(0)  # with all that is done at an exit; the sandbox is the parent's
                    except SystemExit:
                        mine.__exit__(None, None, None)
                        os._exit(0)
                    except BaseException as e:
                        print(repr(e), file=sys.stderr, flush=True)
                        os._exit(1)
                assert os.waitpid(pid, 0)[1] == 0
            stop.set()
            thread.join()
            print(first.text + command.wait().stdout, end="")
        """)
    code, out, err = end_of(process)
    assert (code, out) == (0, "from the parent\non\n"), err


def test_multiprocessing(sandbox):
    process = start("""
        import multiprocessing, sys
        from agent_sandbox import Sandbox, FileNotFoundError
        def work(n):
            with Sandbox.connect(sys.argv[1]) as sandbox:
                if n == 3:
                    sandbox.files.read("/no/such")  # the exception travels
                return sandbox.commands.run(["echo", str(n)]).stdout
        if __name__ == "__main__":
            Sandbox.connect(sys.argv[1]).commands.run(["true"])
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(work, range(3)))
                try:
                    pool.map(work, [3])
                except FileNotFoundError as e:
                    print(e.code, e.retryable)
        """, sandbox.id)
    code, out, err = end_of(process)
    assert (code, out) == (0, "['0\\n', '1\\n', '2\\n']\nE3002 False\n"), err


def test_a_program_of_a_provider_that_dies():
    folder = TEMPORARY / "dies"
    subprocess.run([BUILD / "abx", "provider", "new", "dies", "--lang", "python", "--dir", str(folder)], check=True, stdout=subprocess.DEVNULL)
    with Sandbox.create(provider=str(folder)) as mine:
        with mine.commands.start("echo $PPID; sleep 30") as command:
            program = int(next(iter(command)).text)
            os.kill(program, signal.SIGKILL)
            with pytest.raises(ProviderCrashedError) as died:
                command.wait()
            assert died.value.code == "E8005"
        # the next call gets a fresh one, which knows sandboxes of the old one or says that it does not
        assert Sandbox.list(provider=str(folder)) is not None


def test_the_kernel_runs_out_of_descriptors():
    process = start("""
        import resource
        from agent_sandbox import Sandbox, SandboxError
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
        try:
            Sandbox.create(provider="local")
        except (SandboxError, OSError) as e:
            print("told")
        """)
    code, out, err = end_of(process)
    assert (code, out) == (0, "told\n"), err


def test_nothing_is_printed_and_no_signal_is_taken():
    process = start("""
        import signal
        from agent_sandbox import Sandbox
        before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)}
        with Sandbox.create(provider="local") as sandbox:
            sandbox.commands.run(["true"])
        assert before == {n: signal.getsignal(n) for n in before}
        """)
    assert end_of(process) == (0, "", "")
    assert str(SITE).startswith(str(TEMPORARY)) and sys.version_info and time


USED_BY_DAEMONS = """
    import asyncio, sys, threading, time
    from agent_sandbox import AsyncSandbox, Sandbox
    sandbox = Sandbox.connect(sys.argv[1])
    busy = threading.Semaphore(0)
    def again_and_again():
        while True:
            sandbox.commands.run("echo x; echo y >&2")
            busy.release()
    def to_the_end():
        busy.release()
        sandbox.commands.run(["sleep", "7205"])
    def in_time():
        command = sandbox.commands.start(["sleep", "7205"])
        while True:
            try:
                command.wait(timeout=0.01)
            except TimeoutError:
                busy.release()
    def streams():
        for piece in sandbox.commands.start(["yes"]):
            busy.release()
    def writes():
        def without_end():
            while True:
                yield b"x" * 65536
                busy.release()
        sandbox.files.write("/dev/null", without_end())
    def of_asyncio():
        async def main():
            mine = await AsyncSandbox.connect(sandbox.id)
            async def again():
                while True:
                    await mine.commands.run("echo x")
                    busy.release()
            await asyncio.gather(again(), again(), mine.commands.run(["sleep", "7205"]))
        asyncio.run(main())
    for work in (again_and_again, to_the_end, in_time, streams, writes, of_asyncio):
        threading.Thread(target=work, daemon=True).start()
    for n in range(10 + int(sys.argv[2])):
        busy.acquire()
    print("end", flush=True)
    """


def test_daemon_threads_at_the_end_of_the_program(sandbox):
    for first in range(0, 20, 4):
        processes = [start(USED_BY_DAEMONS, sandbox.id, str(5 * n)) for n in range(first, first + 4)]
        for process in processes:
            assert end_of(process) == (0, "end\n", "")
    wait_for(lambda: not running(sandbox, "sleep 7205"))
