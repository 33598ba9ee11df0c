"""The worker process: `python -m engine.worker.main DESCRIPTOR`, a socket inherited from the server."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import cast

from engine.worker.channel import BlockingChannel
from engine.worker.host import Host, HostLost, LoadRefused
from engine.worker.loop import WorkerLoop
from engine.worker.messages import Boot, Loaded, LoadFailed, Request
from engine.worker.rooms import describe

log = logging.getLogger(__name__)


def main(descriptor: int) -> None:
    """Load the model that the first message names, then serve until the server is gone or says stop."""
    faulthandler.enable()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    os.set_inheritable(descriptor, False)  # a helper that the model starts must not keep the pipe open
    channel = BlockingChannel(socket.socket(fileno=descriptor))
    boot = channel.receive()
    if boot is None:
        return
    assert isinstance(boot, Boot)
    receiver = _Receiver(channel)
    receiver.start()
    try:
        host = make_host(boot)
        card = host.load()
    except LoadRefused as refused:
        channel.send(LoadFailed(str(refused)))
        return
    except Exception as error:
        log.exception("the model could not be loaded")
        channel.send(LoadFailed(describe(error)))
        return
    loop = WorkerLoop(host, card, channel.send)
    gc.collect()
    gc.freeze()  # the model stays: the collector need not walk it between two chunks
    channel.send(Loaded(card))
    receiver.serve(loop)
    try:
        loop.run()
    except HostLost as lost:
        log.critical("%s", lost)
        logging.shutdown()
        os._exit(1)  # whatever threads the model has: the server starts another worker


def make_host(boot: Boot) -> Host:
    """Call the factory that `boot` names, `module:function`."""
    module, _, function = boot.factory.partition(":")
    factory = cast(Callable[..., Host], getattr(importlib.import_module(module), function))
    return factory(**boot.arguments)


class _Receiver(threading.Thread):
    """Takes requests while the model loads or computes; the process ends with it, when the server is gone."""

    def __init__(self, channel: BlockingChannel) -> None:
        super().__init__(name="receiver", daemon=True)
        self._channel = channel
        self._loop: WorkerLoop | None = None
        self._ready = threading.Event()

    def serve(self, loop: WorkerLoop) -> None:
        """Requests may be passed on from now."""
        self._loop = loop
        self._ready.set()

    def run(self) -> None:
        code = 0
        try:
            while (request := self._channel.receive()) is not None:
                self._ready.wait()
                assert self._loop is not None
                self._loop.receive(cast(Request, request))
        except OSError:
            pass  # the server is gone, and an answer could not be sent
        except Exception:
            log.exception("a request could not be taken")
            code = 1
        finally:
            os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
