"""The metadata server: what decides for a cluster. So far, which of several servers does."""

from tsdb.meta.election import CANDIDATES, LEADER, MetasrvElection

__all__ = ["CANDIDATES", "LEADER", "MetasrvElection"]
