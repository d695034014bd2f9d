//! What the planted bugs of this crate do whose wrong value is not the least or the greatest of its type (feature
//! `mutants`).

#![allow(non_snake_case, reason = "each function has the name of its bug")]

use seawall::Lsn;

use crate::archive::{Archive, Store, message_name};
use crate::writer::{Outcome, Writer};

pub(crate) use self::{raise as ShipAckAtSend, raise as ShipAckOutOfOrder};
pub(crate) use std::convert::{
    identity as ManifestTrusted, identity as RetainByClockAlone, identity as RetainUntrimmed,
    identity as ShipLinkIgnored, identity as ShipNoteAhead, identity as ShipPartIsWhole,
    identity as ShipResendSecond, identity as ShipStatesUnstored,
};

pub(crate) fn raise(acknowledged: &mut Lsn, to: Option<Lsn>) {
    *acknowledged = (*acknowledged).max(to.unwrap_or_default());
}

/// Removes messages before the start that says so is stored.
pub(crate) fn RetainBeforeStart<S: Store>(archive: &mut Archive<S>, gone: &[u64]) {
    for position in gone {
        if archive.store().remove(&message_name(*position)).is_err() {
            return;
        }
    }
}

pub(crate) fn ShipLoserGoesOn(writer: &mut Writer) {
    writer.begin();
}

pub(crate) fn ShipNoEpoch(writer: &mut Writer) {
    if writer.known().number > 0 && !writer.known().is_open() {
        writer.ship();
    } else {
        writer.send_epoch();
    }
}

pub(crate) fn ShipRefusedIsStored(outcome: Outcome) -> Outcome {
    if matches!(outcome, Outcome::Refused(_)) { Outcome::Stored } else { outcome }
}

pub(crate) fn ShipUnknownIsStored(outcome: Outcome) -> Outcome {
    if matches!(outcome, Outcome::Unknown(_)) { Outcome::Stored } else { outcome }
}
