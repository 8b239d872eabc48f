"""The life of a component's process: take its place, serve, stop gracefully.

    claim the directory ─▶ logs ─▶ claim the addresses ─▶ listen (`/health`) ─▶ open the parts ─▶ start the services
    ─▶ ready (`/ready`)
    signal ─▶ accept no more ─▶ finish what is under way, at most the grace period ─▶ close the parts ─▶ let go

Everything that can fail because of the place (directory, address, log directory) fails before anything is served,
with a StartError of one line.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tsdb.auth import Authenticator, open_authenticator
from tsdb.components._build_info import BuildInfo, build_info
from tsdb.components._export_metrics import MetricsExporter, remote_write
from tsdb.components._instance import instance_of
from tsdb.components._service_manager import READY, STOPPING, notify
from tsdb.config import FrontendConfig, LoadedConfig, MetasrvConfig, StandaloneConfig, render
from tsdb.errors import StartError
from tsdb.servers import Tls
from tsdb.servers.http import BODIES_BYTES_MAX, BodyMemory, HttpApp, HttpServer, operational_routes
from tsdb.store import DirectoryLock
from tsdb.telemetry import LogSetup, Tracing, app_info, get_logger, setup_logging, setup_tracing

GRACE_SECONDS = 10.0
"""Grace period: how long requests may continue after a signal to stop."""

# Python hands the interpreter from thread to thread this often. The default, 5 ms, is how long a busy thread delays the
# event loop; 0.5 ms brought the median delay from 5.3 to 0.7 ms with one competing thread.
_SWITCH_INTERVAL_SECONDS = 0.0005

_log = get_logger("tsdb.process")

Announce = Callable[[str], None]


class Service(Protocol):
    """What works beside the HTTP server while the component is ready: other servers, and work at intervals."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What the start-up summary says about it."""

    def probe(self) -> None:
        """Claim what it needs, or raise a StartError that says in one line why it cannot be had."""

    async def start(self) -> None:
        """Begin to work."""

    async def stop(self, grace_seconds: float) -> None:
        """Finish what is under way, at most for the grace period."""


class Parts(Protocol):
    """What a component is made of beside its process: opened once the server listens, closed after it has stopped."""

    def add_routes(self, app: HttpApp) -> None:
        """Add the endpoints; they may be asked before `open` has ended."""

    def watchers(self) -> Sequence[Service]:
        """What is started before `open`, because it watches over that too, and stopped before `close`."""

    def services(self) -> Sequence[Service]:
        """What is started after `open` and stopped before `close`."""

    def open(self) -> None:
        """Make everything ready; blocks, and raises TsdbError when the component cannot work."""

    def close(self) -> None:
        """Release all resources; blocks."""

    def examples(self, url: str) -> list[str]:
        """Commands that show a newcomer what the component can do."""

    @property
    def trouble(self) -> str | None:
        """Why the component is not ready any more, None while all is well."""


@dataclass(frozen=True, slots=True)
class ClaimedDirectory:
    """The directory that only one process may use at a time, and the key that names it."""

    path: Path
    key: str
    has_data: bool = True
    """Whether what is stored there would be missed."""


class ComponentProcess:
    """One running component."""

    def __init__(
        self, loaded: LoadedConfig, directory: ClaimedDirectory | None, announce: Announce, parts: Parts
    ) -> None:
        self._loaded = loaded
        self._parts = parts
        self._directory = directory
        self._announce = announce
        self._build: BuildInfo = build_info()
        self._state: bool | str = "starting"
        self._stop_asked = asyncio.Event()
        self._warnings = tuple(find_warnings(loaded, directory))

    async def run(self) -> None:
        """Serve until a signal comes; raise StartError when the process cannot start."""
        sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
        with ExitStack() as stack:
            if self._directory is not None:
                stack.enter_context(DirectoryLock(self._directory.path, key=self._directory.key))
            log_setup = self._start_logs()
            stack.callback(log_setup.close)
            for warning in self._warnings:
                _log.warning(warning)
            tracing = self._start_tracing()
            if tracing is not None:
                stack.callback(tracing.shutdown)
                tracing.install()
            app = self._make_app(log_setup)
            stack.callback(app.close)
            http = self._loaded.config.http
            server = HttpServer(app, host=http.addr.host, port=http.addr.port, tls=Tls.of(http.tls, section="http.tls"))
            server.probe()
            watchers, services = self._parts.watchers(), [*self._parts.services(), *self._exporters()]
            for service in (*watchers, *services):
                service.probe()
            self._listen_for_signals(app)
            await self._serve(server, watchers, services)
        # The stack has let go of everything; what is left of the process holds nothing.

    async def _serve(self, server: HttpServer, watchers: Sequence[Service], services: Sequence[Service]) -> None:
        await server.start()
        try:
            for watcher in watchers:
                await watcher.start()
            await asyncio.to_thread(self._parts.open)
            for service in services:
                await service.start()
            # What there is by now stays until the end, so Python need not look for garbage in it again and again: that
            # stopped everything, in the middle of requests, for the time that 130,000 objects take.
            gc.collect()
            gc.freeze()
            self._state = True
            _log.info("ready", component=str(self._loaded.component), version=self._build.version)
            self._announce(self._summary(server.url, [*watchers, *services]))
            notify(READY)
            await self._wait_for_end(server)
        finally:
            self._state = "stopping"
            notify(STOPPING)
            stopping = (*watchers, *services)
            await asyncio.gather(server.stop(GRACE_SECONDS), *(each.stop(GRACE_SECONDS) for each in stopping))
            await asyncio.to_thread(self._parts.close)
            _log.info("stopped", component=str(self._loaded.component))

    async def _wait_for_end(self, server: HttpServer) -> None:
        asked = asyncio.create_task(self._stop_asked.wait())
        ended = asyncio.create_task(server.wait_stopped())
        await asyncio.wait({asked, ended}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if ended.done():
            raise StartError("the HTTP server ended unexpectedly", hint="the log says why")
        ended.cancel()

    def _listen_for_signals(self, app: HttpApp) -> None:
        """The first signal asks for a graceful end, the second for one without patience."""

        def ask(name: str) -> None:
            if self._stop_asked.is_set():
                _log.warning("second signal: cancelling running requests", signal=name)
                app.interrupt_requests()
            else:
                _log.info("stopping", signal=name, grace_seconds=GRACE_SECONDS)
                self._stop_asked.set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ask, number.name)

    def _start_logs(self) -> LogSetup:
        options = self._loaded.config.logging
        return setup_logging(
            app=f"tsdb-{self._loaded.component}",
            directory=Path(options.dir),
            level=options.level,
            append_stdout=options.append_stdout,
            secrets=self._loaded.secrets(),
        )

    def _start_tracing(self) -> Tracing | None:
        options = self._loaded.config.logging
        return setup_tracing(
            enabled=options.enable_otlp_tracing,
            endpoint=str(options.otlp_endpoint),
            ratio=options.tracing_sample_ratio.default_ratio,
            service_name=f"tsdb-{self._loaded.component}",
            instance_id=instance_of(self._loaded.config),
            version=self._build.version,
        )

    def _make_app(self, log_setup: LogSetup) -> HttpApp:
        options = self._loaded.config.http
        app = HttpApp(
            body_limit=options.body_limit,
            bodies=self._body_memory(),
            timeout=options.timeout,
            authenticator=self._open_authenticator(),
            public_endpoints=options.public_endpoints,
        )
        operational_routes(
            app,
            component=str(self._loaded.component),
            version=self._build.version,
            commit=self._build.commit,
            branch=self._build.branch,
            is_ready=lambda: self._parts.trouble or self._state,
            effective_config=lambda: render(self._loaded),
            log_setup=log_setup,
        )
        self._parts.add_routes(app)
        app_info(self._build.version, f"tsdb-{self._loaded.component}")
        return app

    def _body_memory(self) -> BodyMemory:
        """Large bodies wait for an eighth of the memory limit, where there is one."""
        config = self._loaded.config
        if isinstance(config, MetasrvConfig):
            return BodyMemory(BODIES_BYTES_MAX)
        return BodyMemory(min(BODIES_BYTES_MAX, config.memory.limit // 8))

    def _open_authenticator(self) -> Authenticator:
        config = self._loaded.config
        if not isinstance(config, StandaloneConfig | FrontendConfig):
            return Authenticator()
        authenticator = open_authenticator(config.user_provider.get_secret_value())
        if not authenticator.is_enabled and not _is_local(config.http.addr.host):
            _log.warning(
                "no login is required, and the server can be reached from other machines", hint="user_provider"
            )
        return authenticator

    def _exporters(self) -> list[Service]:
        """Remote write of metrics; importing them into the database is up to the parts."""
        export = self._loaded.config.export_metrics
        if not export.enable:
            return []
        if export.remote_write is not None:
            headers = {name: value.get_secret_value() for name, value in export.remote_write.headers.items()}
            send = remote_write(export.remote_write.url, headers)
            return [MetricsExporter(send, export.write_interval, instance_of(self._loaded.config))]
        return []

    def _summary(self, url: str, services: Sequence[Service]) -> str:
        config = self._loaded.config
        facts = {"HTTP": url}
        if isinstance(config, StandaloneConfig | FrontendConfig) and not config.http.disable_dashboard:
            facts["dashboard"] = f"{url}/dashboard/"
        for service in services:
            facts |= service.facts
        if self._directory is not None:
            facts["data"] = str(self._directory.path)
        facts["logs"] = config.logging.dir
        lines = [f"tsdb {self._build.version} {self._loaded.component} is ready"]
        lines += [f"  {name:<9} {value}" for name, value in facts.items()]
        lines += [f"warning: {warning}" for warning in self._warnings]
        lines += [
            "try",
            f"  curl {url}/health",
            f"  curl {url}/config",
            *(f"  {example}" for example in self._parts.examples(url)),
        ]
        return "\n".join(lines)


def find_warnings(loaded: LoadedConfig, directory: ClaimedDirectory | None) -> Iterator[str]:
    """Yield what an operator should change, although the component starts: each with what to do instead."""
    if isinstance(loaded.config, MetasrvConfig) and loaded.config.use_memory_store:
        yield (
            "the metadata is kept in memory and lost when the process ends, and with it all tables: for tests only; "
            "run etcd and leave use_memory_store out"
        )
    if directory is not None and directory.has_data and directory.path.resolve().is_relative_to(Path("/tmp").resolve()):
        yield (
            f"the data is stored in {directory.path}, below /tmp, which many systems delete at boot; "
            f"choose another directory with --data-home DIR or {directory.key}"
        )


def _is_local(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host == "::1"
