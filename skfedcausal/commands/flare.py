"""``python -m skfedcausal flare``: NVIDIA FLARE kits, and a run over it."""

from pathlib import Path

from ..engines import nvflare_kit
from ._shared import add_options, answer, parser


def main(arguments):
    """Make start-up kits, start one, run a fit, or stop all."""
    reader = parser("flare", "NVIDIA FLARE: certificates, processes, runs.", settings=False, json=False)
    actions = reader.add_subparsers(dest="action", required=True)
    add_options(actions.add_parser("provision", help="make certificates and hardened start-up kits"), "provision")
    actions.add_parser("harden", help="allow this library's classes in a kit and nothing else")
    actions.add_parser("start", help="start the engine of a kit, in the foreground")
    actions.add_parser("stop", help="end the engine at the server and at all sites")
    add_options(actions.add_parser("fit", help="run the fit of a server's settings file"), "fit_of_flare")
    for name, action in actions.choices.items():
        if name in ("harden", "start"):
            action.add_argument("kit", type=Path)
        if name in ("stop", "fit"):
            action.add_argument("--admin", type=Path, required=True, help="kit of the administrator")
        add_options(action, "json")
    return answer(reader, arguments, lambda options: _ACTIONS[options.action](options), _text)


def _text(result):
    return "\n".join(f"{name}: {value}" for name, value in result.items())


def _provision(options):
    return nvflare_kit.provision(options.units, options.folder, server=options.server, port=options.port)


def _harden(options):
    nvflare_kit.harden(options.kit)
    return {"hardened": options.kit}


def _start(options):
    code = nvflare_kit.start(options.kit).wait()
    if code:
        raise RuntimeError(f"The engine ended with code {code}; see {options.kit / 'engine.log'}.")
    return {"ended": options.kit}


def _stop(options):
    nvflare_kit.stop(options.admin)
    return {"stopped": options.admin}


def _fit(options):
    more = {"journal": options.journal, "attempts": options.attempts}
    return nvflare_kit.submit(options.settings, options.admin, options.out, **more)


_ACTIONS = {"provision": _provision, "harden": _harden, "start": _start, "stop": _stop, "fit": _fit}
