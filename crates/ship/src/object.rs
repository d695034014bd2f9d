//! Keeps objects in an S3-compatible store.
//!
//! Invariant: an object is created with `If-None-Match: *`, which the store must heed; [`crate::archive::Archive::probe`] tries
//! that before anything is archived.

use crate::archive::Store;
use crate::error::{Error, Result};
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
};
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long one request may take, its repetitions included.
const REQUEST: Duration = Duration::from_mins(2);

/// A bucket, or a part of one.
pub struct Bucket {
    runtime: Runtime,
    store: AmazonS3,
    address: String,
    prefix: String,
    on_this_machine: bool,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket").field("address", &self.address).finish_non_exhaustive()
    }
}

fn failed(what: String, source: object_store::Error) -> Error {
    Error::unavailable(what, source)
}

impl Bucket {
    /// The objects of `bucket` whose names begin with `prefix`. Keys, region and endpoint come from the environment
    /// (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT`, `AWS_ALLOW_HTTP`).
    ///
    /// # Errors
    /// [`Error::Unfit`] if they are not sound.
    pub fn open(bucket: &str, prefix: &str) -> Result<Self> {
        // The client takes what the process has; one that was installed before is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|source| Error::unavailable("no runtime for the client of S3", source))?;
        let built = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .build();
        let store =
            built.map_err(|error| Error::unfit(format!("the settings of S3 are not sound: {error}")))?;
        let prefix = if prefix.is_empty() { String::new() } else { format!("{}/", prefix.trim_matches('/')) };
        let endpoint = std::env::var("AWS_ENDPOINT").or_else(|_| std::env::var("AWS_ENDPOINT_URL"));
        let local = ["://127.", "://localhost", "://[::1]"];
        let on_this_machine =
            endpoint.is_ok_and(|endpoint| local.iter().any(|local| endpoint.contains(local)));
        let address = format!("s3://{bucket}/{prefix}");
        Ok(Self { runtime, store, address, prefix, on_this_machine })
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}{name}", self.prefix))
    }

    fn run<T>(
        &self,
        what: impl FnOnce() -> String,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T> {
        let timed = self.runtime.block_on(async { tokio::time::timeout(REQUEST, work).await });
        let done = timed.unwrap_or_else(|_| {
            let source = Box::new(std::io::Error::from(std::io::ErrorKind::TimedOut));
            Err(object_store::Error::Generic { store: "S3", source })
        });
        done.map_err(|error| failed(what(), error))
    }
}

impl Store for Bucket {
    fn name(&self) -> (String, bool) {
        ("an S3-compatible store".to_owned(), self.on_this_machine)
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<bool> {
        let path = self.path(name);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let payload = PutPayload::from(bytes.to_vec());
        let put = async {
            match self.store.put_opts(&path, payload, options).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                    Ok(false)
                }
                Err(error) => Err(error),
            }
        };
        self.run(|| format!("{name} was not created in {}", self.address), put)
    }

    fn get(&mut self, name: &str, limit: Option<usize>) -> Result<Option<Vec<u8>>> {
        let path = self.path(name);
        let range = limit.map(|limit| GetRange::Bounded(0..limit as u64));
        let get = async {
            match self.store.get_opts(&path, GetOptions { range, ..GetOptions::default() }).await {
                Ok(found) => Ok(Some(found.bytes().await?.to_vec())),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.run(|| format!("{name} was not read from {}", self.address), get)
    }

    fn list(&mut self, prefix: &str, after: &str) -> Result<Vec<String>> {
        use futures_util::TryStreamExt as _;
        // The store lists by folders; what begins with the rest of the prefix is picked here.
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let under = self.path(folder);
        let offset = self.path(if after.is_empty() { folder } else { after });
        let list = async {
            let listed = self.store.list_with_offset(Some(&under), &offset);
            listed.map_ok(|found| found.location.to_string()).try_collect::<Vec<_>>().await
        };
        let found = self.run(|| format!("{} was not listed", self.address), list)?;
        let stripped =
            found.into_iter().filter_map(|path| path.strip_prefix(&self.prefix).map(str::to_owned));
        let mut names: Vec<String> =
            stripped.filter(|name| name.starts_with(prefix) && name.as_str() > after).collect();
        names.sort();
        Ok(names)
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        let path = self.path(name);
        let remove = async {
            match self.store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        };
        self.run(|| format!("{name} was not removed from {}", self.address), remove)
    }
}
