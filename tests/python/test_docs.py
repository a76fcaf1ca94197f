"""Every Python example of docs/python.md and the readmes runs; `# prints: TEXT` says what comes out."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT, SDK, VENV

PAGES = [ROOT / "docs/python.md", ROOT / "README.md", ROOT / "README.zh-CN.md", SDK / "README.md"]
EXAMPLES = [(page.relative_to(ROOT).as_posix(), n, text) for page in PAGES
            for n, text in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M), 1)]


@pytest.mark.parametrize("page,n,text", EXAMPLES, ids=[f"{page}-{n}" for page, n, _ in EXAMPLES])
def test_example(page, n, text, tmp_path):
    done = subprocess.run([VENV / "bin/python", "-X", "dev", "-W", "error::ResourceWarning", "-c", text], cwd=tmp_path, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and "ResourceWarning" not in done.stdout, done.stdout
    for wanted in re.findall(r"^# prints: (.*)$", text, re.M):
        assert wanted in done.stdout, done.stdout


def test_there_are_examples():
    assert len(EXAMPLES) >= 12 and sys.version_info >= (3, 9)
