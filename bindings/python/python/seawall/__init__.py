"""A durable transaction log, a queue on top of it, and a gauge that measures what a durable commit costs on your disk.

>>> from seawall import Log
>>> with Log("orders") as log:                 # creates or recovers the log in the directory orders
...     log.append_commit(b"order 1")          # on the disk: survives a power cut
...     for record in log:
...         print(record.payload)

``Log`` is the log of one writing process, ``View`` reads it from any other, ``verify`` lists what is damaged, ``salvage`` copies what
is intact, ``backup`` copies a log while it is written. ``Queue`` hands messages out at least once, to any number of processes. ``probe`` measures a commit within a
second, ``bench`` every method of committing.
"""

from . import errors
from ._seawall import (
    Append,
    Follower,
    Log,
    Message,
    Pin,
    Queue,
    Reader,
    Record,
    Stream,
    StreamAppend,
    Transaction,
    View,
    ViewStream,
    backup,
    probe,
    salvage,
    verify,
)
from .errors import Error
from .gauge import BenchResult, bench, scenarios
from .results import (
    Backup,
    Damage,
    DeadLetter,
    Finding,
    Opened,
    Peeked,
    Probe,
    QueueStats,
    Report,
    Row,
    Salvaged,
    Stats,
    Summary,
    Tried,
)

__all__ = [
    "Append",
    "Backup",
    "BenchResult",
    "Damage",
    "DeadLetter",
    "Error",
    "Finding",
    "Follower",
    "Log",
    "Message",
    "Opened",
    "Peeked",
    "Pin",
    "Probe",
    "Queue",
    "QueueStats",
    "Reader",
    "Record",
    "Report",
    "Row",
    "Salvaged",
    "Stats",
    "Stream",
    "StreamAppend",
    "Summary",
    "Transaction",
    "Tried",
    "View",
    "ViewStream",
    "backup",
    "bench",
    "errors",
    "probe",
    "salvage",
    "scenarios",
    "verify",
]
