"""JupyterLab in a workspace: here, on another machine over ssh, or inside a JupyterHub that runs already.

here             a server on this machine; the browser opens by itself
over ssh         a server on this machine, and the two lines to type on one's own:  ssh -N -L …  and the address
on a JupyterHub  no second server: a kernel for the one that runs, and the address to open in it
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from prep_lib.workspace import transport, write_kernel

#: Where a person begins.
FIRST = "notebooks/00_tour.ipynb"

#: Ports tried one after the other, as JupyterLab does.
PORTS = range(8888, 8938)


@dataclass(frozen=True)
class Way:
    """How a person gets at a workspace.

    Parameters
    ----------
    lines : tuple of str
        What to tell before anything starts.
    command : tuple of str
        Starts the server; empty where one runs already.
    environment : dict
        What the server needs beside the command; a token stands here, where other users of the machine do not see it.
    """

    lines: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None


def way(folder: Path, more: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> Way:
    """Find out where this process stands, and how its user gets at a workspace from there.

    Parameters
    ----------
    folder : Path
        The workspace, absolute.
    more : sequence of str
        Options of JupyterLab, handed on; they count more than ours.
    environ : mapping or None
        None: of this process.
    """
    known = os.environ if environ is None else environ
    if "JUPYTERHUB_SERVICE_PREFIX" in known:
        return _hub(folder, known)
    # -P: a file of the workspace must not stand in for a module of JupyterLab's that it shares its name with.
    start = (sys.executable, "-P", "-m", "jupyterlab")
    options = [f"--ServerApp.root_dir={folder}", f"--KernelManager.transport={transport(_runtime(known))}"]
    options += [f"--LabApp.default_url=/lab/tree/{FIRST}"] if (folder / FIRST).is_file() else []
    asked = {"JUPYTER_PATH": str(write_kernel(folder / ".prep" / "jupyter"))}
    # Who says where the server listens knows how to get there.
    if "SSH_CONNECTION" not in known or any("port" in option or "ip=" in option for option in more):
        return Way((), (*start, *options, *more), asked)
    port, token = _free_port(), secrets.token_urlsafe(24)
    options += ["--no-browser", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command = (*start, *options, *more)
    return Way(_ssh(folder, known, port, token), command, {**asked, "JUPYTER_TOKEN": token})


def _ssh(folder: Path, known: Mapping[str, str], port: int, token: str) -> tuple[str, ...]:
    here = known["SSH_CONNECTION"].split()[2:3] or [socket.gethostname()]
    place = f"/lab/tree/{FIRST}" if (folder / FIRST).is_file() else "/lab"
    return (
        "over ssh: in a terminal of your own machine type",
        f"  ssh -N -L {port}:localhost:{port} {getpass.getuser()}@{here[0]}",
        f"and open  http://localhost:{port}{place}?token={token}",
    )


def _hub(folder: Path, known: Mapping[str, str]) -> Way:
    from jupyter_core.paths import jupyter_data_dir

    # Under a name of its own: the "python3" of a hub belongs to all the other notebooks of this user.
    write_kernel(jupyter_data_dir(), "prep-workbench")
    root, prefix = Path(known.get("JUPYTER_SERVER_ROOT") or Path.home()), known["JUPYTERHUB_SERVICE_PREFIX"]
    first = folder / FIRST if (folder / FIRST).is_file() else folder
    if first.is_relative_to(root):
        place = f"{prefix.rstrip('/')}/lab/tree/{quote(first.relative_to(root).as_posix())}"
        there = f"open      {place}  on your hub's address"
    else:
        there = f"move the workspace below {root}, which is all that this server shows, or link it there"
    return Way(
        ("JupyterHub: its server runs already, so none is started", there, "kernel    Python 3 (Prep Workbench)")
    )


def _runtime(known: Mapping[str, str]) -> str:
    from jupyter_core.paths import jupyter_runtime_dir

    return known.get("JUPYTER_RUNTIME_DIR") or jupyter_runtime_dir()


def _free_port() -> int:
    """Return the first port nobody listens on; the last one if there is none, and JupyterLab says what is wrong."""
    for port in PORTS:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)):
                return port
    return PORTS[-1]
