//! Shrinks a finding to the least that was lost, and names the call that is missing.
