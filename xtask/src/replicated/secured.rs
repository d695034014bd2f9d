//! Tests TLS, credentials and missing permissions against real servers.
//!
//! ```text
//!   NATS    the servers of `cluster up` get TLS, a user and its denied permissions, and reload them on SIGHUP
//!   Kafka   private nodes with SASL_SSL for clients, of a certificate made here: one is too small, three are enough
//! ```
//!
//! Invariant: certificates are valid for two days and for 127.0.0.1, and lie in the build folder.

use super::kafka::Nodes;
use super::{Bench, refused};
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{command, output};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const USER: &str = "gauge";
const PASSWORD: &str = "not-to-be-printed";

/// A certificate for 127.0.0.1, and who vouches for it.
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificates {
    fn make(folder: &Path) -> Result<Self> {
        let file = |name: &str| folder.join(name);
        let (authority, authority_key) = (file("authority.pem"), file("authority.key"));
        let made = Self { certificate: file("node.pem"), key: file("node.key"), authority };
        let new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let common = ["-days", "2", "-subj"];
        let mut own = command("openssl", &[&new[..], &common[..], &["/CN=seawall authority"]].concat());
        own.arg("-keyout").arg(&authority_key).arg("-out").arg(&made.authority);
        output(own)?;
        let mut signed = command("openssl", &[&new[..], &common[..], &["/CN=seawall node"]].concat());
        signed.args(["-addext", "subjectAltName=IP:127.0.0.1"]);
        signed.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        signed.arg("-CA").arg(&made.authority).arg("-CAkey").arg(&authority_key);
        signed.arg("-keyout").arg(&made.key).arg("-out").arg(&made.certificate);
        output(signed)?;
        Ok(made)
    }
}

/// `JetStream` with TLS and a user that may not delete streams: the run is reported, and what it left behind.
pub(super) fn nats(bench: &Bench<'_>, sync: &str, options: &[String]) -> Result {
    let certificates = Certificates::make(&bench.folder)?;
    let more = format!(
        "authorization {{ users: [ {{ user: {USER}, password: \"{PASSWORD}\", permissions: {{ publish: {{ deny: [\"$JS.API.STREAM.DELETE.>\"] }} }} }} ] }}\ntls {{ cert_file: \"{}\", key_file: \"{}\" }}\n",
        certificates.certificate.display(),
        certificates.key.display()
    );
    for (number, pid) in (1..).zip(bench.nodes()?) {
        let config = bench.folder.join(format!("nats-{sync}/node-{number}/nats.conf"));
        let file = std::fs::OpenOptions::new().append(true).open(&config);
        file.and_then(|mut file| file.write_all(more.as_bytes())).map_err(Error::at(config.display()))?;
        output(command("kill", &["-HUP", &pid.to_string()]))?;
    }
    let run = |authority: Option<&Path>, password: &str| {
        let mut run = bench.bench(options, &["--writers", "1", "--time", "5s"]);
        run.env("NATS_USER", USER).env("NATS_PASSWORD", password);
        if let Some(authority) = authority {
            run.env("NATS_CA", authority);
        }
        run
    };
    // Until each has read it, one of them may still be open to all.
    for _ in 0..300 {
        let ran = run(Some(&certificates.authority), "wrong").output().map_err(Error::at("the bench"))?;
        if !ran.status.success() && String::from_utf8_lossy(&ran.stderr).contains("NATS_USER") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    refused(run(Some(&certificates.authority), "wrong"), &["no connection", "NATS_USER"])?;
    refused(run(None, PASSWORD), &["no connection", "NATS_CA"])?;
    left_behind(run(Some(&certificates.authority), PASSWORD))
}

/// A run whose stream could not be removed prints its table, names the stream, and fails.
fn left_behind(mut run: Command) -> Result {
    let ended = run.output().map_err(Error::at("the bench"))?;
    let (table, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let words = ["the stream seawall-", "may be left behind", "nats stream rm"];
    let kept = table.contains("NATS JetStream") && table.contains("buffered+fdatasync");
    if ended.status.code() == Some(1) && kept && words.iter().all(|word| stderr.contains(word)) {
        println!("left behind, and named beside the result: {}", stderr.lines().last().unwrap_or_default());
        return Ok(());
    }
    let status = ended.status;
    Err(Error::check(format!("without the table or {words:?} it ended with {status}: {table}{stderr}")))
}

/// Kafka with TLS and a login: refused without either, too small with one broker, measured with three.
pub(super) fn kafka(bench: &Bench<'_>) -> Result {
    let certificates = Certificates::make(&bench.folder)?;
    let config = bench.folder.join("client.properties");
    let properties = |password: &str, authority: bool| {
        let authority = if authority {
            format!("ssl.ca.location={}\n", certificates.authority.display())
        } else {
            String::new()
        };
        let login =
            format!("sasl.mechanism=PLAIN\nsasl.username={USER}\nsasl.password={password}\n{authority}");
        files::write(&config, format!("security.protocol=SASL_SSL\n{login}"))
    };
    let run = |nodes: &Nodes| {
        let name = config.display().to_string();
        let options = ["--kafka".to_owned(), nodes.bootstrap(), "--kafka-config".to_owned(), name];
        bench.bench(&options, &["--writers", "1", "--time", "5s"])
    };
    let lone = Nodes::start(&bench.folder, 1, &certificates, USER, PASSWORD)?;
    properties(PASSWORD, true)?;
    refused(run(&lone), &["too small", "three brokers"])?;
    properties("wrong", true)?;
    refused(run(&lone), &["no answer", "uthentication", "--kafka-config"])?;
    properties(PASSWORD, false)?;
    refused(run(&lone), &["no answer", "certificate", "ssl.ca.location"])?;
    files::write(&config, "ssl.truststore.location=x\n")?;
    refused(run(&lone), &["ssl.truststore.location", "librdkafka"])?;
    drop(lone);
    let three = Nodes::start(&bench.folder, 3, &certificates, USER, PASSWORD)?;
    properties(PASSWORD, true)?;
    let table = output(run(&three))?;
    if !table.contains("flush.messages=1") || table.contains(PASSWORD) {
        return Err(Error::check(format!("no row of Kafka by TLS and login in {table}")));
    }
    println!("kafka: measured by SASL_SSL");
    Ok(())
}
