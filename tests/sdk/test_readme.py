"""The first examples of the packages' own front pages, word for word, after the lines that `abx e2b env` prints."""

import re
import subprocess

import pytest

from door import CLIENTS, LIMIT, PYTHON


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


def python_example(client, package, n):
    page = next((CLIENTS / client).glob(f"{package}-[0-9]*.dist-info/METADATA"))
    return blocks(page, "py(?:thon)?")[n]


def js_example(client, package, n):
    return blocks(CLIENTS / client / "node_modules" / package / "README.md", "(?:ts|js)")[n]


def first_with(find, client, package, word):
    """The first example that holds the word."""
    for n in range(20):
        try:
            text = find(client, package, n)
        except IndexError:
            break
        if word in text:
            return text
    raise AssertionError(f"no example of {package} has '{word}'")


def run(door, tmp_path, name, text, words, **more):
    (tmp_path / name).write_text(text)
    lines = door.lines.strip()
    script = f"{lines}\nexec {' '.join(words)} {name}\n"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env={**door.base, **more}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("package,word,printed", [("e2b", "commands.run", "Hello from E2B!\n"),
                                                  ("e2b", "run_code", "2\n"), ("e2b_code_interpreter", "run_code", "2\n")])
def test_python(door, tmp_path, package, word, printed):
    text = first_with(python_example, "python-new", package, word)
    assert printed.strip() in run(door, tmp_path, "example.py", text, [PYTHON], PYTHONPATH=str(CLIENTS / "python-new"))


@pytest.mark.parametrize("package,word,printed", [("e2b", "commands.run", "Hello from E2B!\n"), ("e2b", "runCode", "2\n"),
                                                  ("@e2b/code-interpreter", "runCode", "2\n")])
def test_javascript(door, tmp_path, package, word, printed):
    text = first_with(js_example, "js-new", package, word)
    (tmp_path / "node_modules").symlink_to(CLIENTS / "js-new/node_modules")
    assert printed.strip() in run(door, tmp_path, "example.mjs", text, ["node"])
