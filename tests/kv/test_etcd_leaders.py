"""Leaders that cannot reach etcd, or stood still: none is believed too long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kv.campaign import campaign
from tests.kv.counting import PATIENCE
from tests.kv.etcd_process import (
    QUICK,
    EtcdProcess,
    connect,
    new_prefix,
)
from tsdb.kv import (
    Election,
    LeadershipLost,
    PutKey,
)


def test_a_lease_is_given_up_when_etcd_does_not_answer_for_its_time(own_etcd: EtcdProcess) -> None:
    store = connect(own_etcd.url, tuning=replace(QUICK, attempt_seconds=0.3))
    lost = threading.Event()
    leads = campaign(Election(store, "leader", candidate=b"me", ttl_seconds=2), PATIENCE, lambda _: lost.set())
    assert leads is not None
    own_etcd.send(signal.SIGSTOP)
    assert lost.wait(PATIENCE)
    assert not leads.is_held()
    with pytest.raises(LeadershipLost):
        leads.transact([], [PutKey("a", b"1")])
    own_etcd.send(signal.SIGCONT)
    again = campaign(Election(store, "leader", candidate=b"me again", ttl_seconds=60), PATIENCE)
    assert again is not None
    assert not store.transact([leads.proof], [PutKey("a", b"1")])
    assert again.transact([], [PutKey("a", b"2")])
    store.close()


CHILD = """
import sys
from tests.kv.campaign import campaign
from tests.kv.etcd_process import connect
from tsdb.kv import Election, LeadershipLost, PutKey
def say(text):
    sys.stdout.write(text + "\\n")  # at once, because two threads say something
    sys.stdout.flush()
store = connect(sys.argv[1], prefix=sys.argv[2])
leads = campaign(Election(store, "leader", candidate=b"child", ttl_seconds=2), 60, lambda _: say("lost"))
say("leads" if leads.is_held() else "no")
sys.stdin.readline()
say("held" if leads.is_held() else "not held")
say("wrote" if store.transact([leads.proof], [PutKey("a", b"child")]) else "refused")
"""


def test_a_leader_that_stood_still_cannot_write_when_it_wakes(etcd: EtcdProcess) -> None:
    prefix = new_prefix()
    store = connect(etcd.url, prefix=prefix)
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, etcd.url, prefix],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "leads\n"
        child.send_signal(signal.SIGSTOP)
        leads = campaign(Election(store, "leader", candidate=b"me", ttl_seconds=60), PATIENCE)
        assert leads is not None
        assert leads.transact([], [PutKey("a", b"me")])
        child.send_signal(signal.SIGCONT)
        child.stdin.write("\n")
        child.stdin.close()
        said = sorted(child.stdout.read().split("\n"))
    assert [line for line in said if line] == ["lost", "not held", "refused"]
    assert store.get("a") == b"me"
    store.close()
