"""Queries that a fast worker can perhaps answer, whose rows it encodes as packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tsdb.database import Channel, Records, Session, with_headings
from tsdb.servers.fast_workers import FastStatements, single_query
from tsdb.servers.mysql._answers import PacketEncoder
from tsdb.servers.mysql._protocol import Capability
from tsdb.sql import Dialect


class FastPackets(NamedTuple):
    """Encodes the rows of one query; it travels to the worker."""

    text: str
    database: str
    time_zone: str
    autocommit: str
    capabilities: int
    sequence: int
    is_binary: bool

    def __call__(self, records: Records) -> Iterator[bytes]:
        session = Session(
            channel=Channel.MYSQL,
            database=self.database,
            time_zone=self.time_zone,
            variables={"autocommit": self.autocommit},
        )
        answer = PacketEncoder(session, Capability(self.capabilities), self.sequence)
        return answer.rows(with_headings(records, self.text, Dialect.MYSQL), is_binary=self.is_binary, has_more=False)


async def answer_fast(
    fast: FastStatements, text: str, session: Session, *, capabilities: int, sequence: int, is_binary: bool
) -> bytes | None:
    """Return the packets that answer a query of a known shape; None if it has to be run as any other statement."""
    query = single_query(text) if fast.are_wanted else None
    if query is None:
        return None
    encode = FastPackets(
        query,
        session.database,
        session.time_zone,
        session.variables.get("autocommit", ""),
        capabilities,
        sequence,
        is_binary,
    )
    return await fast.answer(query, session, encode)
