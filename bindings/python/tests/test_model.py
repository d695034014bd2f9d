"""The log against a list, over any sequence of steps."""

from __future__ import annotations

import shutil
import warnings
from typing import Any

import hypothesis.strategies as st
from conftest import SMALL, Scratch, payloads
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import seawall

RECORDS = st.binary(max_size=40) | st.integers(0, 30_000).map(bytes)


class LogMachine(RuleBasedStateMachine):
    """Records with their LSNs in a list, how many of them are committed, and those that were trimmed."""

    @initialize()
    def make(self) -> None:
        self.folder = Scratch.new()
        self.records: list[tuple[int, bytes]] = []
        self.committed = 0
        self.trimmed: list[tuple[int, bytes]] = []
        self.open()

    def open(self) -> None:
        self.log = seawall.Log(self.folder / "log", **SMALL, idle_mark=3600)

    def shown(self) -> list[tuple[int, bytes]]:
        return [(record.lsn, record.payload) for record in self.log]

    @rule(record=RECORDS)
    def append(self, record: bytes) -> None:
        self.records.append((self.log.append(record).start, record))

    @rule(records=st.lists(RECORDS, max_size=4))
    def transaction(self, records: list[bytes]) -> None:
        begin = self.log.appended_lsn
        with self.log.transaction() as tx:
            for record in records:
                tx.append(record)
        assert tx.lsn is not None
        # What cuts and streams need may be appended again in front of it.
        lsn = tx.lsn - sum(4 + len(record) for record in records)
        assert lsn >= begin
        for record in records:
            self.records.append((lsn, record))
            lsn += 4 + len(record)

    @rule()
    def commit(self) -> None:
        self.log.commit()
        self.committed = len(self.records)

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self.committed = len(self.records)
        self.open()
        assert self.log.opened.tail == "clean"

    @rule()
    def crash_and_open(self) -> None:
        """Nothing is committed, as by a crash of the process: a prefix is left, with all that was committed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            del self.log
        self.open()
        left = self.shown()
        # A trim is durable with the next batch: what it trimmed may be back.
        self.records = self.trimmed + self.records
        self.committed += len(self.trimmed)
        back = sum(begin < self.log.first_lsn for begin, _ in self.records)
        self.trimmed = self.records[:back]
        assert left == self.records[back : back + len(left)]
        assert len(left) >= self.committed - back
        self.records = left
        self.committed = len(left)

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def trim(self, data: Any) -> None:
        at = data.draw(st.integers(0, self.committed))
        lsn = self.records[at][0] if at < len(self.records) else self.log.appended_lsn
        before = self.log.first_lsn
        first = self.log.trim(lsn)
        assert before <= first <= max(lsn, before)
        gone = sum(begin < first for begin, _ in self.records)
        self.trimmed += self.records[:gone]
        self.records = self.records[gone:]
        self.committed -= gone

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def truncate(self, data: Any) -> None:
        at = data.draw(st.integers(0, self.committed - 1))
        lsn = self.records[at][0]
        self.log.commit(self.log.truncate_after(lsn))
        self.records = self.records[:at]
        self.committed = len(self.records)

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def read_at(self, data: Any) -> None:
        begin, record = data.draw(st.sampled_from(self.records))
        if begin + 4 + len(record) <= self.log.durable_lsn:
            assert self.log.read_at(begin).payload == record

    @invariant()
    def equals_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        shown = self.shown()
        assert shown == self.records[: len(shown)]
        assert len(shown) >= self.committed

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            assert payloads(seawall.View(self.folder / "log")) == [record for _, record in self.records]
            assert seawall.verify(self.folder / "log").damage == []
            shutil.rmtree(self.folder)


TestLog = LogMachine.TestCase
