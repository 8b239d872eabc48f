"""The `[storage]` section: where data files live, one shape for each type of storage.

The section is a union over `type`. Keys common to all types are on `StorageBase`; each entry of `[[storage.providers]]`
is one more storage that a table can choose when it is created.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, SecretStr, Tag

from tsdb.config._fields import (
    PriceValue,
    RequiredStringValue,
    SecretValue,
    Section,
    SizeValue,
    StringValue,
    fold_name,
)
from tsdb.units import Size

_UNSET = SecretStr("")


class StorageType(StrEnum):
    FILE = "File"
    S3 = "S3"
    OSS = "Oss"
    AZBLOB = "Azblob"
    GCS = "Gcs"


# `Gsc` is the spelling of the interface's option table; it means Google Cloud Storage as `Gcs` does.
_TYPE_NAMES = {fold_name(member.value): member for member in StorageType} | {"gsc": StorageType.GCS}


def parse_storage_type(name: object) -> StorageType | None:
    """Return the storage type that a name stands for, in any spelling of it."""
    return _TYPE_NAMES.get(fold_name(name)) if isinstance(name, str) else None


_TYPE_MEANING = "Storage type: File, S3, Oss, Azblob or Gcs (also spelled Gsc)."
_ParsedType = BeforeValidator(parse_storage_type)


class _File(Section):
    """Files on a local disk."""

    type: Annotated[Literal[StorageType.FILE], _ParsedType] = Field(default=StorageType.FILE, description=_TYPE_MEANING)


class S3Options(Section):
    """AWS S3 and compatible services."""

    type: Annotated[Literal[StorageType.S3], _ParsedType] = Field(description=_TYPE_MEANING)
    bucket: RequiredStringValue = Field(description="Bucket name.")
    root: StringValue = Field(default="", description="Root path in the bucket.")
    endpoint: StringValue = Field(default="", description="API endpoint; empty: the default of the service.")
    region: StringValue = Field(default="", description="Region of the bucket.")
    access_key_id: SecretValue = Field(default=_UNSET, description="Access key id.")
    secret_access_key: SecretValue = Field(default=_UNSET, description="Secret access key.")


class OssOptions(Section):
    """Aliyun OSS."""

    type: Annotated[Literal[StorageType.OSS], _ParsedType] = Field(description=_TYPE_MEANING)
    bucket: RequiredStringValue = Field(description="Bucket name.")
    root: StringValue = Field(default="", description="Root path in the bucket.")
    endpoint: RequiredStringValue = Field(description="API endpoint.")
    access_key_id: SecretValue = Field(default=_UNSET, description="Access key id.")
    secret_access_key: SecretValue = Field(default=_UNSET, description="Secret access key.")


class AzblobOptions(Section):
    """Azure Blob Storage."""

    type: Annotated[Literal[StorageType.AZBLOB], _ParsedType] = Field(description=_TYPE_MEANING)
    container: RequiredStringValue = Field(description="Container name.")
    root: StringValue = Field(default="", description="Root path in the container.")
    endpoint: RequiredStringValue = Field(description="API endpoint.")
    account_name: StringValue = Field(default="", description="Account name.")
    account_key: SecretValue = Field(default=_UNSET, description="Access key of the account.")
    sas_token: SecretValue = Field(default=_UNSET, description="Shared access signature, instead of an account key.")


class GcsOptions(Section):
    """Google Cloud Storage."""

    type: Annotated[Literal[StorageType.GCS], _ParsedType] = Field(description=_TYPE_MEANING)
    bucket: RequiredStringValue = Field(description="Bucket name.")
    root: StringValue = Field(default="", description="Root path in the bucket.")
    scope: StringValue = Field(default="", description="Service scope.")
    credential_path: StringValue = Field(default="", description="Path of the credentials file.")
    endpoint: StringValue = Field(default="", description="API endpoint; empty: the default of the service.")


class _Prices(Section):
    """What a service bills for requests, for the estimate in information_schema.storage_requests."""

    price_per_thousand_writes: PriceValue = Field(
        default=0.005, description="Price of 1,000 requests that write or list, in any currency; deletes are free."
    )
    price_per_thousand_reads: PriceValue = Field(
        default=0.0004, description="Price of 1,000 requests that read, in the same currency."
    )


class ProviderBase(_Prices):
    """What every entry of `[[storage.providers]]` has."""

    name: StringValue = Field(default="", description="Name for CREATE TABLE … WITH (storage = '…'). Empty: its type.")


class FileProvider(ProviderBase, _File):
    """One more local directory."""

    data_home: RequiredStringValue = Field(description="Root directory of this storage.")


class S3Provider(ProviderBase, S3Options):
    """One more S3 bucket."""


class OssProvider(ProviderBase, OssOptions):
    """One more OSS bucket."""


class AzblobProvider(ProviderBase, AzblobOptions):
    """One more Azure container."""


class GcsProvider(ProviderBase, GcsOptions):
    """One more Google Cloud Storage bucket."""


Provider: TypeAlias = FileProvider | S3Provider | OssProvider | AzblobProvider | GcsProvider


def provider_name(provider: Provider) -> str:
    """Return how tables call a provider."""
    return provider.name or provider.type.value


def _type_of(value: Any) -> str | None:
    """Tell pydantic which shape a storage table has; None means that no shape fits."""
    name = value.get("type", StorageType.FILE) if isinstance(value, dict) else getattr(value, "type", None)
    return parse_storage_type(name)


ProviderOptions = Annotated[
    Annotated[FileProvider, Tag("File")]
    | Annotated[S3Provider, Tag("S3")]
    | Annotated[OssProvider, Tag("Oss")]
    | Annotated[AzblobProvider, Tag("Azblob")]
    | Annotated[GcsProvider, Tag("Gcs")],
    Discriminator(_type_of),
]


class StorageBase(_Prices):
    """What every type of storage has."""

    data_home: RequiredStringValue = Field(
        default="/tmp/tsdb",
        description="Local root directory: data files with type File; metadata and working files with any type.",
    )
    cache_path: StringValue = Field(
        default="",
        description="Local directory for copies of data files, with any type except File. Empty: {data_home}/cache.",
    )
    cache_capacity: SizeValue = Field(
        default=Size.parse("5GB"),
        description="Maximum total size of the files in cache_path; 0: no file cache.",
    )
    providers: list[ProviderOptions] = Field(
        default=[], description="Additional storages; a table selects one at creation."
    )


class FileStorage(StorageBase, _File):
    """Data on a local disk."""


class S3Storage(StorageBase, S3Options):
    """Data in AWS S3 or a compatible service."""


class OssStorage(StorageBase, OssOptions):
    """Data in Aliyun OSS."""


class AzblobStorage(StorageBase, AzblobOptions):
    """Data in Azure Blob Storage."""


class GcsStorage(StorageBase, GcsOptions):
    """Data in Google Cloud Storage."""


StorageOptions = Annotated[
    Annotated[FileStorage, Tag("File")]
    | Annotated[S3Storage, Tag("S3")]
    | Annotated[OssStorage, Tag("Oss")]
    | Annotated[AzblobStorage, Tag("Azblob")]
    | Annotated[GcsStorage, Tag("Gcs")],
    Discriminator(_type_of),
]

STORAGE_MODELS: dict[StorageType, type[StorageBase]] = {
    StorageType.FILE: FileStorage,
    StorageType.S3: S3Storage,
    StorageType.OSS: OssStorage,
    StorageType.AZBLOB: AzblobStorage,
    StorageType.GCS: GcsStorage,
}

PROVIDER_MODELS: dict[StorageType, type[ProviderBase]] = {
    StorageType.FILE: FileProvider,
    StorageType.S3: S3Provider,
    StorageType.OSS: OssProvider,
    StorageType.AZBLOB: AzblobProvider,
    StorageType.GCS: GcsProvider,
}
