//! Authenticates frames: two HMAC keys derived from a shared token and fresh nonces.
//!
//! Both sides hold a token; it never goes over the wire. Each side sends a fresh nonce, and both derive two keys from
//! the token and the nonces, one for each direction. Every frame from then on carries a tag made with its direction's
//! key over the frame, its number included. So a frame proves that its sender knows the token now, and cannot be
//! replayed, reordered, reflected or changed.
//!
//! ```text
//!   key of a direction = HMAC-SHA-256(token, "seawall powercut 2 " ‖ direction ‖ runner's nonce ‖ witness's nonce)
//!   tag of a frame     = first 16 bytes of HMAC-SHA-256(key, header ‖ payload)
//! ```
//!
//! Frames are not encrypted: anyone on the network can read how much was written when. They contain nothing else.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::error::{Error, Result};

/// The shortest token in bytes: 128 bits if they are random.
const TOKEN_BYTES_MIN: usize = 16;
/// The longest token file that is read, in bytes.
const TOKEN_BYTES_MAX: u64 = 4096;
/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 16;
/// Bytes of a nonce.
pub(crate) const NONCE_BYTES: usize = 32;

/// A fresh number that cannot be guessed.
pub(crate) type Nonce = [u8; NONCE_BYTES];
/// What proves a frame.
pub(crate) type Tag = [u8; TAG_BYTES];

/// The secret that both sides know.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Reads a token from a file; white space around it does not count.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::Token`] if it is shorter than 16 bytes or longer than 4096.
    pub fn read(path: &Path) -> Result<Self> {
        let mut text = Vec::new();
        let file = File::open(path).map_err(|source| Error::Token {
            path: path.to_owned(),
            what: format!("cannot be opened ({source})"),
        })?;
        file.take(TOKEN_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(|error| Error::io("read", path, error))?;
        let wrong = |what: &str| Error::Token { path: path.to_owned(), what: what.to_owned() };
        if text.len() as u64 > TOKEN_BYTES_MAX {
            return Err(wrong("is longer than 4096 bytes"));
        }
        let token = text.trim_ascii();
        if token.len() < TOKEN_BYTES_MIN {
            return Err(wrong("holds fewer than 16 bytes, which can be guessed"));
        }
        Ok(Self(token.to_vec()))
    }

    /// The keys of one connection.
    pub(crate) fn session(&self, runner: &Nonce, witness: &Nonce) -> Session {
        let key = |direction: &[u8]| {
            let mut mac = keyed(&self.0);
            for part in [b"seawall powercut 2 ", direction, runner, witness] {
                mac.update(part);
            }
            mac.finalize().into_bytes().into()
        };
        Session { to_witness: Key(key(b"to the witness  ")), from_witness: Key(key(b"from the witness")) }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

/// HMAC takes keys of any length.
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    match Hmac::new_from_slice(key) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of any length"),
    }
}

/// The keys of both directions.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) to_witness: Key,
    pub(crate) from_witness: Key,
}

/// The key of one direction of one connection.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl Key {
    /// The tag of a frame.
    pub(crate) fn tag(&self, frame: &[u8]) -> Tag {
        let mut mac = keyed(&self.0);
        mac.update(frame);
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&whole[..TAG_BYTES]);
        tag
    }

    /// Whether the tag is that of the frame; takes the same time whatever differs.
    pub(crate) fn proves(&self, frame: &[u8], tag: &Tag) -> bool {
        let mut mac = keyed(&self.0);
        mac.update(frame);
        mac.verify_truncated_left(tag).is_ok()
    }
}

/// Fresh random bytes.
///
/// # Errors
/// The system has none to give.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Error::Io {
        operation: "draw",
        place: "random numbers".to_owned(),
        source: std::io::Error::other(error.to_string()),
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{NONCE_BYTES, Token, random};
    use crate::error::Error;

    #[test]
    fn a_tag_depends_on_token_nonces_direction_and_every_byte() {
        let (token, other) = (Token::of(b"sixteen bytes ok"), Token::of(b"sixteen bytes no"));
        let (a, b) = ([1; NONCE_BYTES], [2; NONCE_BYTES]);
        let session = token.session(&a, &b);
        let tag = session.to_witness.tag(b"frame");
        assert!(session.to_witness.proves(b"frame", &tag));
        assert!(!session.to_witness.proves(b"frbme", &tag));
        assert!(!session.from_witness.proves(b"frame", &tag));
        assert!(!token.session(&b, &a).to_witness.proves(b"frame", &tag));
        assert!(!token.session(&a, &a).to_witness.proves(b"frame", &tag));
        assert!(!other.session(&a, &b).to_witness.proves(b"frame", &tag));
        for byte in 0..tag.len() {
            let mut changed = tag;
            changed[byte] ^= 0x80;
            assert!(!session.to_witness.proves(b"frame", &changed), "byte {byte}");
        }
    }

    #[test]
    fn token_files_that_can_be_guessed_or_are_none_are_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("token");
        assert!(matches!(Token::read(&path), Err(Error::Token { .. })), "there is none");
        for bad in [vec![b'x'; 15], vec![b' '; 40], vec![b'x'; 4097]] {
            std::fs::write(&path, bad).expect("written");
            let refused = Token::read(&path).expect_err("is refused").to_string();
            assert!(refused.contains("urandom"), "names a remedy: {refused}");
        }
        std::fs::write(&path, b" sixteen bytes ok\n").expect("written");
        let token = Token::read(&path).expect("is one");
        assert_eq!(token.0, b"sixteen bytes ok");
        assert_eq!(format!("{token:?}"), "Token(…)", "a token is never printed");
    }

    #[test]
    fn random_bytes_differ() {
        assert_ne!(random::<32>().expect("random"), random::<32>().expect("random"));
    }
}
