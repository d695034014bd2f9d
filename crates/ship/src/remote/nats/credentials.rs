//! Reads the NATS credentials from the environment variables and contexts of its command-line tool.
//!
//! ```text
//!   NATS_CREDS                    a .creds file
//!   NATS_USER and NATS_PASSWORD   NATS_TOKEN   NATS_NKEY (a file with a seed)
//!   NATS_CA   NATS_CERT and NATS_KEY           certificates
//!   NATS_CONTEXT                  the name of a context of the tool, or its file: the same, from there
//! ```
//!
//! Invariants: the environment and a context give credentials only, never an address: only clusters that the caller
//! named are contacted; a setting that names an unreadable file is an error.

use crate::remote::{Error, Result};
use async_nats::ConnectOptions;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What is known of credentials; a context of the tool holds these fields, and others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Credentials {
    user: String,
    password: String,
    token: String,
    creds: String,
    nkey: String,
    cert: String,
    key: String,
    ca: String,
}

/// The environment's credentials.
pub(super) fn find_in_environment() -> Result<Credentials> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    find(variable, |path| std::fs::read_to_string(path))
}

/// The credentials that the variables name.
fn find(
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&Path) -> std::io::Result<String>,
) -> Result<Credentials> {
    let mut found = match variable("NATS_CONTEXT") {
        None => Credentials::default(),
        Some(context) => {
            let path = context_file(&context, &variable);
            let parsed = read(&path).and_then(|text| Ok(serde_json::from_str(&text)?));
            parsed.map_err(Error::io("read the file that NATS_CONTEXT names,", &path))?
        }
    };
    for (name, field) in [
        ("NATS_USER", &mut found.user),
        ("NATS_PASSWORD", &mut found.password),
        ("NATS_TOKEN", &mut found.token),
        ("NATS_CREDS", &mut found.creds),
        ("NATS_NKEY", &mut found.nkey),
        ("NATS_CERT", &mut found.cert),
        ("NATS_KEY", &mut found.key),
        ("NATS_CA", &mut found.ca),
    ] {
        if let Some(value) = variable(name) {
            *field = value;
        }
    }
    if found.cert.is_empty() != found.key.is_empty() {
        return Err(Error::failed("NATS_CERT and NATS_KEY go together", "one of them is missing"));
    }
    Ok(found)
}

/// A context's file: as named, or where the tool keeps it.
fn context_file(context: &str, variable: &impl Fn(&str) -> Option<String>) -> PathBuf {
    if context.contains(['/', '\\']) {
        return PathBuf::from(context);
    }
    let home = || PathBuf::from(variable("HOME").unwrap_or_default()).join(".config");
    let config = variable("XDG_CONFIG_HOME").map_or_else(home, PathBuf::from);
    config.join("nats").join("context").join(format!("{context}.json"))
}

impl Credentials {
    /// Whether a secret goes over the wire as it is. Keys and .creds files sign and stay here.
    pub(super) fn has_secret(&self) -> bool {
        !self.password.is_empty() || !self.token.is_empty()
    }

    /// Whether it makes the connection encrypted, whatever the address says.
    pub(super) fn is_encrypted(&self) -> bool {
        !self.ca.is_empty() || !self.cert.is_empty()
    }

    /// Adds them to `options`.
    pub(super) async fn apply(self, mut options: ConnectOptions) -> Result<ConnectOptions> {
        if !self.creds.is_empty() {
            let read = options.credentials_file(&self.creds).await;
            options = read.map_err(Error::io("read the credentials in", Path::new(&self.creds)))?;
        } else if !self.nkey.is_empty() {
            let seed = std::fs::read_to_string(&self.nkey)
                .map_err(Error::io("read the seed in", Path::new(&self.nkey)))?;
            options = options.nkey(seed.trim().to_owned());
        } else if !self.user.is_empty() {
            options = options.user_and_password(self.user, self.password);
        } else if !self.token.is_empty() {
            options = options.token(self.token);
        }
        if !self.ca.is_empty() {
            options = options.add_root_certificates(PathBuf::from(self.ca)).require_tls(true);
        }
        if !self.cert.is_empty() {
            options = options.add_client_certificate(self.cert.into(), self.key.into()).require_tls(true);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<Credentials> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        find(variable, |path| {
            match path.to_str() {
            Some("/home/me/.config/nats/context/work.json") => Ok(
                r#"{"description":"","url":"nats://other:4222","user":"me","password":"secret","ca":"ca.pem"}"#
                    .to_owned(),
            ),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        }
        })
    }

    #[test]
    fn a_context_gives_credentials_and_variables_go_before_it() {
        let context = [("HOME", "/home/me"), ("NATS_CONTEXT", "work")];
        let credentials = found(&context).expect("read");
        assert_eq!(
            (credentials.user.as_str(), credentials.password.as_str(), credentials.ca.as_str()),
            ("me", "secret", "ca.pem")
        );
        let credentials = found(&[context[0], context[1], ("NATS_USER", "you")]).expect("read");
        assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("you", "secret"));
        assert_eq!(found(&[]).expect("none"), Credentials::default());
    }

    #[test]
    fn what_cannot_be_read_or_is_half_there_is_an_error_that_names_it() {
        let missing = found(&[("NATS_CONTEXT", "/nowhere/x.json")]).expect_err("missing").to_string();
        assert!(missing.contains("/nowhere/x.json"), "{missing}");
        let half = found(&[("NATS_CERT", "cert.pem")]).expect_err("half").to_string();
        assert!(half.contains("NATS_KEY"), "{half}");
    }
}
