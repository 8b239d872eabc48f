"""Running a component: which ones can be started, which directory they claim, on which event loop they run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tsdb.components._process import Announce, ClaimedDirectory, ComponentProcess, Parts
from tsdb.components.datanode import Datanode
from tsdb.components.frontend import Frontend
from tsdb.components.metasrv import MetasrvParts
from tsdb.components.standalone import Standalone
from tsdb.config import DatanodeConfig, FrontendConfig, LoadedConfig, MetasrvConfig, StandaloneConfig
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
    """Make the process of a component.

    What query workers are forked from is forked first, before there are any threads; it is closed with the stack.
    """
    config = loaded.config
    parts: Parts
    directory: ClaimedDirectory | None
    match config:
        case MetasrvConfig():
            directory = ClaimedDirectory(Path(config.data_home), "data_home", has_data=False)
            parts = MetasrvParts(config)
        case DatanodeConfig():
            directory = ClaimedDirectory(Path(config.storage.data_home), "storage.data_home")
            parts = Datanode(config)
        case FrontendConfig():
            directory = ClaimedDirectory(Path(config.data_home), "data_home") if config.data_home else None
            parts = Frontend(config, _forker(config, stack))
        case StandaloneConfig():
            directory = ClaimedDirectory(Path(config.storage.data_home), "storage.data_home")
            parts = Standalone(config, _forker(config, stack))
    return ComponentProcess(loaded, directory, announce, parts)


def _forker(config: StandaloneConfig | FrontendConfig, stack: ExitStack) -> Forker | None:
    if not config.query.workers:
        return None
    has_threads = threading.active_count() > 1  # of a debugger, say
    forker = Forker(_FORKED_MODULES, None if has_threads else ForkServer.forked())
    stack.callback(forker.close)
    return forker


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop, or None for asyncio's own where uvloop does not exist."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
