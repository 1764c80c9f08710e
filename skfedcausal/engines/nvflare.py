"""NVIDIA FLARE as the carrier of packets: the server's side and the sites' side of one job.

The sites run this installed library; a job brings settings, never code. Names come from the sites'
certificates, and the engine's mutual TLS proves who sends, so that envelopes are not signed again. Arrays
travel as raw bytes in messages of the engine's own (auxiliary) channel.
"""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Literal

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

from ..federation.files import FramedTransport
from ..message.packet import Failure
from ..sites.server import ServerSettings
from ..sites.site import read_site_settings

TOPIC = "skfedcausal.exchange"
SETTINGS = "skfedcausal.toml"  # in the folder `local` of a site's kit
_FRAME, _HELLO = "frame", "hello"
_KINDS: dict[str, Literal["timeout", "client-error", "offline"]] = {
    ReturnCode.TIMEOUT: "timeout",
    ReturnCode.EXECUTION_EXCEPTION: "client-error",
}
_THERE = (ReturnCode.OK, ReturnCode.EXECUTION_EXCEPTION)
_LOG = logging.getLogger(__name__)


class SiteExecutor(Executor):
    """The site's side: a gate that answers the engine's messages.

    Settings and record are the site's own, in ``local/skfedcausal.toml`` of its kit.
    """

    def handle_event(self, event_type, fl_ctx):
        """Open the gate when the job starts."""
        if event_type != EventType.START_RUN:
            return
        engine = fl_ctx.get_engine()
        folder = Path(engine.get_workspace().get_site_config_dir())
        self._lock = threading.Lock()
        self._gate, self._name = None, fl_ctx.get_identity_name()
        self._settings = folder / SETTINGS
        engine.register_aux_message_handler(TOPIC, self._answer)

    def _answer(self, topic, request, fl_ctx):
        try:
            with self._lock:
                if self._gate is None:
                    self._gate = read_site_settings(self._settings).gate(self._name)
                if _HELLO in request:
                    return make_reply(ReturnCode.OK)
                answer = self._gate.answer(request[_FRAME])
        except Exception:
            _LOG.exception("The gate of %r failed", self._name)  # stays in the site's own log
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        if answer is None:
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        reply = make_reply(ReturnCode.OK)
        reply[_FRAME] = answer
        return reply

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        """There are no tasks: everything is asked over the auxiliary channel."""
        return make_reply(ReturnCode.TASK_UNKNOWN)


class EngineTransport(FramedTransport):
    """The server's side: packets to the sites of a running job, all at a time.

    `names` are the sites' as in their certificates, ``stopped()`` says whether the job is being aborted;
    other settings as in :class:`~skfedcausal.federation.files.FramedTransport`.
    """

    def __init__(self, engine, names, run, *, stopped=lambda: False, **settings):
        super().__init__(names, run, **settings)
        self._engine, self._stopped = engine, stopped
        self._pool = ThreadPoolExecutor(max_workers=max(len(self._names), 1))

    def _carry(self, frames, timeout):
        sent = self._pool.map(self._send, frames, frames.values(), repeat(timeout))
        return dict(zip(frames, sent, strict=True))

    def _send(self, name, frame, timeout):
        """Frame that a site answers with, or why there is none."""
        if self._stopped():
            return Failure("offline", "the job is being aborted")
        reply = self._ask(name, _FRAME, frame, timeout)
        if reply is None:
            return Failure("offline")
        code, frame = reply.get_return_code(), reply.get(_FRAME)
        if code == ReturnCode.OK:
            return frame if isinstance(frame, bytes) else Failure("client-error")
        return Failure(_KINDS.get(code, "offline"))

    def _ask(self, name, field, content, timeout):
        """Reply of a site to a message of one field, None without one."""
        request = Shareable()
        request[field] = content
        with self._engine.new_context() as context:
            replies = self._engine.send_aux_request([name], TOPIC, request, timeout, context, optional=True)
        return (replies or {}).get(name)

    def greet(self, patience):
        """Wait until the sites' part of the job is up; those that did not answer within `patience` seconds.

        They are asked all the same later.
        """
        end, silent = time.monotonic() + patience, list(self._names)
        while silent and time.monotonic() < end and not self._stopped():
            there = list(self._pool.map(self._is_there, silent))
            silent = [name for name, answered in zip(silent, there, strict=True) if not answered]
            if silent:
                time.sleep(0.1)
        return silent

    def _is_there(self, name):
        reply = self._ask(name, _HELLO, True, 2.0)
        return reply is not None and reply.get_return_code() in _THERE

    def leave(self):
        """Let go of the threads."""
        self._pool.shutdown(wait=False)


class ServerController(Controller):
    """The server's side of a job: fits over the sites, writes the results into the job's folder.

    `settings` are those of :meth:`skfedcausal.sites.server.ServerSettings.to_args`, `patience` the
    seconds to wait for sites to come up at the start.
    """

    def __init__(self, settings, patience=60.0):
        super().__init__()
        self._settings, self._patience = settings, patience

    def control_flow(self, abort_signal, fl_ctx):
        """The fit."""
        engine = fl_ctx.get_engine()
        out = Path(engine.get_workspace().get_run_dir(fl_ctx.get_job_id()))
        settings = ServerSettings.from_args({**self._settings, "out": str(out / "results")})
        own = self._settings.get("out")
        journal = Path(own) / "journal" if own and settings.resume else None
        more = {"timeout": settings.timeout, "journal": journal, "stopped": lambda: abort_signal.triggered}
        transport = EngineTransport(engine, settings.units, settings.run, **more)
        try:
            silent = transport.greet(self._patience)
            if silent:
                _LOG.warning("Sites %s are not up after %g seconds", silent, self._patience)
            settings.learn(transport)
        except Exception as error:
            transport.leave()
            _LOG.exception("The run %r has no result", settings.run)
            (out / "failed.txt").write_text(f"{type(error).__name__}: {error}\n", encoding="utf-8")
            self.system_panic(f"{type(error).__name__}: {error}", fl_ctx)

    def start_controller(self, fl_ctx):
        """Nothing to start."""

    def stop_controller(self, fl_ctx):
        """Nothing to stop."""

    def process_result_of_unknown_task(self, client, task_name, client_task_id, result, fl_ctx):
        """There are no tasks."""
