"""A real broker (amqtt) in a thread of this process: anonymous, or with a user, a password and TLS."""

import asyncio
import json
import socket
import ssl
import subprocess
import threading
import time

USER, PASSWORD = "plant", "hush-4711"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def certificate(folder):
    """Paths of a certificate for 127.0.0.1 and of its key."""
    made, key = folder / "broker.pem", folder / "broker.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)],
        check=True, capture_output=True,
    )  # fmt: skip
    return made, key


class Broker:
    """A broker that can be stopped and started again at its port."""

    def __init__(self, port=None, config=None, tls=None):
        self.port, self._tls = port or free_port(), tls
        self._config = config
        self._stopped = None

    def _settings(self):
        listener = {"type": "tcp", "bind": f"127.0.0.1:{self.port}"}
        if self._tls:
            listener |= {"ssl": True, "certfile": str(self._tls[0]), "keyfile": str(self._tls[1])}
        plugins = self._config or {
            "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True},
        }
        return {"listeners": {"default": listener}, "plugins": plugins}

    def start(self):
        from amqtt.broker import Broker as Amqtt

        loop, self._stopped, started = asyncio.new_event_loop(), threading.Event(), threading.Event()

        async def serve():
            server = Amqtt(self._settings())
            await server.start()
            started.set()
            while not self._stopped.is_set():
                await asyncio.sleep(0.02)
            await server.shutdown()

        def run():
            loop.run_until_complete(serve())
            loop.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert started.wait(10)
        return self

    def stop(self):
        self._stopped.set()
        self._thread.join(10)


def publisher(port, **options):
    """A connected client that sends."""
    import paho.mqtt.client as mqtt

    sender = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    if options.get("user"):
        sender.username_pw_set(options["user"], options["password"])
    if options.get("ca"):
        sender.tls_set(str(options["ca"]), tls_version=ssl.PROTOCOL_TLS_CLIENT)
    sender.max_queued_messages_set(0)
    sender.connect("127.0.0.1", port)
    sender.loop_start()
    return sender


def publish(port, messages, delay=0.5, gap=0.0, **options):
    """Publish (topic, payload) in a thread, after a while."""

    def send():
        time.sleep(delay)
        sender, last = publisher(port, **options), None
        for topic, payload in messages:
            last = sender.publish(topic, payload, qos=1)
            if gap:
                time.sleep(gap)
        if last is not None:
            last.wait_for_publish(10)
        sender.loop_stop()
        sender.disconnect()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def as_messages(frame, topic="plant/rows"):
    return [
        (topic, json.dumps({"time": str(at), **dict(zip(frame.columns, map(float, row), strict=True))}))
        for at, row in zip(frame.index, frame.to_numpy(), strict=True)
    ]
