//! Tests the parser of requirements, its errors and the presets.

use super::*;

#[test]
fn conditions_are_read_with_their_methods_and_units() {
    let requirement = parse("p99<10ms, direct+dsync:p99.9 <= 1.5ms and commits/s>1_000").expect("three");
    let [a, b, c] = requirement.conditions.as_slice() else { panic!("{requirement:?}") };
    assert_eq!((a.figure, a.bound, a.inclusive), (Figure::Percentile(99.0), 1e7, false));
    assert_eq!((b.method.as_deref(), b.bound, b.inclusive), (Some("direct+dsync"), 1.5e6, true));
    assert_eq!((c.figure, c.bound), (Figure::CommitsPerS, 1000.0));
    assert!(parse("max<500us").is_ok() && parse("mean<500µs").is_ok() && parse("MB/s>100").is_ok());
    assert!(parse("sync-p99<10ms").expect("sync").conditions[0].sync_only);
}

#[test]
fn errors_name_the_token_and_the_grammar() {
    let cases = [
        ("p98<10ms", "`p98`"),
        ("p99<10", "`10`"),
        ("p99<ten ms", "`tenms`"),
        ("p99>10ms", "below"),
        ("commits/s<5", "above"),
        ("commits/s>many", "`many`"),
        ("fdatasnyc:p99<1ms", "`fdatasnyc`"),
        ("buffered+fdatasnyc:p99<1ms", "did you mean buffered+fdatasync"),
        ("etc", "`etc`"),
        ("p99<10ms,,max<1s", "missing"),
        ("", "missing"),
        ("sync-commits/s>3", "sync-commits/s"),
        ("p99<-1ms", "-1ms"),
        ("p99<0s", "`0s`"),
        ("etcd,openshift", "same way as etcd"),
    ];
    for (text, token) in cases {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(token) && error.contains("expected [METHOD:]"), "{text}: {error}");
    }
}

#[test]
fn presets_are_unique_and_readable() {
    for preset in &PRESETS {
        let requirement = parse(preset.name).expect(preset.name);
        assert_eq!(requirement.presets, [preset]);
        assert_eq!(requirement.conditions.len(), preset.conditions.len());
        assert_eq!(requirement.conditions[0].method.as_deref(), preset.method);
        assert_eq!(PRESETS.iter().filter(|other| other.name == preset.name).count(), 1);
        assert!(preset.source.contains("https://") && preset.version.contains(|c: char| c.is_ascii_digit()));
        assert!(preset.grades.is_sorted_by_key(|(up_to, _)| *up_to) && preset.grades.len() > 1);
    }
    assert_eq!(
        parse("openshift,openshift-heavy,cockroachdb").expect("of one size and state").presets.len(),
        3
    );
    assert_eq!(parse("etcd,max<1s").expect("mixed").conditions.len(), 2);
}
