"""Setting up NVIDIA FLARE for this library: certificates, what sites allow, jobs without code."""

import json
import os
import secrets
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

from ..federation.atomic import keep_private, write_whole
from ..sites.server import read_server_settings

_CONTROLLER = "skfedcausal.engines.nvflare.ServerController"
_EXECUTOR = "skfedcausal.engines.nvflare.SiteExecutor"
ADMIN = "admin@skfedcausal.local"

# without these two the engine keeps a timer thread per message for more than a minute
_COMMUNICATION = {"format_version": 2, "streaming_retry_timeout": 5.0, "streaming_retry_wait": 1.0}
_RIGHTS = {
    **dict.fromkeys(("submit_job", "manage_job", "download_job", "view", "operate"), "any"),
    **dict.fromkeys(("clone_job", "shell_commands", "byoc"), "none"),
}
_BUILDERS = {
    "workspace.WorkspaceBuilder": {"template_file": ["master_template.yml"]},
    "static_file.StaticFileBuilder": {"config_folder": "config", "scheme": "tcp"},
    "cert.CertBuilder": {},
    "signature.SignatureBuilder": {},
}


def provision(units, folder, *, server="localhost", port=8002):
    """Make certificates and start-up kits of a server, its sites (`units`) and one administrator.

    Everything is made on this machine: take each kit to its owner over a channel that you trust, and delete it
    here. Whoever has the root key, in ``kits/skfedcausal/state``, can make certificates of any site: keep
    that folder on a medium that is not connected, or delete it if no site is to be added. Every kit is
    hardened (:func:`harden`). With the server "localhost" it listens on this machine only. Gives the kit of
    every site by name, of the ``server`` and of the ``admin``.
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
        "builders": [{"path": f"nvflare.lighter.impl.{k}", "args": v} for k, v in _BUILDERS.items()],
    }
    path = folder / "project.yml"
    write_whole(path, json.dumps(project, indent=1).encode())  # JSON is YAML
    command = [sys.executable, "-m", "nvflare.cli", "provision", "-p", str(path), "-w", str(folder / "kits")]
    subprocess.run(command, check=True, capture_output=True, env=environment())
    kits = sorted((folder / "kits" / "skfedcausal").glob("prod_*"))[-1]
    found = {name: kits / name for name in units} | {"server": kits / server, "admin": kits / ADMIN}
    for name in (*units, "server"):
        harden(found[name])
    keep_private(kits.parent / "state")  # with the root key of all certificates
    return found


def harden(kit):
    """Allow the two classes of this library in a kit, and nothing that a job brings; no logs leave."""
    local = Path(kit) / "local"
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    resources |= {"class_allow_list": [_CONTROLLER, _EXECUTOR], "allow_log_streaming": False}
    text = json.dumps(resources, indent=1)
    for name in ("jobs-storage", "snapshot-storage"):  # not in a folder that anybody can write to
        text = text.replace(f"/tmp/nvflare/{name}", str(Path(kit).resolve() / name))
    write_whole(local / "resources.json", text.encode())
    write_whole(local / "comm_config.json", json.dumps(_COMMUNICATION).encode())
    rights = {"format_version": "1.0", "permissions": {"project_admin": _RIGHTS}}
    write_whole(local / "authorization.json", json.dumps(rights, indent=1).encode())


def environment():
    """Environment for the engine's processes: their scripts find this Python."""
    own = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{own}{os.pathsep}{os.environ.get('PATH', '')}"}


def start(kit, **more):
    """Process of the engine of a kit, with further variables of its environment; it logs into the kit."""
    command = ["bash", str(Path(kit) / "startup" / "sub_start.sh"), "--once"]
    with open(Path(kit) / "engine.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment() | more)


def job_folder(settings, folder, *, journal=None, patience=60.0):
    """Write a job that holds the settings of a run, and no code; its folder.

    `journal` is a folder on the server's machine for the answers of the run, so that it can be resumed.
    """
    folder, lost, n_units = Path(folder), settings.lost_units, len(settings.units)
    args = {key: value for key, value in settings.to_args().items() if key not in ("folder", "keys", "out")}
    if journal is not None:
        args["out"] = str(Path(journal).absolute())
    meta = {"name": settings.run, "resource_spec": {}, "deploy_map": {"app": ["@ALL"]}}
    meta["min_clients"] = n_units if lost is None else lost.needed(n_units)
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
    """Signed-in session of the administrator; for `patience` seconds it tries a server that is starting."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    end = time.monotonic() + patience
    while True:
        try:
            return new_secure_session(ADMIN, str(Path(admin).resolve()))
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def submit(settings_path, admin, out, *, journal=None, attempts=1):
    """Run the fit of a settings file on the engine; the summary, the results in the folder `out`.

    With a `journal` every one of several attempts goes on where the one before it was: a site whose process
    ended cannot come back to a running job, but takes part in the next one. A job that ends without a result
    is a RuntimeError.
    """
    settings = read_server_settings(settings_path)
    out = Path(out).resolve()  # the engine looks for relative paths in its own folders
    with closing(session(admin)) as signed_in:

        def run():
            job = job_folder(settings, out / f"job-{secrets.token_hex(4)}", journal=journal)
            return fetch(signed_in, signed_in.submit_job(str(job)), out)

        for _ in range(attempts - 1):
            with suppress(RuntimeError):
                return run()
        return run()


def stop(admin):
    """End the engine at the server and at all sites, which ends the processes of :func:`start`."""
    with closing(session(admin)) as signed_in:
        signed_in.shutdown("all")


def fetch(signed_in, job, out):
    """Wait for a job and fetch its results; the summary."""
    signed_in.monitor_job(job, poll_interval=0.5)
    result = Path(signed_in.download_job_result(job))
    failed = list(result.rglob("failed.txt"))
    if failed:
        raise RuntimeError(failed[0].read_text(encoding="utf-8").strip())
    found = list(result.rglob("summary.json"))
    if not found:
        raise RuntimeError(f"Job {job} ended without a result; see the server's log.")
    target = Path(out) / found[0].parent.name
    target.mkdir(parents=True, exist_ok=True)
    for file in found[0].parent.iterdir():
        write_whole(target / file.name, file.read_bytes(), shared=True)
    return json.loads(found[0].read_text(encoding="utf-8")) | {"results": str(target)}
