//! Tests of the stores from outside, in one program, because each program that uses Openraft takes long to compile.

#[cfg(all(feature = "openraft-09", feature = "openraft-010"))]
mod both;
#[cfg(feature = "openraft-09")]
mod cluster;
#[cfg(feature = "openraft-09")]
mod groups;
#[cfg(feature = "openraft-010")]
#[path = "../machine/v010.rs"]
mod machine_v010;
#[cfg(feature = "openraft-09")]
#[path = "../machine/v09.rs"]
mod machine_v09;
#[cfg(feature = "openraft-09")]
mod restart;
#[cfg(any(feature = "openraft-09", feature = "openraft-010"))]
mod scratch;
#[cfg(feature = "openraft-010")]
mod suite_010;
#[cfg(feature = "openraft-09")]
mod suite_09;
