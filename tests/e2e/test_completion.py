"""Completion in the real shells: what is offered comes from the table of verbs and from the ledger, never from a provider."""

import os
import shutil
import subprocess

import pytest

from harness import ABX

BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def env(shared, box):
    shells = shared.environment({"PATH": os.path.dirname(ABX) + ":/usr/bin:/bin"})
    (shared.work / "here.txt").write_text("x")
    (shared.work / "folder").mkdir()
    return shells


def complete(shared, *words):
    r = shared.ok("__complete", "--", *words)
    assert r.err == b""
    return [line.split("\t")[0] for line in r.text.splitlines()]


def bash(shared, env, line, rc=""):
    """What bash would insert for this line with the cursor at its end."""
    script = f"""{rc}
source <(abx completion bash)
COMP_LINE=$1 COMP_POINT=${{#1}} COMP_WORDS=("${{@:2}}") COMP_CWORD=$(($# - 2))
_abx abx "${{COMP_WORDS[COMP_CWORD]}}" ""
((${{#COMPREPLY[@]}})) && printf '%s\\n' "${{COMPREPLY[@]}}"
true"""
    words, word = [], ""
    for c in line:  # as readline cuts
        if c == " ":
            words, word = words + ([word] if word else []), ""
        elif c in ":=":
            words, word = words + ([word] if word and word[-1] not in ":=" else []), c
        else:
            if word in (":", "="):
                words, word = words + [word], ""
            word += c
    words.append(word)
    done = subprocess.run(["bash", "--norc", "--noprofile", "-c", script, "-", line, *words], env=env,
                          cwd=shared.work, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout.splitlines()


def fish(shared, env, line):
    done = subprocess.run(["fish", "--no-config", "-c", 'abx completion fish | source; complete -C "$argv"',
                           line], env=env, cwd=shared.work, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and done.stderr == "", done
    return [x.split("\t")[0] for x in done.stdout.splitlines()]


# --- the words -------------------------------------------------------------------------------------------------


def test_every_verb_and_flag_of_the_schema_is_offered(shared, box):
    schema = shared.ok("schema").json
    first = complete(shared, "")
    common = {"--" + f["name"] for f in schema["globalFlags"]}
    for verb in schema["verbs"]:
        head, *rest = verb["name"].split()
        assert first.count(head) == 1
        for i, word in enumerate(rest, 1):
            assert complete(shared, *verb["name"].split()[:i], "").count(word) == 1
        flags = complete(shared, *verb["name"].split(), "-")
        assert set(flags) == common | {"--" + f["name"] for f in verb["flags"]}, verb["name"]
        for f in verb["flags"] + schema["globalFlags"]:
            if "choices" in f:
                assert complete(shared, *verb["name"].split(), "--" + f["name"], "") == f["choices"]
                assert complete(shared, *verb["name"].split(), f"--{f['name']}={f['choices'][1]}") == [
                    f"--{f['name']}={f['choices'][1]}"]


@pytest.mark.parametrize("words,offered", [
    (["inf"], ["info"]),
    (["config", "se"], ["set"]),
    (["run", "-o", "w"], ["wide"]),
    (["run", "-qo", "n"], ["name"]),
    (["create", "--no-kee"], []),
    (["run", "--no-kee"], ["--no-keep"]),
    (["info", "shared"], ["shared-box"]),
    (["info", "shared-box", "shared"], ["shared-box"]),
    (["exec", "shared"], ["shared-box"]),
    (["exec", "-u", "root", "shared"], ["shared-box"]),
    (["exec", "--user=root", "shared"], ["shared-box"]),
    (["exec", "shared-box", "--", "-"], [":files"]),
    (["extend", "shared-box", ""], []),
    (["cp", "shared"], ["shared-box:", ":files"]),
    (["cp", "here.txt", "shared"], ["shared-box:", ":files"]),
    (["files", "cat", "shared-box:/x"], []),
    (["signal", "shared-box", "p1", "TER"], ["TERM"]),
    (["config", "get", "outp"], ["output"]),
    (["config", "get", "providers.local.id"], ["providers.local.ids"]),
    (["-P", "lo"], ["local"]),
    (["run", "-P", "lo"], ["local"]),
    (["run", "--env-file", ""], [":files"]),
    (["help", "--man", ""], [":folders"]),
    (["provider", "test", "loc"], ["local", ":folders"]),
    (["sync", "shared"], ["shared-box:", ":folders"]),
    (["sync", "folder", "shared"], ["shared-box:", ":folders"]),
    (["template", "add", "x", ""], [":files"]),
    (["nosuchverb", ""], []),
    (["inspect", "shared"], ["shared-box"]),
    ([], []),
], ids=lambda x: " ".join(x) or "-")
def test_what_is_offered(shared, box, words, offered):
    assert complete(shared, *words) == offered


def test_it_makes_and_reaches_nothing(fresh):
    fresh.ok("__complete", "--", "info", "")
    assert not fresh.home.exists()
    assert not fresh.ok("__complete", "--", "info", "", env={"ABX_HOME": "/proc/nosuch"}).err


def test_wrong_shell(shared):
    r = shared("completion", "tcsh", code=2)
    assert "bash" in r.errors and r.out == b""


# --- the shells -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rc", ["", f"source {BASH_COMPLETION}"], ids=["plain", "with-bash-completion"])
def test_bash(shared, env, box, rc):
    assert os.path.exists(BASH_COMPLETION)
    assert bash(shared, env, "abx craet", rc) == []
    assert bash(shared, env, "abx crea", rc) == ["create"]
    assert bash(shared, env, "abx files w", rc) == ["write", "watch"]
    assert bash(shared, env, "abx info shared", rc) == ["shared-box"]
    assert bash(shared, env, "abx run --output=w", rc) == ["wide"]
    assert bash(shared, env, "abx cp shared-b", rc) == ["shared-box:"]
    assert bash(shared, env, "abx cp shared-box:/x shared-b", rc) == ["shared-box:"]
    assert bash(shared, env, "abx cp shared-box:/x", rc) == []


def shell_at(terminal, program, abx, env, setup, *flags):
    """A shell on a terminal, ready for what is typed."""
    t = terminal(abx, *flags, env=env, program=program, cols=100)
    t.write(setup + "; echo rea''dy\n")
    t.expect("ready")
    return t


@pytest.mark.parametrize("rc", ["true", f"source {BASH_COMPLETION}"], ids=["plain", "with-bash-completion"])
def test_bash_on_a_terminal(shared, env, box, terminal, rc):
    t = shell_at(terminal, "/usr/bin/bash", shared, env, f"PS1=; {rc}; source <(abx completion bash)",
                "--norc", "--noprofile", "-i")
    t.write("echo abx; abx inf\tshared-b\t -q\n")
    assert box in t.expect(box + "\r\n").decode()
    t.write("abx cp her\tshared-b\t/work/\n")
    t.write("abx files ls -q shared-b\t/work\n")
    t.expect("here.txt\r\n")


def test_zsh_on_a_terminal(shared, env, box, terminal):
    assert shutil.which("zsh")
    t = shell_at(terminal, "/usr/bin/zsh", shared, env,
                "PS1=; autoload -Uz compinit; compinit -u -D; source <(abx completion zsh)", "-f", "-i")
    t.write("abx inf\tshared-b\t-q\n")
    assert box in t.expect(box + "\r").decode()
    t.write("abx cp her\tshared-b\t/work/zsh.txt && abx files ls -q shared-b\t/work\n")
    t.expect("zsh.txt\r\n")
    t.write("abx run --output=js\t\t")
    t.expect("jsonl")


def test_fish(shared, env, box):
    assert shutil.which("fish")
    assert fish(shared, env, "abx crea") == ["create"]
    assert fish(shared, env, "abx files w") == ["watch", "write"]
    assert fish(shared, env, "abx info shared") == ["shared-box"]
    assert fish(shared, env, "abx run -o w") == ["wide"]
    assert fish(shared, env, "abx run --output=w") == ["--output=wide"]
    assert set(fish(shared, env, "abx cp ")) >= {"shared-box:", "here.txt", "folder/"}
    assert "folder/" in fish(shared, env, "abx help --man ")
    assert "here.txt" not in fish(shared, env, "abx help --man ")
