"""From the configuration to object stores: the one place where they are made.

`open_stores` returns every store of the `[storage]` section, checked: a bucket that cannot be used prevents the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from tsdb.backup import StoragePlace
from tsdb.config import (
    AzblobOptions,
    FileProvider,
    FileStorage,
    GcsOptions,
    OssOptions,
    Provider,
    S3Options,
    StorageBase,
    provider_name,
)
from tsdb.errors import StartError
from tsdb.store import (
    CachedStore,
    FileCache,
    LocalStore,
    ObjectStore,
    Purpose,
    RequestPrices,
    RoutedStore,
    StoreError,
    requests_for,
)
from tsdb.store.remote import BucketSettings, RemoteStore

DEFAULT_STORE = "default"
"""How metrics and messages call the store of tables that do not choose one."""
_REGION_OF_OTHERS = "us-east-1"
"""What services that are compatible with S3 expect when they have no regions."""

_Storage: TypeAlias = StorageBase | Provider


@dataclass(frozen=True, slots=True)
class OpenStores:
    """The stores of a configuration."""

    default: ObjectStore
    providers: dict[str, ObjectStore]
    """By the names that tables use, in lower case."""
    places: dict[str, str]
    """Where each of them is, as people write it."""
    overwriting: frozenset[str] = frozenset()
    """Those whose services overwrite objects that must be created only once."""

    @property
    def routed(self) -> ObjectStore:
        """One store that leads to all of them."""
        return RoutedStore(self.default, self.providers)

    def storages(self) -> list[StoragePlace]:
        """Return all of them, for backups."""
        return [StoragePlace(name, place, partial(self._get, name)) for name, place in self.places.items()]

    def _get(self, name: str) -> ObjectStore:
        return self.default if name == DEFAULT_STORE else self.providers[name]

    def find(self, name: str) -> tuple[ObjectStore, str]:
        """Return a store and its place; without a name, the default one."""
        found = self.default if not name else self.providers[name.lower()]
        return found, self.places[name.lower() or DEFAULT_STORE]

    def find_for_log(self, name: str) -> tuple[ObjectStore, str]:
        """Return a store that a log can be shared in; StartError if two processes could create the same object there.

        Then a process that was taken for dead could go on acknowledging rows that nobody reads.
        """
        store, place = self.find(name)
        if (name.lower() or DEFAULT_STORE) in self.overwriting:
            raise StartError(
                f"a shared log needs a store that creates an object only once, and {place} overwrites objects",
                hint="choose a service with conditional writes, for the log alone with wal.shared.storage, "
                "or set wal.shared.enable = false",
            )
        return store, place


def open_stores(storage: StorageBase) -> OpenStores:
    """Return the stores of the configuration, ready for use; StartError if one of them cannot be used."""
    _check_places(storage)
    sections = configured_storages(storage)
    default = open_store(DEFAULT_STORE, storage)
    others = {name: open_store(name, each) for name, each in sections.items() if each is not storage}
    cache = make_file_cache(storage, list(sections.values()))
    remote = {name: each for name, each in ({DEFAULT_STORE: default} | others).items() if isinstance(each, RemoteStore)}
    return OpenStores(
        with_cache(default, cache),
        {name: with_cache(each, cache, name) for name, each in others.items()},
        {name: place_of(name, each) for name, each in sections.items()},
        frozenset(name for name, each in remote.items() if not each.creates_only_once),
    )


def configured_storages(storage: StorageBase) -> dict[str, _Storage]:
    """Return the sections of all storages by the names that tables use, in lower case."""
    return {DEFAULT_STORE: storage, **{provider_name(each).lower(): each for each in storage.providers}}


def make_file_cache(storage: StorageBase, sections: Sequence[_Storage]) -> FileCache | None:
    """Return the file cache of all remote stores; None if there are only local ones, or no capacity."""
    if not storage.cache_capacity or all(isinstance(each, FileStorage | FileProvider) for each in sections):
        return None
    return FileCache(storage.cache_path, storage.cache_capacity)


def with_cache(store: ObjectStore, cache: FileCache | None, name: str = DEFAULT_STORE) -> ObjectStore:
    """Return a store with the file cache; local files need none."""
    return store if cache is None or isinstance(store, LocalStore) else CachedStore(store, cache, name)


def open_store(name: str, storage: _Storage) -> ObjectStore:
    """Return one store, ready for use."""
    settings = remote_settings(name, storage)
    if settings is None:
        return LocalStore(_directory(storage))
    try:
        with requests_for(Purpose.START):
            store = RemoteStore(replace(settings, prices=_prices(storage)))
            store.probe()
    except StoreError as error:
        raise StartError(f"storage {name}: {error.message}", hint=error.hint) from error
    return store


def _prices(storage: _Storage) -> RequestPrices:
    return RequestPrices(storage.price_per_thousand_writes, storage.price_per_thousand_reads)


def _directory(storage: _Storage) -> Path:
    assert isinstance(storage, StorageBase | FileProvider)
    return Path(storage.data_home)


def place_of(name: str, section: _Storage) -> str:
    """Return where a storage is, as people write it."""
    settings = remote_settings(name, section)
    return str(_directory(section)) if settings is None else settings.place


def _check_places(storage: StorageBase) -> None:
    """Refuse two storages in one place: each would take the regions of the other for lost ones."""
    seen: dict[str, str] = {}
    for name, each in [(DEFAULT_STORE, storage), *((provider_name(each), each) for each in storage.providers)]:
        settings = remote_settings(name, each)
        place = str(_directory(each).resolve()) if settings is None else _full_place(settings)
        if place in seen:
            shown = place if settings is None else settings.place
            raise StartError(
                f"storage {name}: {shown} is also the location of storage {seen[place]}", hint="choose another root"
            )
        seen[place] = name


def _full_place(settings: BucketSettings) -> str:
    return f"{settings.arguments.get('endpoint', '')} {settings.place}"


def remote_settings(name: str, section: _Storage) -> BucketSettings | None:
    """Return where a storage is, in the words of opendal; None if it is a local directory."""
    if isinstance(section, S3Options):
        return _s3(name, section)
    if isinstance(section, OssOptions):
        return _oss(name, section)
    if isinstance(section, AzblobOptions):
        return _azblob(name, section)
    return _gcs(name, section) if isinstance(section, GcsOptions) else None


def _s3(name: str, section: S3Options) -> BucketSettings:
    arguments = {
        "endpoint": section.endpoint,
        "region": section.region or (_REGION_OF_OTHERS if section.endpoint else ""),
        "access_key_id": section.access_key_id.get_secret_value(),
        "secret_access_key": section.secret_access_key.get_secret_value(),
    }
    if arguments["access_key_id"]:
        # Keys that are given are the only ones: no file or variable of the machine takes their place.
        arguments |= {"disable_config_load": "true", "disable_ec2_metadata": "true"}
    return _settings(name, "s3", {"bucket": section.bucket}, section.root, arguments)


def _oss(name: str, section: OssOptions) -> BucketSettings:
    arguments = {
        "endpoint": section.endpoint,
        "access_key_id": section.access_key_id.get_secret_value(),
        "access_key_secret": section.secret_access_key.get_secret_value(),
    }
    if _is_address(section.endpoint):
        # The bucket is a part of the host name, which an address does not have.
        arguments["addressing_style"] = "path"
    return _settings(name, "oss", {"bucket": section.bucket}, section.root, arguments)


def _azblob(name: str, section: AzblobOptions) -> BucketSettings:
    arguments = {
        "endpoint": section.endpoint,
        "account_name": section.account_name,
        "account_key": section.account_key.get_secret_value(),
        "sas_token": section.sas_token.get_secret_value(),
    }
    return _settings(name, "azblob", {"container": section.container}, section.root, arguments)


def _gcs(name: str, section: GcsOptions) -> BucketSettings:
    arguments = {
        "endpoint": section.endpoint,
        "scope": section.scope,
        "credential_path": section.credential_path,
    }
    if section.credential_path:
        arguments["disable_vm_metadata"] = "true"
    return _settings(name, "gcs", {"bucket": section.bucket}, section.root, arguments)


def _settings(name: str, scheme: str, bucket: dict[str, str], root: str, arguments: dict[str, str]) -> BucketSettings:
    path = "/".join(part for part in root.split("/") if part)
    (place,) = bucket.values()
    given = {key: value for key, value in {**bucket, "root": f"/{path}", **arguments}.items() if value}
    return BucketSettings(name, f"{scheme}://{place}/{path}".rstrip("/"), scheme, given)


def _is_address(endpoint: str) -> bool:
    host = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}").hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
