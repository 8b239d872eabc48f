"""`tsdb backup` and `tsdb restore`: their options and help."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tsdb.cli._connection import connection_options
from tsdb.cli._options import CONTEXT, GroupedCommand, option_group, version_option
from tsdb.config import Component
from tsdb.errors import ConfigError
from tsdb.quick_imports import quick_imports

if TYPE_CHECKING:
    from tsdb.cli.server import ServerAddress
    from tsdb.config import DatanodeConfig, StandaloneConfig

_BACKUP_EPILOG = """\b
Examples:
  tsdb backup --to nightly                             into {data_home}/backup/nightly of the server
  tsdb backup --to cold:nightly                        into the storage `cold` of [[storage.providers]]
  tsdb backup --to s3://bucket/root/nightly            the same, by its URL
  tsdb backup list --from /var/lib/tsdb/backup/nightly
  tsdb backup verify --from cold:nightly -c tsdb.toml
  tsdb backup prune --from cold:nightly -c tsdb.toml --keep 7

\b
The server makes the backup while it keeps serving. The backup contains everything acknowledged before it
started. Only files that are not in the destination yet are copied.
Exit codes: 0 success, 1 failure, 2 invalid usage, 3 the server cannot be reached.
"""
_RESTORE_EPILOG = """\b
Examples:
  tsdb restore --from /backups/nightly --data-home ./data
  tsdb restore --from cold:nightly --backup 20240601T030000.000Z -c tsdb.toml
  tsdb restore --from /backups/nightly --table public.cpu --data-home ./scratch
  tsdb restore --from cold:nightly --to-time 2026-11-18T10:00:00Z -c tsdb.toml
  tsdb restore --from default:nightly -c datanode.toml --store-addrs 10.0.0.1:2379 --datanodes 1,2,3

\b
The target must be empty. To continue an interrupted restore, run the same command again; until it is
complete, no server starts there. Then start the server with the same configuration. --store-addrs restores
a cluster: its storage and its metadata in etcd. Then start its components.
"""


_backup, _configuration, _cluster = option_group("Backup"), option_group("Configuration"), option_group("Cluster")
_from = _backup(
    "--from",
    "place",
    metavar="PLACE",
    required=True,
    help="Location of the backups: a directory, NAME:PATH in a configured storage, or its URL.",
)
_quiet = _backup("-q", "--quiet", is_flag=True, help="Do not print progress.")


def _configured(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a configuration; it gets `config`."""

    @wraps(function)
    def run(
        *args: Any,
        config_file: str | None,
        env_prefix: str | None,
        data_home: str | None,
        is_datanode: bool = False,
        **given: Any,
    ) -> None:
        from tsdb.config import load_config

        is_datanode = is_datanode or given.get("store_addrs") is not None
        component = Component.DATANODE if is_datanode else Component.STANDALONE
        # Which of the datanodes it is does not matter, nor where that has its log.
        options = {"node_id": "0", "wal_dir": "wal"} if is_datanode else {}
        try:
            loaded = load_config(
                component,
                options=options if data_home is None else {**options, "data_home": data_home},
                file=Path(config_file) if config_file is not None else None,
                env_prefix=env_prefix or component.env_prefix,
            )
        except ConfigError as error:
            click.echo(f"tsdb: {error}", err=True)
            sys.exit(1)
        function(*args, config=loaded.config, **given)

    decorated: Any = run
    for option in (
        _configuration("--data-home", metavar="DIR", help="Data directory of the server.  [key: storage.data_home]"),
        _configuration(
            "--env-prefix",
            metavar="PREFIX",
            help="Prefix of the environment variables.  [default: TSDB_STANDALONE, TSDB_DATANODE for a cluster]",
        ),
        _configuration("--datanode", "is_datanode", is_flag=True, help="The configuration is that of a datanode."),
        _configuration(
            "-c", "--config-file", metavar="FILE", help="Configuration file of the server, for its storages."
        ),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


class _BackupGroup(GroupedCommand, click.Group):
    """A command with options of its own that has subcommands, too."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(
    "backup",
    cls=_BackupGroup,
    invoke_without_command=True,
    context_settings=CONTEXT,
    epilog=_BACKUP_EPILOG,
    help="Back up a running server or cluster, or list, verify and prune backups.",
)
@_backup("--to", "destination", metavar="PLACE", help="Destination, as seen by the server.")
@_backup("--name", metavar="NAME", help="Name of the backup.  [default: its start time]")
@_backup("--skip-damaged", is_flag=True, help="Skip damaged regions and files instead of failing.")
@_quiet
@connection_options
@click.pass_context
def backup_command(
    context: click.Context,
    address: Callable[[], ServerAddress],
    database: str,
    destination: str | None,
    name: str | None,
    skip_damaged: bool,
    quiet: bool,
) -> None:
    if context.invoked_subcommand is not None:
        if destination is not None:
            raise click.UsageError(f"--to is not for {context.invoked_subcommand}")
        return
    if destination is None:
        raise click.UsageError("name a destination with --to, or use a subcommand: list, verify, prune")
    with quick_imports():
        from tsdb.cli.backups import OnlineBackup, run_backup

    sys.exit(run_backup(address(), OnlineBackup(destination, name, skips_damaged=skip_damaged, is_quiet=quiet)))


@backup_command.command(
    "list", cls=GroupedCommand, context_settings=CONTEXT, help="List the backups in a destination, oldest first."
)
@_from
@_configured
def _list(place: str, config: StandaloneConfig | DatanodeConfig) -> None:
    with quick_imports():
        from tsdb.cli.backups import run_list

    sys.exit(run_list(config, place))


@backup_command.command(
    "verify",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    help="Read all files of backups and compare them with their checksums.",
)
@_from
@_backup("--backup", "name", metavar="NAME", help="One backup, or latest.  [default: all]")
@_quiet
@_configured
def _verify(place: str, name: str | None, quiet: bool, config: StandaloneConfig | DatanodeConfig) -> None:
    with quick_imports():
        from tsdb.cli.backups import run_verify

    sys.exit(run_verify(config, place, name, is_quiet=quiet))


@backup_command.command(
    "prune",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    help="Delete old backups and the files that only they use.",
)
@_from
@_backup("--keep", metavar="N", type=click.IntRange(min=1), required=True, help="Number of the newest backups to keep.")
@_configured
def _prune(place: str, keep: int, config: StandaloneConfig | DatanodeConfig) -> None:
    with quick_imports():
        from tsdb.cli.backups import run_prune

    sys.exit(run_prune(config, place, keep=keep))


@click.command(
    "restore",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    epilog=_RESTORE_EPILOG,
    help="Restore a backup into a data directory or a cluster that is not running.",
)
@_from
@_backup("--backup", "name", metavar="NAME", default="latest", show_default=True, help="Name of the backup.")
@_backup(
    "--table",
    "tables",
    metavar="DB.TABLE",
    multiple=True,
    help="Restore only this table; DB.* means all tables of a database. Can be repeated.  [default: everything]",
)
@_backup(
    "--to-time",
    metavar="TIME",
    help="Point-in-time recovery: restore everything acknowledged before this time, such as 2026-11-18T10:00:00Z, "
    "from the newest backup before it and the shared log.",
)
@_backup(
    "--log-from",
    metavar="PLACE",
    help="Location of the shared log, for --to-time: a directory or a storage.  [default: its original location]",
)
@_cluster(
    "--store-addrs",
    metavar="HOST:PORT,…",
    help="Restore a cluster: the addresses of its etcd; https://HOST:PORT with TLS.",
)
@_cluster("--datanodes", metavar="ID,…", help="Node ids of the datanodes that get the tables.")
@_cluster("--store-user", metavar="NAME", envvar="TSDB_STORE_USER", help="User in etcd.  [env: TSDB_STORE_USER]")
@_cluster(
    "--store-password",
    metavar="PASSWORD",
    envvar="TSDB_STORE_PASSWORD",
    help="Password of this user.  [env: TSDB_STORE_PASSWORD]",
)
@_cluster("--store-ca-file", metavar="FILE", help="CA certificates to verify etcd with (PEM); TLS is then used.")
@_cluster("--store-cert-file", metavar="FILE", help="Client certificate for etcd (PEM).")
@_cluster("--store-key-file", metavar="FILE", help="Key of this client certificate (PEM).")
@_quiet
@_configured
def restore_command(
    place: str,
    name: str,
    tables: tuple[str, ...],
    to_time: str | None,
    log_from: str | None,
    store_addrs: str | None,
    datanodes: str | None,
    quiet: bool,
    config: StandaloneConfig | DatanodeConfig,
    **store: str | None,
) -> None:
    if log_from is not None and to_time is None:
        raise click.UsageError("--log-from requires --to-time")
    if (store_addrs is None) != (datanodes is None):
        raise click.UsageError("a cluster is restored with both --store-addrs and --datanodes")
    files = [name for name in ("store_ca_file", "store_cert_file", "store_key_file") if store[name] is not None]
    if store_addrs is None and files:
        raise click.UsageError(f"--{files[0].replace('_', '-')} requires --store-addrs")
    with quick_imports():
        from tsdb.cli.backups import OfflineCluster, OfflineRestore, run_restore
        from tsdb.kv.etcd import EtcdSettings
    cluster = None
    if store_addrs is not None and datanodes is not None:
        etcd = partial(
            EtcdSettings.of,
            store_addrs,
            username=store["store_user"] or "",
            password=store["store_password"] or "",
            ca_path=store["store_ca_file"] or "",
            cert_path=store["store_cert_file"] or "",
            key_path=store["store_key_file"] or "",
        )
        cluster = OfflineCluster(etcd, _node_ids(datanodes))
    options = OfflineRestore(place, name, tables, to_time=to_time, log_from=log_from, cluster=cluster, is_quiet=quiet)
    sys.exit(run_restore(config, options))


def _node_ids(text: str) -> tuple[int, ...]:
    found = [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdigit() for each in found) or len(set(found)) < len(found):
        raise click.UsageError(f"--datanodes {text!r} is not a list of distinct node ids such as 1,2,3")
    return tuple(int(each) for each in found)


for _command in (*backup_command.commands.values(),):
    _command.params.append(version_option())
