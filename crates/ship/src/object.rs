//! Keeps objects in an object store: S3-compatible ones, Azure's and Google's, by one client.
//!
//! Invariant: an object is created only if there is none of its name (`If-None-Match: *`, at Google `x-goog-if-generation-match: 0`),
//! which the store must heed; [`crate::archive::Archive::probe`] tries that before anything is archived.

use crate::address::Service;
use crate::archive::Store;
use crate::error::{Error, Result};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long one request may take, its repetitions included.
const REQUEST: Duration = Duration::from_mins(2);
/// What the endpoint of a store on this machine begins with, behind its scheme.
const LOCAL: [&str; 3] = ["://127.", "://localhost", "://[::1]"];

/// A client as the environment describes it.
struct Client {
    store: object_store::Result<Box<dyn ObjectStore>>,
    /// What may name another endpoint than the service's own.
    endpoint: String,
    /// The variables that it reads.
    variables: &'static str,
}

/// The client for a bucket or container; `None` in a build that has none.
fn client(service: &Service, bucket: &str) -> Option<Client> {
    match service.feature {
        #[cfg(feature = "s3")]
        "s3" => Some(s3(bucket)),
        #[cfg(feature = "azure")]
        "azure" => Some(azure(bucket)),
        #[cfg(feature = "gcs")]
        "gcs" => Some(gcs(bucket)),
        _ => None,
    }
}

#[cfg(feature = "s3")]
fn s3(bucket: &str) -> Client {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
    let builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch);
    Client {
        endpoint: builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default(),
        store: builder.build().map(|store| Box::new(store) as Box<dyn ObjectStore>),
        variables: "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT, AWS_ALLOW_HTTP",
    }
}

#[cfg(feature = "azure")]
fn azure(container: &str) -> Client {
    use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
    let builder = MicrosoftAzureBuilder::from_env().with_container_name(container);
    let value = |key| builder.get_config_value(&key).unwrap_or_default();
    // The emulator keeps one copy, wherever it runs.
    let emulated = value(AzureConfigKey::UseEmulator) == "true";
    Client {
        endpoint: if emulated { "http://localhost".to_owned() } else { value(AzureConfigKey::Endpoint) },
        store: builder.build().map(|store| Box::new(store) as Box<dyn ObjectStore>),
        variables: "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, \
                    AZURE_CLIENT_ID and AZURE_CLIENT_SECRET; AZURE_STORAGE_ENDPOINT, AZURE_ALLOW_HTTP",
    }
}

#[cfg(feature = "gcs")]
fn gcs(bucket: &str) -> Client {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
    let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
    let value = |key| builder.get_config_value(&key).unwrap_or_default();
    // The account may name an endpoint too.
    let account = std::fs::read_to_string(value(GoogleConfigKey::ServiceAccount)).unwrap_or_default();
    let endpoint = value(GoogleConfigKey::BaseUrl) + &account + &value(GoogleConfigKey::ServiceAccountKey);
    Client {
        endpoint,
        store: builder.build().map(|store| Box::new(store) as Box<dyn ObjectStore>),
        variables: "GOOGLE_SERVICE_ACCOUNT, GOOGLE_SERVICE_ACCOUNT_KEY or GOOGLE_APPLICATION_CREDENTIALS; GOOGLE_BASE_URL",
    }
}

/// A bucket or container, or a part of one.
pub struct Bucket {
    runtime: Runtime,
    store: Box<dyn ObjectStore>,
    service: &'static Service,
    address: String,
    prefix: String,
    on_this_machine: bool,
    variables: &'static str,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Bucket {
    /// The objects at `address`, such as `s3://bucket/prefix`. Keys and endpoint come from the environment, by the variables that the
    /// client of the store reads.
    ///
    /// # Errors
    /// [`Error::Option`] if the address names no object store, [`Error::Unfit`] if the variables are not sound, or the build has no client.
    pub fn open(address: &str) -> Result<Self> {
        let (service, bucket, prefix) = Service::of(address).ok_or_else(|| Error::Option {
            option: "address",
            reason: format!("{address}: it names no object store"),
        })?;
        // The client takes what the process has; one that was installed before is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| {
            Error::unavailable(format!("no runtime for the client of {}", service.name), source)
        })?;
        let client = client(service, bucket).ok_or_else(|| service.missing())?;
        let variables = client.variables;
        let store = client.store.map_err(|error| {
            Error::unfit(format!("the settings of {} are not sound: {error} ({variables})", service.name))
        })?;
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let on_this_machine = LOCAL.iter().any(|local| client.endpoint.contains(local));
        let address = format!("{}{bucket}/{prefix}", service.scheme);
        Ok(Self { runtime, store, service, address, prefix, on_this_machine, variables })
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
            Err(object_store::Error::Generic { store: self.service.feature, source })
        });
        done.map_err(|error| {
            use object_store::Error::{PermissionDenied, Unauthenticated};
            let what = match error {
                PermissionDenied { .. } | Unauthenticated { .. } => {
                    format!("{}: look at {}", what(), self.variables)
                }
                _ => what(),
            };
            Error::unavailable(what, error)
        })
    }
}

impl Store for Bucket {
    fn name(&self) -> (String, bool) {
        (self.service.name.to_owned(), self.on_this_machine)
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
