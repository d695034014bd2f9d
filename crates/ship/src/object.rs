//! Stores objects in S3-compatible stores, Azure's and Google's, through one client.
//!
//! A read ends when no bytes have come for a while, however long it takes. A write may take as long as its length needs on a slow link:
//! after one that took too long the link counts as slower, and the next try gets more time ([`WriteLimit`]).
//!
//! Invariants: an object is created only if there is none of its name (`If-None-Match: *`, at Google `x-goog-if-generation-match: 0`),
//! which the store must heed; [`crate::archive::Archive::probe`] tries that before anything is archived. It counts as created once it is there with
//! its length, because whatever answers in the place of a store may say yes. Settings are checked before the client gets them, which panics at some.

use crate::address::StoreKind;
use crate::ahead::Ahead;
use crate::archive::Store;
use crate::error::{Error, Result};
use object_store::path::Path;
use object_store::{
    ClientConfigKey, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use seawall_host::machine::{host, is_here};
use seawall_sys::clock::monotonic_ns;
use std::error::Error as _;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long a request may take that carries next to nothing, its repetitions included: an operator hears of it within a minute.
const REQUEST: Duration = Duration::from_secs(30);
/// How long no bytes of an object may come.
const STALLED: Duration = Duration::from_secs(25);
/// What the client itself waits for at most: the limits are those here.
const NO_LIMIT: &str = "30days";

/// How fast a link is taken to be, in bytes a second: at first, and at least.
const LINK_RATE: (u64, u64) = (512 << 10, 4 << 10);
/// What a shorter object says of a link is its delay.
const PACED_BYTES_MIN: usize = 256 << 10;

/// How long writes may take.
#[derive(Debug)]
struct WriteLimit(u64);

impl WriteLimit {
    fn limit(&self, bytes: usize) -> Duration {
        STALLED + Duration::from_secs(bytes as u64 / self.0)
    }

    fn too_slow(&mut self) {
        self.0 = (self.0 / 4).max(LINK_RATE.1);
    }

    fn took(&mut self, bytes: usize, time: Duration) {
        if bytes >= PACED_BYTES_MIN {
            let measured = bytes as u64 * 1000 / u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
            self.0 = (measured / 4).clamp(LINK_RATE.1, LINK_RATE.0);
        }
    }
}

/// A client as the environment describes it.
struct Client {
    store: object_store::Result<Box<dyn ObjectStore>>,
    /// What may name another endpoint than the service's own.
    endpoint: String,
    /// Whether it may be reached without encryption.
    allows_http: bool,
    /// The variables that it reads.
    variables: &'static str,
    /// What all of them begin with.
    prefix: &'static str,
    /// The one that lets it go unencrypted.
    allow_http: &'static str,
    /// Without this one keys are asked of the machine's own service.
    key: &'static str,
}

/// The client for a bucket or container; `None` in a build that has none.
fn client(kind: &StoreKind, bucket: &str, retry: RetryConfig) -> Option<Client> {
    match kind.feature {
        #[cfg(feature = "s3")]
        "s3" => Some(s3(bucket, retry)),
        #[cfg(feature = "azure")]
        "azure" => Some(azure(bucket, retry)),
        #[cfg(feature = "gcs")]
        "gcs" => Some(gcs(bucket, retry)),
        _ => None,
    }
}

#[cfg(feature = "s3")]
fn s3(bucket: &str, retry: RetryConfig) -> Client {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
    let builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retry)
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), NO_LIMIT)
        .with_conditional_put(S3ConditionalPut::ETagMatch);
    let value = |key| builder.get_config_value(&key).unwrap_or_default();
    Client {
        endpoint: [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
            .map(value)
            .into_iter()
            .find(|set| !set.is_empty())
            .unwrap_or_default(),
        allows_http: value(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp)) == "true",
        store: builder.build().map(|store| Box::new(store) as Box<dyn ObjectStore>),
        variables: "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT, AWS_ALLOW_HTTP",
        prefix: "AWS_",
        allow_http: "AWS_ALLOW_HTTP",
        key: "AWS_ACCESS_KEY_ID",
    }
}

#[cfg(feature = "azure")]
fn azure(container: &str, retry: RetryConfig) -> Client {
    use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
    let builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(container)
        .with_retry(retry)
        .with_config(AzureConfigKey::Client(ClientConfigKey::Timeout), NO_LIMIT);
    let value = |key| builder.get_config_value(&key).unwrap_or_default();
    // The emulator keeps one copy, wherever it runs.
    let emulated = value(AzureConfigKey::UseEmulator) == "true";
    Client {
        endpoint: if emulated { "http://localhost".to_owned() } else { value(AzureConfigKey::Endpoint) },
        allows_http: emulated || value(AzureConfigKey::Client(ClientConfigKey::AllowHttp)) == "true",
        store: builder.build().map(|store| Box::new(store) as Box<dyn ObjectStore>),
        variables: "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, \
                    AZURE_CLIENT_ID and AZURE_CLIENT_SECRET; AZURE_STORAGE_ENDPOINT, AZURE_ALLOW_HTTP",
        prefix: "AZURE_",
        allow_http: "AZURE_ALLOW_HTTP",
        key: "AZURE_STORAGE_ACCOUNT_NAME",
    }
}

#[cfg(feature = "gcs")]
fn gcs(bucket: &str, retry: RetryConfig) -> Client {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
    let builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retry)
        .with_config(GoogleConfigKey::Client(ClientConfigKey::Timeout), NO_LIMIT);
    let value = |key| builder.get_config_value(&key).unwrap_or_default();
    // The account may name an endpoint too.
    let account = std::fs::read_to_string(value(GoogleConfigKey::ServiceAccount)).unwrap_or_default();
    let named = [
        value(GoogleConfigKey::BaseUrl),
        base_url(&account),
        base_url(&value(GoogleConfigKey::ServiceAccountKey)),
    ];
    Client {
        endpoint: named.into_iter().find(|named| !named.is_empty()).unwrap_or_default(),
        allows_http: true,
        store: builder.build().map(|store| Box::new(store) as Box<dyn ObjectStore>),
        variables: "GOOGLE_SERVICE_ACCOUNT, GOOGLE_SERVICE_ACCOUNT_KEY or GOOGLE_APPLICATION_CREDENTIALS; GOOGLE_BASE_URL",
        prefix: "GOOGLE_",
        allow_http: "",
        key: "GOOGLE_SERVICE_ACCOUNT",
    }
}

/// The endpoint that a service account of Google's names, as emulators do.
#[cfg(feature = "gcs")]
fn base_url(account: &str) -> String {
    let value = account.split_once("\"gcs_base_url\"").and_then(|(_, rest)| rest.split('"').nth(1));
    value.unwrap_or_default().to_owned()
}

/// Refuses what a file or a secret often adds to a value, and an endpoint that is none: the client takes both for what they are not.
///
/// # Errors
/// [`Error::Unfit`] names the variable.
fn check(variables: impl Iterator<Item = (String, String)>, prefix: &str) -> Result<()> {
    for (name, value) in variables.filter(|(name, _)| name.starts_with(prefix)) {
        if value.trim() != value || value.contains(|byte: char| byte.is_control() || byte == '\u{FEFF}') {
            let what =
                "begins or ends with a space, or contains a line break or a byte order mark: remove that";
            return Err(Error::unfit(format!("{name} {what}")));
        }
        let is_address = name.contains("ENDPOINT") || name.ends_with("BASE_URL");
        if is_address && !is_endpoint(&value) {
            let what = "expected http:// or https://, a host, and a port if needed";
            return Err(Error::unfit(format!("{name} is `{value}`: {what}")));
        }
    }
    Ok(())
}

fn is_endpoint(value: &str) -> bool {
    let Some(rest) = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://")) else {
        return false;
    };
    let place = rest.split('/').next().unwrap_or_default();
    let behind = place
        .rsplit_once(']')
        .map_or_else(|| place.split_once(':').map(|(_, port)| port), |(_, rest)| rest.strip_prefix(':'));
    let name = host(value);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    !name.is_empty()
        && name.bytes().all(plain)
        && behind.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// The one form of a prefix, with a slash at its end unless it is empty.
///
/// # Errors
/// [`Error::Option`] with what must go.
fn normal(address: &str, bucket: &str, prefix: &str) -> Result<String> {
    let refused = |what: &str| Err(Error::Option { option: "address", reason: format!("{address}: {what}") });
    if !bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')) {
        return refused("the name of a bucket has letters, digits, -, . and _");
    }
    let prefix = prefix.trim_matches('/');
    if prefix.split('/').any(|part| matches!(part, "." | "..")) || prefix.contains("//") {
        return refused("a prefix has no parts that are empty, . or ..");
    }
    Ok(if prefix.is_empty() { String::new() } else { format!("{prefix}/") })
}

/// A bucket or container, or a part of one.
pub struct Bucket {
    runtime: Runtime,
    store: Box<dyn ObjectStore>,
    kind: &'static StoreKind,
    address: String,
    prefix: String,
    endpoint: String,
    on_this_machine: bool,
    variables: &'static str,
    key: &'static str,
    write_limit: WriteLimit,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Bucket {
    /// The objects at `address`, such as `s3://bucket/prefix`. Keys and endpoint come from the environment, by the variables that the
    /// client of the store reads. A prefix is stored percent-encoded where it has other letters than plain ones.
    ///
    /// # Errors
    /// [`Error::Option`] if the address names no object store, [`Error::Unfit`] if the variables are invalid, or the build has no client.
    pub fn open(address: &str) -> Result<Self> {
        Self::open_for(address, Duration::from_mins(2))
    }

    /// As [`Bucket::open`]; a request that fails is retried for this long.
    pub(crate) fn open_for(address: &str, tried_for: Duration) -> Result<Self> {
        let (kind, bucket, prefix) = StoreKind::of(address).ok_or_else(|| Error::Option {
            option: "address",
            reason: format!("{address}: not the address of an object store"),
        })?;
        let prefix = normal(address, bucket, prefix)?;
        // The client takes what the process has; one that was installed before is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| {
            Error::unavailable(format!("no runtime for the client of {}", kind.name), source)
        })?;
        let retry = RetryConfig { retry_timeout: tried_for, ..RetryConfig::default() };
        let client = client(kind, bucket, retry).ok_or_else(|| kind.missing())?;
        check(std::env::vars(), client.prefix)?;
        let Client { endpoint, variables, key, .. } = client;
        if endpoint.starts_with("http://") && !client.allows_http {
            let allow = client.allow_http;
            return Err(Error::unfit(format!(
                "{endpoint} is reached without encryption: set {allow}=true to allow that"
            )));
        }
        let store = client.store.map_err(|error| {
            Error::unfit(format!("the settings of {} are invalid: {error} ({variables})", kind.name))
        })?;
        let on_this_machine = is_here(&endpoint);
        let address = format!("{}{bucket}/{prefix}", kind.scheme);
        let write_limit = WriteLimit(LINK_RATE.0);
        Ok(Self {
            runtime,
            store,
            kind,
            address,
            prefix,
            endpoint,
            on_this_machine,
            variables,
            key,
            write_limit,
        })
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}{name}", self.prefix))
    }

    fn run<T>(
        &self,
        what: impl FnOnce() -> String,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T> {
        self.runtime.block_on(self.timed(what, REQUEST, work))
    }

    async fn timed<T>(
        &self,
        what: impl FnOnce() -> String,
        limit: Duration,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T> {
        match tokio::time::timeout(limit, work).await {
            Ok(done) => done.map_err(|error| Error::unavailable(what(), self.why(&error))),
            Err(_) => Err(Error::unavailable(what(), format!("no answer within {} s", limit.as_secs()))),
        }
    }

    /// Why a request failed, without what differs from try to try; what to look at.
    fn why(&self, error: &object_store::Error) -> String {
        let mut innermost: &dyn std::error::Error = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        let text = innermost.to_string();
        let why = said_by_store(&text).unwrap_or_else(|| text.chars().take(200).collect());
        let has_answered = said_by_store(&text).is_some() || text.contains("status code");
        let lacks_key = std::env::var_os(self.key).is_none();
        let proxy = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
        let proxy = proxy
            .iter()
            .find_map(|name| Some((name, std::env::var(name).ok().filter(|set| !set.is_empty())?)));
        if matches!(
            error,
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }
        ) {
            return format!("{why}: look at {}", self.variables);
        }
        if has_answered {
            return why;
        }
        let place = if self.endpoint.is_empty() { self.kind.name } else { self.endpoint.as_str() };
        let mut hint = format!("{why}: {place}");
        if let Some((name, proxy)) = proxy.filter(|_| !self.on_this_machine) {
            hint = format!("{hint}, by the proxy of {name}, {}", crate::address::shown(&proxy));
        }
        if why.contains("certificate") {
            hint += "; to trust a private authority, install its certificate in the system or name it in SSL_CERT_FILE";
        }
        if lacks_key {
            hint = format!(
                "{hint}; {} is not set, so keys are requested from the instance's metadata service",
                self.key
            );
        }
        hint
    }

    /// An object, or its first `limit` bytes.
    async fn fetch(&self, name: String, limit: Option<usize>) -> Result<Option<Vec<u8>>> {
        use futures_util::StreamExt as _;
        let path = self.path(&name);
        let range = limit.map(|limit| GetRange::Bounded(0..limit as u64));
        let what = || format!("{name} was not read from {}", self.address);
        let get = async {
            match self.store.get_opts(&path, GetOptions { range, ..GetOptions::default() }).await {
                Ok(found) => Ok(Some(found)),
                Err(error @ object_store::Error::NotFound { .. }) if !is_no_bucket(&error) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let Some(found) = self.timed(what, REQUEST, get).await? else { return Ok(None) };
        let mut bytes = Vec::with_capacity(usize::try_from(found.range.end - found.range.start).unwrap_or(0));
        let mut coming = found.into_stream();
        loop {
            let next = async { coming.next().await.transpose() };
            match self.timed(what, STALLED, next).await? {
                Some(more) => bytes.extend_from_slice(&more),
                None => return Ok(Some(bytes)),
            }
        }
    }
}

/// What a store says in an answer that refuses, which is XML: its code and its message.
fn said_by_store(text: &str) -> Option<String> {
    let of = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        Some(rest.split('<').next()?.trim().to_owned())
    };
    let status =
        text.split("status code: ").nth(1).and_then(|rest| rest.split(':').next()).unwrap_or_default();
    let code = of("Code")?;
    let message = of("Message").filter(|message| *message != code);
    let said =
        [status.to_owned(), code].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    Some(message.map_or_else(|| said.clone(), |message| format!("{said}: {message}")))
}

/// Whether what was not found is the bucket itself.
fn is_no_bucket(error: &object_store::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if ["NoSuchBucket", "ContainerNotFound"].iter().any(|code| error.to_string().contains(code)) {
            return true;
        }
        source = error.source();
    }
    false
}

impl Store for Bucket {
    fn name(&self) -> (String, bool) {
        (self.kind.name.to_owned(), self.on_this_machine)
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
        let what = || format!("{name} was not created in {}", self.address);
        let (limit, begun_ns) = (self.write_limit.limit(bytes.len()), monotonic_ns());
        let created = self.runtime.block_on(self.timed(what, limit, put));
        let time = Duration::from_nanos(monotonic_ns() - begun_ns);
        match created {
            Ok(true) => self.write_limit.took(bytes.len(), time),
            Err(_) if time >= limit => self.write_limit.too_slow(),
            _ => {}
        }
        if !created? {
            return Ok(false);
        }
        let path = self.path(name);
        let there = self.run(|| format!("{name} was not found in {}", self.address), async {
            self.store.head(&path).await
        });
        let there = there?.size;
        if there == bytes.len() as u64 {
            return Ok(true);
        }
        let what = format!("{name} was not created in {}", self.address);
        Err(Error::unavailable(what, format!("it exists with {there} of {} bytes", bytes.len())))
    }

    fn get(&mut self, name: &str, limit: Option<usize>) -> Result<Option<Vec<u8>>> {
        self.runtime.block_on(self.fetch(name.to_owned(), limit))
    }

    fn get_each(
        &mut self,
        names: &mut dyn Iterator<Item = String>,
        mut ahead: Ahead,
        visit: &mut dyn FnMut(Vec<u8>) -> Result<bool>,
    ) -> Result<()> {
        use futures_util::StreamExt as _;
        let mut coming = futures_util::stream::FuturesOrdered::new();
        self.runtime.block_on(async {
            loop {
                while coming.len() < ahead.at_once() {
                    let Some(name) = names.next() else { break };
                    coming.push_back(self.fetch(name, None));
                }
                let Some(Some(bytes)) = coming.next().await.transpose()? else { return Ok(()) };
                ahead.came(bytes.len());
                if !visit(bytes)? {
                    return Ok(());
                }
            }
        })
    }

    fn list(&mut self, prefix: &str, after: &str) -> Result<Vec<String>> {
        use futures_util::TryStreamExt as _;
        // The store lists by folders; what begins with the rest of the prefix is picked here.
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let under = self.path(folder);
        let offset = self.path(if after.is_empty() { folder } else { after });
        let list = async {
            let listed = self.store.list_with_offset(Some(&under), &offset);
            listed.map_ok(|found| found.location).try_collect::<Vec<_>>().await
        };
        let found = self.run(|| format!("{} was not listed", self.address), list)?;
        // As it is stored.
        let all = Path::from(self.prefix.as_str());
        let stripped = found.into_iter().filter_map(|path| {
            let parts = path.prefix_match(&all)?;
            Some(parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"))
        });
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

#[cfg(test)]
mod tests {
    use super::{LINK_RATE, WriteLimit, check, is_endpoint, normal, said_by_store};
    use std::time::Duration;

    #[test]
    fn settings_that_are_not_what_they_should_be_are_refused_by_name() {
        let of = |name: &str, value: &str| check([(name.to_owned(), value.to_owned())].into_iter(), "AWS_");
        for (name, value) in [
            ("AWS_ENDPOINT", "localhost:9000"),
            ("AWS_ENDPOINT", "localhost"),
            ("AWS_ENDPOINT", ""),
            ("AWS_ENDPOINT", "//127.0.0.1:9"),
            ("AWS_ENDPOINT", "http://127.0.0.1:99999"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:0"),
            ("AWS_ENDPOINT", "http://127.0.0.1:9 "),
            ("AWS_ENDPOINT", "http://a b:9"),
            ("AWS_ACCESS_KEY_ID", "k\n"),
            ("AWS_SESSION_TOKEN", "t\r\n"),
            ("AWS_REGION", "\u{FEFF}us-east-1"),
        ] {
            let refused = of(name, value).expect_err(value).to_string();
            assert!(refused.starts_with(name), "{refused}");
        }
        assert!(of("AWS_ENDPOINT", "https://[::1]:9000/path").is_ok() && of("OTHER", "x\n").is_ok());
        assert!(is_endpoint("http://minio") && is_endpoint("https://s3.example:443"));
    }

    #[test]
    fn a_prefix_has_one_form() {
        let of = |prefix| normal("s3://b/p", "b", prefix);
        for (prefix, form) in
            [("", ""), ("/", ""), ("a/b/", "a/b/"), ("/a b", "a b/"), ("100%", "100%/"), ("ü", "ü/")]
        {
            assert_eq!(of(prefix).expect("is one"), form);
        }
        for wrong in ["a//b", "../x", "x/./y"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(normal("s3://a b/p", "a b", "p").is_err());
    }

    #[test]
    fn a_write_that_takes_too_long_gets_more_time_and_one_that_hangs_is_given_up() {
        let mut write_limit = WriteLimit(LINK_RATE.0);
        let object = 8 << 20;
        assert_eq!(write_limit.limit(object), Duration::from_secs(25 + 16));
        let mut tries = 0;
        // 0.4 Mbit/s.
        while write_limit.limit(object) < Duration::from_secs(168) {
            write_limit.too_slow();
            tries += 1;
        }
        assert!(tries <= 2, "{tries}");
        for _ in 0..9 {
            write_limit.too_slow();
        }
        assert!(write_limit.limit(100) < Duration::from_secs(26), "whatever the link was");
        write_limit.took(object, Duration::from_secs(1));
        assert_eq!(write_limit.limit(object), Duration::from_secs(25 + 16));
        write_limit.took(object, Duration::from_secs(160));
        assert!(write_limit.limit(object) > Duration::from_secs(400));
    }

    #[test]
    fn what_a_store_says_is_told_and_not_its_markup() {
        let body = "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>\
                    <Message>no</Message></Error>";
        assert_eq!(said_by_store(body).as_deref(), Some("403 Forbidden, AccessDenied: no"));
        assert_eq!(said_by_store("Connection refused"), None);
    }
}
