"""Ctrl-C ends ``dplace compare`` and what it has started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.graph_io.cost_graphs.files import diamond, doppler, pipedream, text


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc")
def test_ctrl_c_is_one_line_and_leaves_no_process(tmp_path: Path) -> None:
    contents = {"a.json": text(diamond()), "b.txt": pipedream(), "c.txt": doppler()}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    graphs = [tmp_path / name for name in contents]
    arguments = ("compare", *map(str, graphs), "--cluster", "2xV100")
    arguments = (*arguments, "--machine", "native")
    process = subprocess.Popen(
        [sys.executable, "-m", "dplace", *arguments, "--evaluations", "5000", "--seeds", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children: list[str] = []
    for _ in range(300):
        time.sleep(0.1)
        file = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        children = file.read_text().split() if file.exists() else []
        if len(children) >= 2:
            break
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "dplace: interrupted\n")
    assert children
    for _ in range(100):  # the last of them goes when it sees that this one has gone
        if not any(Path(f"/proc/{child}").exists() for child in children):
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {children}")
