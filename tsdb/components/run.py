"""Running a component: which ones can be started, which directory they claim, on which event loop they run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tsdb.components._process import Announce, ClaimedDirectory, ComponentProcess
from tsdb.components.metasrv import MetasrvParts
from tsdb.components.standalone import Standalone
from tsdb.config import LoadedConfig, MetasrvConfig, StandaloneConfig
from tsdb.errors import StartError
from tsdb.processes.allocator import keep_memory
from tsdb.processes.fork_server import Forker, ForkServer

_FORKED_MODULES = ["tsdb.query.workers", "tsdb.servers.fast_workers"]
"""What processes beside the server need, if they cannot be forked from it."""


def run_component(loaded: LoadedConfig, announce: Announce) -> None:
    """Run a component until it is stopped by a signal; `announce` gets the start-up summary."""
    keep_memory()
    with ExitStack() as stack:
        process = _process(loaded, announce, stack)
        runner = stack.enter_context(asyncio.Runner(loop_factory=_loop_factory()))
        runner.run(process.run())


def _process(loaded: LoadedConfig, announce: Announce, stack: ExitStack) -> ComponentProcess:
    """Make the process of a component; StartError for those that cannot serve anything yet.

    What query workers are forked from is forked first, before there are any threads; it is closed with the stack.
    """
    config = loaded.config
    if isinstance(config, MetasrvConfig):
        directory = ClaimedDirectory(Path(config.data_home), "data_home", has_data=False)
        return ComponentProcess(loaded, directory, announce, MetasrvParts(config))
    if not isinstance(config, StandaloneConfig):
        raise StartError(
            f"{loaded.component} cannot be started: cluster mode is not implemented yet",
            hint="use `tsdb standalone start`, the complete database in one process",
        )
    directory = ClaimedDirectory(Path(config.storage.data_home), "storage.data_home")
    forker = None
    if config.query.workers:
        has_threads = threading.active_count() > 1  # of a debugger, say
        forker = Forker(_FORKED_MODULES, None if has_threads else ForkServer.forked())
        stack.callback(forker.close)
    return ComponentProcess(loaded, directory, announce, Standalone(config, forker))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop, or None for asyncio's own where uvloop does not exist."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
