"""The code of a page, run as a reader would type it.

Fences of Python run one after the other in one namespace, in an empty directory.
Lines of a shell fence that begin with ``molrec`` go through the command line. A fence
of text right below one of code is what that code prints.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

from molrec_core.cli import _parser, main

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def page(name):
    """Return the text of a page of ``docs``, or of the README."""
    path = ROOT / name if name == "README.md" else ROOT / "docs" / name
    return path.read_text(encoding="utf-8")


def fences(name):
    """Yield language, body and line of every fence of a page, and whether it stands right below the one before."""
    text = page(name)
    end = 0
    for found in FENCE.finditer(text):
        yield (
            found[1],
            found[2],
            text.count("\n", 0, found.start()) + 1,
            not text[end : found.start()].strip(),
        )
        end = found.end()


def commands(body):
    """Yield the ``molrec`` commands of a shell fence as words; a comment may follow each."""
    for line in body.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "molrec":
            yield words[1:]


def run_page(name, namespace=None, *, wanted=lambda body: True):
    """Run the fences of a page in the working directory; return the namespace and how many ran.

    Parameters
    ----------
    namespace : dict, optional
        What the page takes for granted.
    wanted : callable, optional
        Told the body of each fence of Python; one that is not wanted is left out.
    """
    names = {"__name__": "page"} | (namespace or {})
    ran = 0
    printed = None
    for language, body, line, below in fences(name):
        if language == "text" and below and printed is not None:
            assert printed == body, f"{name}, line {line}: the code above prints\n{printed}"
        printed = None
        if language == "python" and wanted(body):
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile("\n" * line + body, name, "exec"), names)
            ran += 1
            printed = output.getvalue()
        elif language == "sh":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                done = [_command(words, f"{name}, line {line}") for words in commands(body)]
            printed = output.getvalue() if done and all(done) else None
    return names, ran


def _command(words, place):
    """Run a command whose first file is there, else see that it is spelled right; return whether it ran."""
    given = next((word for word in words[1:] if not word.startswith("-")), "")
    if not given or not Path(given).exists():
        _parser(words).parse_args(words)
        return False
    assert main(words) == 0, f"{place}: molrec {' '.join(words)}"
    return True
