//! Tests TLS, credentials and missing permissions against real servers, of the gauge and of logs that are shipped ([`shipping`]).
//!
//! ```text
//!   NATS    the servers get TLS, clients' certificates, a user and its denied permissions, reloaded on SIGHUP
//!   Kafka   private nodes with SASL_SSL (PLAIN, SCRAM) and, on another port, clients' certificates: one is too small, three are enough
//! ```
//!
//! Invariant: certificates are valid for two days and for 127.0.0.1, and lie in the build folder.

mod shipping;

use super::cluster::{Cluster, NODES};
use super::kafka::Nodes;
use super::{Bench, refused};
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{command, output, within};
use shipping::{Logs, Way};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const USER: &str = "gauge";
const PASSWORD: &str = "not-to-be-printed";
const WRONG: &str = "nor-to-be-printed";

/// A certificate for 127.0.0.1, and who vouches for it.
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificates {
    fn make(folder: &Path) -> Result<Self> {
        files::make_folder(folder)?;
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
pub(super) fn nats(bench: &Bench<'_>, cluster: &Cluster) -> Result {
    let options = &cluster.options();
    let certificates = Certificates::make(&bench.folder)?;
    let more = format!(
        "authorization {{ users: [ {{ user: {USER}, password: \"{PASSWORD}\", permissions: {{ publish: {{ deny: [\"$JS.API.STREAM.DELETE.>\"] }} }} }} ] }}\ntls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}\n",
        certificates.certificate.display(),
        certificates.key.display(),
        certificates.authority.display(),
    );
    for node in 0..NODES {
        let config = cluster.home(node).join("nats.conf");
        let file = std::fs::OpenOptions::new().append(true).open(&config);
        file.and_then(|mut file| file.write_all(more.as_bytes())).map_err(Error::at(config.display()))?;
        cluster.signal(node, "-HUP")?;
    }
    let run = |authority: Option<&Path>, password: &str| {
        let mut run = bench.bench(options, &["--writers", "1", "--time", "5s"]);
        run.envs(environment(&certificates, authority, password));
        run
    };
    // Until each has read it, one of them may still be open to all.
    within(60, || {
        let ran = run(Some(&certificates.authority), "wrong").output();
        ran.is_ok_and(|ran| {
            !ran.status.success() && String::from_utf8_lossy(&ran.stderr).contains("NATS_USER")
        })
    });
    refused(run(Some(&certificates.authority), "wrong"), &["no connection", "NATS_USER"])?;
    refused(run(None, PASSWORD), &["no connection", "NATS_CA"])?;
    left_behind(run(Some(&certificates.authority), PASSWORD))?;
    nats_shipped(bench, options, &certificates)
}

/// What names these to a client of NATS; the certificate of a node is a client's too.
fn environment(
    certificates: &Certificates,
    authority: Option<&Path>,
    password: &str,
) -> Vec<(&'static str, String)> {
    let shown = |path: &Path| path.display().to_string();
    let mut named = vec![
        ("NATS_USER", USER.to_owned()),
        ("NATS_PASSWORD", password.to_owned()),
        ("NATS_CERT", shown(&certificates.certificate)),
        ("NATS_KEY", shown(&certificates.key)),
    ];
    named.extend(authority.map(|authority| ("NATS_CA", shown(authority))));
    named
}

/// A log shipped to the same servers.
fn nats_shipped(bench: &Bench<'_>, options: &[String], certificates: &Certificates) -> Result {
    let [_, servers, monitors @ ..] = options else {
        fail!("a cluster is named by {options:?}");
    };
    let logs = Logs::new(&bench.folder, Bench::seawall)?;
    let other = Certificates::make(&bench.folder.join("other"))?;
    let way = |name, environment| Way {
        name,
        address: format!("{servers}/secured"),
        options: monitors.to_vec(),
        environment,
    };
    let authority = Some(certificates.authority.as_path());
    let allowed = way("nats by TLS, certificate and login", environment(certificates, authority, PASSWORD));
    logs.allowed(&allowed)?;
    let without_certificate = environment(certificates, authority, PASSWORD);
    let without_certificate =
        without_certificate.into_iter().filter(|(name, _)| !matches!(*name, "NATS_CERT" | "NATS_KEY"));
    let cases: [(&str, Vec<_>, &[&str]); 4] = [
        ("nats by a wrong password", environment(certificates, authority, WRONG), &["NATS_USER"]),
        ("nats by no authority", environment(certificates, None, PASSWORD), &["NATS_CA"]),
        (
            "nats by another authority",
            environment(certificates, Some(&other.authority), PASSWORD),
            &["NATS_CA"],
        ),
        ("nats by no certificate", without_certificate.collect(), &["NATS_CERT"]),
    ];
    for (name, environment, words) in cases {
        logs.refused(&allowed, &way(name, environment), &[&["no connection"], words].concat())?;
    }
    Ok(())
}

/// A run whose stream could not be removed prints its table, names the stream, and fails.
fn left_behind(mut run: Command) -> Result {
    let ended = run.output().map_err(Error::at("the bench"))?;
    let (table, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let words = ["the stream seawall-", "may be left behind", "nats stream rm"];
    let kept = table.contains("NATS JetStream") && table.contains("buffered+fdatasync");
    let (status, named) = (ended.status, words.iter().all(|word| stderr.contains(word)));
    let whole = status.code() == Some(1) && kept && named;
    ensure!(whole, "without the table or {words:?} it ended with {status}: {table}{stderr}");
    println!("left behind, and named beside the result: {}", stderr.lines().last().unwrap_or_default());
    Ok(())
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
    ensure!(
        table.contains("flush.messages=1") && !table.contains(PASSWORD),
        "no row of Kafka by TLS and login in {table}"
    );
    println!("kafka: measured by SASL_SSL");
    kafka_shipped(bench, &three, &certificates)
}

/// A log shipped to the same nodes.
fn kafka_shipped(bench: &Bench<'_>, nodes: &Nodes, certificates: &Certificates) -> Result {
    let logs = Logs::new(&bench.folder, Bench::seawall)?;
    let other = Certificates::make(&bench.folder.join("other"))?;
    let way = |name: &'static str, topic: &str, servers: &str, properties: String| {
        let config = bench.folder.join(format!("{}.properties", name.replace(' ', "-")));
        files::write(&config, properties)?;
        let options = vec!["--kafka-config".to_owned(), config.display().to_string()];
        let address = format!("kafka://{servers}/{topic}");
        Ok::<_, Error>(Way { name, address, options, environment: Vec::new() })
    };
    let (sasl, mutual) = (nodes.bootstrap(), nodes.mutual());
    let (ours, theirs) = (certificates.authority.as_path(), other.authority.as_path());
    let tls = |protocol: &str, authority: &Path| {
        format!("security.protocol={protocol}\nssl.ca.location={}\n", authority.display())
    };
    let login = |mechanism: &str, password: &str, authority: &Path| {
        let login = format!("sasl.mechanism={mechanism}\nsasl.username={USER}\nsasl.password={password}\n");
        tls("SASL_SSL", authority) + &login
    };
    let (certificate, key) = (certificates.certificate.display(), certificates.key.display());
    let certificate = format!("ssl.certificate.location={certificate}\nssl.key.location={key}\n");
    let by_plain = way("kafka by TLS and PLAIN", "plain", &sasl, login("PLAIN", PASSWORD, ours))?;
    let by_scram = way("kafka by TLS and SCRAM", "scram", &sasl, login("SCRAM-SHA-256", PASSWORD, ours))?;
    let by_certificate = way("kafka by certificate", "mutual", &mutual, tls("SSL", ours) + &certificate)?;
    for allowed in [&by_plain, &by_scram, &by_certificate] {
        logs.allowed(allowed)?;
    }
    let strange = "ssl.truststore.location=x\n".to_owned();
    let cases: [(&str, &Way, &str, String, &[&str]); 6] = [
        ("kafka by a wrong password", &by_plain, &sasl, login("PLAIN", WRONG, ours), &["uthentication"]),
        ("kafka by a wrong SCRAM", &by_scram, &sasl, login("SCRAM-SHA-256", WRONG, ours), &["uthentication"]),
        (
            "kafka by another authority",
            &by_plain,
            &sasl,
            login("PLAIN", PASSWORD, theirs),
            &["certificate", "ssl.ca.location"],
        ),
        ("kafka by no certificate", &by_certificate, &mutual, tls("SSL", ours), &["certificate"]),
        ("kafka without TLS", &by_plain, &sasl, String::new(), &["security.protocol"]),
        (
            "kafka by a strange property",
            &by_plain,
            &sasl,
            strange,
            &["ssl.truststore.location", "librdkafka"],
        ),
    ];
    for (name, allowed, servers, properties, words) in cases {
        let topic = allowed.address.rsplit('/').next().unwrap_or_default();
        let refused = way(name, topic, servers, properties)?;
        logs.refused(allowed, &refused, &[words, &["--kafka-config"]].concat())?;
    }
    Ok(())
}
