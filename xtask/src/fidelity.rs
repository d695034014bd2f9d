//! stub
pub(crate) fn run(_: &[String]) -> Result<(), String> { Ok(()) }
