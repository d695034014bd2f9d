//! Defines why there is no JDK, no program or no answer, with the remedy.

use crate::find::Jdk;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a JVM cannot write, or did not.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A JDK is older than the measuring program.
    OldJdk(Jdk),
    /// No JDK was found.
    NoJdkFound,
    /// No JDK can compile the measuring program.
    NoCompiler,
    /// The operating system refused an operation.
    Io {
        /// What was being done, as a verb.
        operation: &'static str,
        /// The file, folder or program it was done to.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The compiler refused the program.
    Compiler {
        /// Which one.
        compiler: PathBuf,
        /// What it printed.
        output: String,
    },
    /// The JVM ended unexpectedly.
    Ended {
        /// Its program.
        program: PathBuf,
        /// The end of its standard error.
        output: String,
    },
    /// The JVM's answer is malformed.
    Answer(String),
    /// The JVM reports that the block failed.
    Block(String),
    /// A file's name cannot be passed to a JVM.
    FileName(PathBuf),
}

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { operation, path: path.to_owned(), source }
    }
}

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
            Self::NoCompiler => f.write_str(
                "none of the JDKs has a compiler (bin/javac): install a JDK (Debian: openjdk-17-jdk-headless), or name one with --jdk",
            ),
            Self::Io { operation, path, source } => write!(f, "cannot {operation} {}: {source}", path.display()),
            Self::Compiler { compiler, output } => {
                write!(f, "{} could not compile the measuring program: {output}; name another JDK with --jdk", compiler.display())
            }
            Self::Ended { program, output } => write!(
                f,
                "{} ended unexpectedly: {output}; if it does so again, name another JDK with --jdk",
                program.display()
            ),
            Self::Answer(line) => write!(f, "the JVM's answer cannot be read: {line:?}"),
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
            _ => None,
        }
    }
}
