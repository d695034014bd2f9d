//! Starts an S3-compatible store on a folder (versitygw) behind a [`Proxy`], kills it, and damages its objects.

use super::super::{free_ports, listens};
use super::proxy::Proxy;
use crate::error::{Error, Result};
use crate::shell::Running;
use crate::{files, tools};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw";
const VERSION: &str = "v1.8.0";
const BUCKET: &str = "bucket";
const KEY: &str = "seawall";
const SECRET: &str = "not-a-secret";

pub(super) fn program() -> Result<PathBuf> {
    tools::go_program(MODULE, VERSION)
}

/// A bucket that is reached through the proxy.
pub(super) struct Bucket {
    program: PathBuf,
    home: PathBuf,
    port: u16,
    process: Option<Running>,
    pub(super) proxy: Proxy,
}

impl Bucket {
    /// Starts a store below `folder`, with an empty bucket.
    pub(super) fn start(program: PathBuf, folder: &Path) -> Result<Self> {
        let home = folder.join("objects");
        files::make_folder(&home.join(BUCKET))?;
        let port = free_ports::<1>()?[0];
        let proxy = Proxy::start(([127, 0, 0, 1], port).into())?;
        let mut bucket = Self { program, home, port, process: None, proxy };
        bucket.restart()?;
        Ok(bucket)
    }

    /// Where a log is archived: below `prefix`.
    pub(super) fn address(prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    pub(super) fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.proxy.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
    }

    /// Starts the store, which does not run.
    pub(super) fn restart(&mut self) -> Result {
        let failed = Error::at(self.home.display());
        let log = self.home.with_extension("log");
        let log = File::options().create(true).append(true).open(log).map_err(&failed)?;
        let mut command = Command::new(&self.program);
        command.args(["--port", &format!("127.0.0.1:{}", self.port), "--access", KEY, "--secret", SECRET]);
        command.arg("posix").arg(&self.home).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(failed)?).stderr(log);
        self.process = Some(Running::start(&mut command)?);
        listens(self.port)
    }

    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    /// Where the objects below `prefix` lie.
    pub(super) fn folder(&self, prefix: &str) -> PathBuf {
        self.home.join(BUCKET).join(prefix)
    }

    /// The files of the messages below `prefix`, by position.
    pub(super) fn messages(&self, prefix: &str) -> Result<Vec<PathBuf>> {
        let mut found = files::list(&self.folder(prefix).join("messages"))?;
        found.sort();
        Ok(found)
    }
}
