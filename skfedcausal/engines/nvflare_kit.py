"""Setting up NVIDIA FLARE for this library: certificates, what sites allow, jobs without code."""

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from ..federation.atomic import write_whole
from ..sites.server_settings import read_server_settings

_CONTROLLER = "skfedcausal.engines.nvflare.ServerController"
_EXECUTOR = "skfedcausal.engines.nvflare.SiteExecutor"
ADMIN = "admin@skfedcausal.local"

# without these two the engine keeps a timer thread per message for more than a minute
_COMMUNICATION = {"format_version": 2, "streaming_retry_timeout": 5.0, "streaming_retry_wait": 1.0}
_RIGHTS = {
    "format_version": "1.0",
    "permissions": {
        "project_admin": {
            "submit_job": "any",
            "clone_job": "none",
            "manage_job": "any",
            "download_job": "any",
            "view": "any",
            "operate": "any",
            "shell_commands": "none",
            "byoc": "none",
        }
    },
}


def provision(units, folder, *, server="localhost", port=8002):
    """Make certificates and start-up kits of a server, its sites and one administrator.

    Everything is made on this machine: bring each kit to its owner by a way that you trust, and delete it
    here.
    Every kit is hardened (:func:`harden`).

    Parameters
    ----------
    units : sequence of str
        Names of the sites; letters, digits, ``-`` and ``_``.
    folder : str or Path
    server : str, default="localhost"
        Name under which sites reach the server. With "localhost" it listens on this machine only.
    port : int, default=8002

    Returns
    -------
    dict of str to Path
        Kit of every site by name, of the ``server`` and of the ``admin``.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    project = {
        "api_version": 3,
        "name": "skfedcausal",
        "description": "skfedcausal",
        "participants": [
            {"name": server, "type": "server", "org": "plant", "fed_learn_port": port, "admin_port": port},
            *({"name": name, "type": "client", "org": "plant"} for name in units),
            {"name": ADMIN, "type": "admin", "org": "plant", "role": "project_admin"},
        ],
        "builders": [
            {
                "path": "nvflare.lighter.impl.workspace.WorkspaceBuilder",
                "args": {"template_file": ["master_template.yml"]},
            },
            {
                "path": "nvflare.lighter.impl.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": "tcp"},
            },
            {"path": "nvflare.lighter.impl.cert.CertBuilder"},
            {"path": "nvflare.lighter.impl.signature.SignatureBuilder"},
        ],
    }
    path = folder / "project.yml"
    write_whole(path, json.dumps(project, indent=1).encode())  # JSON is YAML
    command = [sys.executable, "-m", "nvflare.cli", "provision", "-p", str(path), "-w", str(folder / "kits")]
    subprocess.run(command, check=True, capture_output=True, env=environment())
    kits = sorted((folder / "kits" / "skfedcausal").glob("prod_*"))[-1]
    found = {name: kits / name for name in units} | {"server": kits / server, "admin": kits / ADMIN}
    for name in (*units, "server"):
        harden(found[name])
    return found


def harden(kit):
    """Allow the two classes of this library in a kit, and nothing that a job brings; no logs leave.

    Parameters
    ----------
    kit : str or Path
        Start-up kit of a server or a site.
    """
    local = Path(kit) / "local"
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_allow_list"] = [_CONTROLLER, _EXECUTOR]
    resources["allow_log_streaming"] = False
    text = json.dumps(resources, indent=1)
    for name in ("jobs-storage", "snapshot-storage"):  # not in a folder that anybody can write to
        text = text.replace(f"/tmp/nvflare/{name}", str(Path(kit).resolve() / name))
    write_whole(local / "resources.json", text.encode())
    write_whole(local / "comm_config.json", json.dumps(_COMMUNICATION).encode())
    write_whole(local / "authorization.json", json.dumps(_RIGHTS, indent=1).encode())


def environment():
    """Environment for the engine's processes: their scripts find this Python."""
    own = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{own}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def start(kit, **more):
    """Start the engine of a kit in the foreground of a process of its own.

    Parameters
    ----------
    kit : str or Path
    **more : str
        Further variables of its environment.

    Returns
    -------
    subprocess.Popen
    """
    script = Path(kit) / "startup" / "sub_start.sh"
    log = open(Path(kit) / "engine.log", "ab")  # noqa: SIM115  kept open by the process
    with log:
        return subprocess.Popen(
            ["bash", str(script), "--once"], stdout=log, stderr=subprocess.STDOUT, env=environment() | more
        )


def job_folder(settings, folder, *, journal=None, patience=60.0):
    """Write a job that holds the settings of a run, and no code.

    Parameters
    ----------
    settings : ServerSettings
    folder : str or Path
    journal : str or Path, default=None
        Folder on the server's machine for the answers of the run, so that it can be resumed.
    patience : float, default=60.0

    Returns
    -------
    Path
    """
    folder = Path(folder)
    lost = settings.lost_units
    fewest = len(settings.units) if lost is None else lost.needed(len(settings.units))
    args = settings.to_args()
    args.pop("folder", None)
    args.pop("keys", None)
    args.pop("out", None)
    if journal is not None:
        args["out"] = str(Path(journal).absolute())
    meta = {
        "name": settings.run,
        "resource_spec": {},
        "min_clients": fewest,
        "deploy_map": {"app": ["@ALL"]},
    }
    server = {"id": "fit", "path": _CONTROLLER, "args": {"settings": args, "patience": patience}}
    site = {"tasks": ["skfedcausal"], "executor": {"path": _EXECUTOR, "args": {}}}
    files = {
        "meta.json": meta,
        "app/config/config_fed_server.json": {"format_version": 2, "workflows": [server], "components": []},
        "app/config/config_fed_client.json": {"format_version": 2, "executors": [site], "components": []},
    }
    for name, content in files.items():
        write_whole(folder / name, json.dumps(content, indent=1).encode())
    return folder


def session(admin, patience=30.0):
    """Signed-in session of the administrator.

    Parameters
    ----------
    admin : str or Path
        Kit.
    patience : float
        Seconds to try, for a server that is just starting.
    """
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    end = time.monotonic() + patience
    while True:
        try:
            return new_secure_session(ADMIN, str(admin))
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def submit(settings_path, admin, out, *, journal=None, attempts=1):
    """Run the fit of a settings file on the engine and fetch the results.

    Parameters
    ----------
    settings_path : str or Path
        With a section ``[server]``.
    admin : str or Path
        The administrator's kit.
    out : str or Path
        Folder for the results.
    journal : str or Path, default=None
    attempts : int, default=1
        Jobs to try. With a `journal` every one goes on where the one before it was: a site whose process
        ended cannot come back to a running job, but takes part in the next one.

    Returns
    -------
    dict
        The summary of the run.

    Raises
    ------
    RuntimeError
        If the job ended without a result.
    """
    settings = read_server_settings(settings_path)
    out = Path(out).resolve()  # the engine looks for relative paths in its own folders
    with_session = session(Path(admin).resolve())
    try:
        for attempt in range(1, attempts + 1):
            job = job_folder(settings, out / f"job-{secrets.token_hex(4)}", journal=journal)
            try:
                return fetch(with_session, with_session.submit_job(str(job)), out)
            except RuntimeError:
                if attempt == attempts:
                    raise
    finally:
        with_session.close()


def stop(admin):
    """End the engine at the server and at all sites, which ends what :func:`start` started.

    Parameters
    ----------
    admin : str or Path
        Kit.
    """
    with_session = session(Path(admin).resolve())
    try:
        with_session.shutdown("all")
    finally:
        with_session.close()


def fetch(with_session, job, out):
    """Wait for a job and fetch its results; the summary."""
    with_session.monitor_job(job, poll_interval=0.5)
    result = Path(with_session.download_job_result(job))
    failed = list(result.rglob("failed.txt"))
    if failed:
        raise RuntimeError(failed[0].read_text(encoding="utf-8").strip())
    found = list(result.rglob("summary.json"))
    if not found:
        raise RuntimeError(f"Job {job} ended without a result; see the server's log.")
    target = Path(out) / found[0].parent.name
    target.mkdir(parents=True, exist_ok=True)
    for file in found[0].parent.iterdir():
        write_whole(target / file.name, file.read_bytes())
    return json.loads(found[0].read_text()) | {"results": str(target)}
