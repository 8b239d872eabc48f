"""Running a component: which directory it claims, on which event loop it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tsdb.components._memory import keep_memory
from tsdb.components._process import Announce, ClaimedDirectory, Parts, Process
from tsdb.config import ComponentConfig, FrontendConfig, LoadedConfig, MetasrvConfig, StandaloneConfig


def run_component(loaded: LoadedConfig, announce: Announce) -> None:
    """Run a component until it is told to stop; `announce` gets the start-up summary."""
    keep_memory()
    process = Process(loaded, _claimed_directory(loaded.config), announce, _parts(loaded.config))
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(process.run())


def _parts(config: ComponentConfig) -> Parts | None:
    if isinstance(config, StandaloneConfig):
        from tsdb.components.standalone import Standalone

        return Standalone(config)
    return None


def _claimed_directory(config: ComponentConfig) -> ClaimedDirectory | None:
    if isinstance(config, FrontendConfig):
        return None
    if isinstance(config, MetasrvConfig):
        return ClaimedDirectory(Path(config.data_home), "data_home")
    return ClaimedDirectory(Path(config.storage.data_home), "storage.data_home")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop, or None for asyncio's own where uvloop does not exist."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
