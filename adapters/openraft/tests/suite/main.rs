//! Tests of the stores from outside, in one program, because each program that uses Openraft takes long to compile.

#![allow(clippy::duplicate_mod, reason = "each example has the parts of a node")]

#[cfg(all(feature = "openraft-09", feature = "openraft-010"))]
mod both;
#[cfg(feature = "openraft-09")]
mod cluster;
#[cfg(feature = "openraft-09")]
mod groups;
#[cfg(feature = "openraft-010")]
#[path = "../../examples/kv010.rs"]
#[allow(dead_code, reason = "its types and its state machine are used")]
mod kv010;
#[cfg(feature = "openraft-09")]
#[path = "../../examples/kv09.rs"]
#[allow(dead_code, reason = "its types and its state machine are used")]
mod kv09;
#[cfg(feature = "openraft-09")]
mod old;
#[cfg(feature = "openraft-09")]
mod restart;
#[cfg(any(feature = "openraft-09", feature = "openraft-010"))]
mod scratch;
#[cfg(feature = "openraft-010")]
mod suite_010;
#[cfg(feature = "openraft-09")]
mod suite_09;
