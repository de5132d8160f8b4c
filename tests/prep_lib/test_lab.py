"""However a machine is reached, its user is told how to open the workspace."""

from __future__ import annotations

import getpass
import json
import socket
import sys

import pytest

from prep_lib import lab
from prep_lib.lab import FIRST, way


@pytest.fixture(name="ws")
def _ws(tmp_path):
    (tmp_path / "my work" / "notebooks").mkdir(parents=True)
    (tmp_path / "my work" / FIRST).write_text("{}")
    return tmp_path / "my work"


def test_here_the_browser_opens_the_first_notebook_and_nothing_needs_to_be_told(ws):
    found = way(ws, ["--debug"], {})
    assert found.lines == ()
    assert found.command[:4] == (sys.executable, "-P", "-m", "jupyterlab")
    assert f"--LabApp.default_url=/lab/tree/{FIRST}" in found.command
    assert found.command[-1] == "--debug"
    assert "--no-browser" not in found.command


@pytest.mark.parametrize(("runtime", "how"), [("/run/user/1000", "ipc"), ("/gpfs/" + "a" * 80, "tcp")])
def test_a_long_path_to_the_home_folder_does_not_leave_kernels_unheard(ws, runtime, how):
    """A socket behind a path of more than a hundred bytes is never reached, and nothing says why."""
    assert f"--KernelManager.transport={how}" in way(ws, [], {"JUPYTER_RUNTIME_DIR": runtime}).command


def test_over_ssh_two_lines_lead_there_and_no_other_user_sees_the_token(ws):
    found = way(ws, [], {"SSH_CONNECTION": "10.0.0.9 50022 10.0.0.5 22"})
    token = found.environment["JUPYTER_TOKEN"]
    port = next(option for option in found.command if option.startswith("--ServerApp.port=")).partition("=")[2]
    assert found.lines[1].split() == ["ssh", "-N", "-L", f"{port}:localhost:{port}", f"{getpass.getuser()}@10.0.0.5"]
    assert found.lines[2].endswith(f"http://localhost:{port}/lab/tree/{FIRST}?token={token}")
    assert len(token) > 20
    assert token not in " ".join(found.command)
    assert "--no-browser" in found.command


def test_a_port_in_use_is_passed_over_and_one_that_is_asked_for_is_left_alone(ws, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first = taken.getsockname()[1]
        monkeypatch.setattr(lab, "PORTS", [first, first + 1])
        found = way(ws, [], {"SSH_CONNECTION": "a 1 b 22"})
    assert f"--ServerApp.port={first + 1}" in found.command
    found = way(ws, ["--port=9999"], {"SSH_CONNECTION": "a 1 b 22"})
    assert (found.lines, found.command[-1]) == ((), "--port=9999")


@pytest.mark.parametrize("below", [True, False])
def test_on_a_hub_no_second_server_starts_and_the_kernel_is_there(ws, tmp_path, monkeypatch, below):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    root = tmp_path if below else tmp_path / "elsewhere"
    found = way(ws, [], {"JUPYTERHUB_SERVICE_PREFIX": "/user/ann/", "JUPYTER_SERVER_ROOT": str(root)})
    assert found.command == ()
    kernel = json.loads((tmp_path / "data/kernels/prep-workbench/kernel.json").read_text())
    assert kernel["argv"][0] == sys.executable
    place = f"/user/ann/lab/tree/my%20work/{FIRST}"
    assert (place in found.lines[1]) == below
    assert ("move the workspace below" in found.lines[1]) != below
