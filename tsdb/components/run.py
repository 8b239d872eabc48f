"""Running a component: which ones can be started, which directory they claim, on which event loop they run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tsdb.components._memory import give_back_when_idle, keep_memory
from tsdb.components._process import Announce, ClaimedDirectory, ComponentProcess
from tsdb.components.standalone import Standalone
from tsdb.config import LoadedConfig, StandaloneConfig
from tsdb.errors import StartError


def run_component(loaded: LoadedConfig, announce: Announce) -> None:
    """Run a component until it is stopped by a signal; `announce` gets the start-up summary."""
    process = _process(loaded, announce)
    keep_memory()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_run(process))


async def _run(process: ComponentProcess) -> None:
    memory = asyncio.create_task(give_back_when_idle())
    try:
        await process.run()
    finally:
        memory.cancel()


def _process(loaded: LoadedConfig, announce: Announce) -> ComponentProcess:
    """Make the process of a component; StartError for those that cannot serve anything yet."""
    config = loaded.config
    if not isinstance(config, StandaloneConfig):
        raise StartError(
            f"{loaded.component} cannot be started: cluster mode is not implemented yet",
            hint="use `tsdb standalone start`, the complete database in one process",
        )
    directory = ClaimedDirectory(Path(config.storage.data_home), "storage.data_home")
    return ComponentProcess(loaded, directory, announce, Standalone(config))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop, or None for asyncio's own where uvloop does not exist."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
