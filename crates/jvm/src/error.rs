//! Defines why there is no JDK, no jar or no answer, with the remedy.

use crate::find::Jdk;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a JVM cannot write, or did not.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A JDK is older than the measuring program.
    OldJdk(Jdk),
    /// No JDK was found.
    NoJdkFound,
    /// There is no jar, and no folder to build it in.
    NoPlace,
    /// No JDK can build the jar.
    NoCompiler,
    /// The operating system refused an operation.
    Io {
        /// What was being done, as a verb.
        operation: &'static str,
        /// The file, folder or program it was done to.
        path: PathBuf,
        /// The cause.
        source: io::Error,
        /// What to do about it; may be empty.
        remedy: &'static str,
    },
    /// Maven could not build the jar; its first message.
    Maven(String),
    /// The jar's first line is none of the measuring program.
    Foreign {
        /// The jar.
        jar: PathBuf,
        /// What is wrong with the line.
        source: serde_json::Error,
    },
    /// The jar speaks another version of the protocol.
    Version {
        /// The jar.
        jar: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The JVM ended unexpectedly.
    Ended {
        /// Its program.
        program: PathBuf,
        /// The end of its standard error.
        output: String,
    },
    /// The JVM's answer is malformed.
    Answer(serde_json::Error),
    /// The JVM reports that the block failed.
    Block(String),
    /// A file's name cannot be passed to a JVM.
    FileName(PathBuf),
}

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OldJdk(jdk) => write!(
                f,
                "this is JDK {}, and the measuring program needs {}: name a newer one with --jdk",
                jdk.version,
                crate::find::OLDEST
            ),
            Self::NoJdkFound => f.write_str(
                "no JDK from 17 on was found by JAVA_HOME, on the PATH or in the usual folders: install one \
                 (Debian: openjdk-17-jdk-headless) or name one with --jdk DIR",
            ),
            Self::NoPlace => f.write_str(
                "the measuring jar is not built, and this program lies in no build folder: say with --jar FILE \
                 where it is to be built (by Maven, once), or where it is",
            ),
            Self::NoCompiler => f.write_str(
                "none of the JDKs has a compiler (bin/javac) to build the measuring jar with: install a JDK (Debian: \
                 openjdk-17-jdk-headless), or name a built jar with --jar",
            ),
            Self::Io { operation, path, source, remedy } => {
                write!(f, "cannot {operation} {}: {source}{remedy}", path.display())
            }
            Self::Maven(message) => write!(
                f,
                "Maven could not build the measuring jar: {message}; repair that, or name a built jar with --jar FILE"
            ),
            Self::Foreign { jar, source } => write!(
                f,
                "{} does not speak as the measuring program does ({source}): name another with --jar",
                jar.display()
            ),
            Self::Version { jar, version } => write!(
                f,
                "{} speaks version {version} and not {}: let it be built again, or name another with --jar",
                jar.display(),
                crate::machine::PROTOCOL
            ),
            Self::Ended { program, output } => write!(
                f,
                "{} ended unexpectedly: {output}; if it does so again, name another JDK with --jdk, or jar with --jar",
                program.display()
            ),
            Self::Answer(error) => write!(f, "its answer cannot be read: {error}"),
            Self::Block(message) => f.write_str(message),
            Self::FileName(path) => write!(
                f,
                "{} cannot be passed to a JVM: its name is no plain text; name another folder",
                path.display()
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Foreign { source, .. } | Self::Answer(source) => Some(source),
            _ => None,
        }
    }
}
