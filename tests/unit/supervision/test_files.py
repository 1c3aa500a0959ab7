"""Files of a home are their owner's alone."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, pathlib
from penstock.supervision.files import keep_private
keep_private()
folder = pathlib.Path(sys.argv[1]) / "spool"
folder.mkdir()
(folder / "rows").write_text("x")
"""


def test_what_a_process_writes_is_private(tmp_path: Path) -> None:
    """Finding 17: folders are 0700 and files 0600, whoever forgets to say so."""
    subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], check=True)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*")}
    assert modes == {"spool": "0o700", "rows": "0o600"}
