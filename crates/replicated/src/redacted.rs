//! Formats addresses without their passwords: the part before the `@` is omitted.

/// Addresses separated by commas, without users, passwords and tokens.
pub(crate) fn addresses(text: &str) -> String {
    text.split(',').map(address).collect::<Vec<_>>().join(",")
}

fn address(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (scheme, rest));
    let told = rest.rsplit_once('@').map_or_else(|| rest.to_owned(), |(_, host)| format!("…@{host}"));
    if scheme.is_empty() { told } else { format!("{scheme}://{told}") }
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn users_and_passwords_are_left_out_and_nothing_else() {
        assert_eq!(addresses("nats://a:p@ss@host:1,host2:2"), "nats://…@host:1,host2:2");
        assert_eq!(addresses("token@host"), "…@host");
        assert_eq!(addresses("host:9092"), "host:9092");
    }
}
