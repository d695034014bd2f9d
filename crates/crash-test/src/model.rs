//! What of a record may have arrived on the disk when the power went.
