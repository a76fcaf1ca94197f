"""Every example in the documentation runs: each ```sh block of a page, in its order, in one shell, with a home
and a working directory of its own. `# prints: TEXT` says that the block's output holds TEXT; `<!-- file: NAME -->` above a
block of another language makes it a file that lies there for the next ```sh block. A block of lines that
begin with `scripts/` is not run (it would run this suite): its programs must exist and be executable."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ABX_BUILD", ROOT / "build" / "release"))
PAGES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))


FENCE = r"^(?:<!-- file: (\S+) -->\n)?```(\w*)\n(.*?)^```"


def blocks(page):
    """The sh blocks; what stands before one as the text of a file is written first."""
    found, files = [], []
    for name, language, text in re.findall(FENCE, page.read_text(encoding="utf-8"), re.S | re.M):
        if name:
            files.append(f"mkdir -p $(dirname {name})\ncat > {name} << 'END_OF_FILE'\n{text}END_OF_FILE\n")
        elif language == "sh":
            found.append("".join(files) + text)
            files = []
    return found


EXAMPLES = [(page, n, block) for page in PAGES for n, block in enumerate(blocks(page), 1)]


def is_script_list(block):
    lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
    return all(re.match(r"(sudo )?scripts/|cmake |ctest |git ", line) for line in lines)


@pytest.mark.parametrize(
    "page,n,block", EXAMPLES, ids=[f"{p.relative_to(ROOT)}-{n}" for p, n, _ in EXAMPLES]
)
def test_example(page, n, block, tmp_path):
    if is_script_list(block):
        for program in re.findall(r"scripts/[\w.-]+", block):
            assert os.access(ROOT / program, os.X_OK), program
        return
    home = tmp_path / "home"
    work = tmp_path / "work"
    home.mkdir(mode=0o700)
    work.mkdir()
    env = {
        "PATH": f"{BUILD}:{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "ABX_HOME": str(home / ".abx"),
        "PKG_CONFIG_PATH": str(BUILD),
        "LD_LIBRARY_PATH": str(BUILD),
    }
    try:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block],
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        for text in re.findall(r"^# prints: (.*)$", block, re.M):
            assert text in done.stdout + done.stderr
    finally:
        subprocess.run([BUILD / "abx", "-P", "local", "kill", "--all", "--yes"], env=env,
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=60)


def test_both_readmes_have_the_same_examples():
    english = blocks(ROOT / "README.md")
    chinese = blocks(ROOT / "README.zh-CN.md")
    assert english == chinese
