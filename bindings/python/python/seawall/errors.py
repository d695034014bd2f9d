"""The exceptions of the package: one class for each kind of failure, with what it is about as attributes.

Catch ``Error`` for any of them. No failure has to be recognised by its text.
"""

from __future__ import annotations


class Error(Exception):
    """Any failure of the log or of the queue."""

    errno: int | None = None
    """The error number of the operating system behind it, if there is one."""
    path: str | None = None
    """The file or directory that it is about, if it is about one; ``os.fsencode`` gives the bytes of its name."""
    lsn: int | None = None
    """The LSN that it is about, if it is about one."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


class IoError(Error, OSError):
    """The operating system refused an operation; ``errno``, ``strerror`` and ``filename`` as of any ``OSError``."""

    operation: str
    """The operation, as a verb: ``open``, ``write``, ``sync``."""


class NotFound(IoError, FileNotFoundError):
    """A file or directory is not there."""


class NotPermitted(IoError, PermissionError):
    """This user may not do that with the file or directory."""


class DiskFull(IoError):
    """No space is left for another segment. Nothing was written and the log stays open; try again when there is space."""


class DiskCap(Error):
    """The log takes as much of the disk as ``disk_bytes_max`` allows. Nothing was written: trim it, or open it with a larger bound."""

    bytes_max: int
    """The bound in bytes."""
    disk_bytes: int
    """What the log takes now, in bytes."""
    needed: int
    """The size of the segment that is needed, in bytes."""


class Locked(Error):
    """Another writer holds the log: close it first."""


class Failed(Error):
    """A write or a sync failed earlier; its outcome is unknown. Reopen the log to learn what is durable.

    ``__cause__`` is the first failure.
    """


class Corrupt(Error):
    """Acknowledged data is damaged: ``verify`` reports all of it, ``salvage`` copies what is intact."""

    offset: int
    """Where in the segment the damaged batch starts, in bytes."""
    what: str
    """What is wrong there."""


class NewerFormat(Error):
    """A segment was written by a newer version of the log."""

    version: int
    """Its format version."""


class OlderFormat(Error):
    """A segment was written by an earlier version of the log in a format that this one does not read."""

    version: int
    """Its format version."""


class UnknownFeature(Error):
    """A segment uses a feature of the format that this version does not have."""

    feature: str
    """What it needs, in words."""


class ForeignSegment(Error):
    """Segments of different logs lie in this directory."""


class ForeignFile(Error):
    """A foreign file in the directory has the name of a segment."""


class OtherLog(Error):
    """Another log was put at the path of the one that was followed."""


class NotALog(Error, FileNotFoundError):
    """The directory holds no log, or is not there."""


class NoDirectory(NotALog, NotFound):
    """What is looked at without being made, by ``View`` and ``verify``, is not there."""


class Rebuilding(Error):
    """The directory is that of a rebuild or a standby that is not finished."""


class BlocksTooSmall(Error):
    """The disk takes no writes as small as the log's blocks."""

    block_bytes: int
    """Size of the log's blocks in bytes."""
    sector_bytes: int
    """Size of the disk's sectors in bytes."""


class TooLong(Error):
    """The record or transaction is longer than the log accepts."""

    bytes: int
    """Its length in bytes."""
    bytes_max: int
    """The bound in bytes."""


class WouldBlock(Error):
    """The memory for appends is full, or no prepared segment has room, and the caller requested not to wait."""


class TimedOut(Error, TimeoutError):
    """A wait with a deadline ended without a result. Nothing was cancelled: what was appended may still become durable."""

    timeout: float
    """How long it waited, in seconds."""


class Trimmed(Error):
    """The requested record was trimmed."""

    first: int
    """The first LSN that is left."""


class NoRecord(Error):
    """No record starts or ends at the LSN: it lies inside a record."""


class BeyondEnd(Error):
    """The LSN lies past the end of the log."""

    end: int
    """The end of the log."""


class StreamError(Error):
    """A place of a stream has no record."""

    stream: int
    """The stream."""
    seq: int
    """The sequence number that was named, or that is missing."""


class StreamTrimmed(StreamError):
    """A record of a stream was trimmed."""

    first: int
    """The first sequence number that is left."""


class StreamGap(StreamError):
    """A record of a stream is missing, as in a log that was salvaged with a gap."""

    next: int
    """The next sequence number that is there."""


class StreamEnd(StreamError):
    """A stream has no durable record of this sequence number yet."""

    next: int
    """The sequence number that the next record gets."""


class BeyondPromise(Error):
    """A commit requested a higher durability than the log promises."""

    requested: str
    """The durability that was requested."""
    promised: str
    """The durability that the log was opened with."""


class InvalidOption(Error, ValueError):
    """An option lies outside its bounds."""

    option: str
    """The option's name."""


class QueueOwner(Error):
    """The process that owns the queue refused, with an error that has no class here: the text is that of its error."""


class NotAQueue(NotALog):
    """The directory holds a log that is not a queue."""


class ForeignRecord(Error):
    """A record of the log is not one of a queue."""


class NoMessage(Error):
    """The queue never handed out this message."""

    seq: int
    """Its sequence number."""


class NoAnswer(Error):
    """The process that owns the queue does not answer. What was put may be stored."""

    timeout: float
    """How long it was waited for, in seconds."""


class QueueVersion(Error):
    """The process that owns the queue speaks another version of the protocol."""

    owner: int
    """Its version."""


class Closed(Error):
    """The log, the queue or the transaction was closed."""


class Forked(Error):
    """This process was forked off the one that opened the log, which still uses it."""
