//! The program of `two-builds.txt`: the log's workloads beside a plain loop of durable writes, on the public API alone, so that two builds can take turns.
use seawall::{Log, Lsn, MethodChoice, Options};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Instant;
fn opts() -> Options {
    Options::default().method(MethodChoice::Named("direct+dsync".into()))
}
fn pct(v: &mut Vec<u64>, p: f64) -> f64 {
    v.sort_unstable();
    v[((v.len() - 1) as f64 * p) as usize] as f64 / 1000.0
}
fn floor(dir: &str, size: usize, n: usize) -> (f64, Vec<u64>) {
    let path = format!("{dir}/floor");
    let len = 64 << 20;
    {
        let f = std::fs::File::create(&path).unwrap();
        let z = vec![1_u8; 1 << 20];
        for i in 0..64 {
            f.write_all_at(&z, i << 20).unwrap();
        }
        f.sync_all().unwrap();
    }
    let f = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(0o40000 | 0o10000)
        .open(&path)
        .unwrap();
    let mut buf = vec![0_u8; size + 4096];
    let o = buf.as_ptr().align_offset(4096);
    let mut v = Vec::with_capacity(n);
    let t = Instant::now();
    for i in 0..n {
        let s = Instant::now();
        buf[o..o + size].fill(i as u8);
        f.write_all_at(&buf[o..o + size], ((i * size) % len) as u64).unwrap();
        v.push(s.elapsed().as_nanos() as u64);
    }
    let r = n as f64 / t.elapsed().as_secs_f64();
    std::fs::remove_file(&path).unwrap();
    (r, v)
}
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let tag = std::env::args().nth(2).unwrap();
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let log = Log::open(format!("{dir}/log"), opts()).unwrap();
    for (name, size, n, threads, floor_size) in [
        ("W1", 16_300, 15_000, 1, 16384),
        ("W2", 256, 15_000, 1, 4096),
        ("W3", 256, 160_000, 16, 4096),
        ("W4", 1024, 400_000, 64, 4096),
    ] {
        let (fr, mut fv) = floor(&dir, floor_size, 6_000);
        let rec = vec![7_u8; size];
        let t = Instant::now();
        let mut all: Vec<u64> = std::thread::scope(|s| {
            let hs: Vec<_> = (0..threads)
                .map(|_| {
                    s.spawn(|| {
                        let mut v = Vec::new();
                        let mut rec = rec.clone();
                        for i in 0..n / threads {
                            let s = Instant::now();
                            rec.fill(i as u8);
                            let l = log.append(&rec).unwrap();
                            log.commit(l).unwrap();
                            v.push(s.elapsed().as_nanos() as u64);
                            if i % 1000 == 999 {
                                log.trim(l).unwrap();
                            }
                        }
                        v
                    })
                })
                .collect();
            hs.into_iter().flat_map(|h| h.join().unwrap()).collect()
        });
        let r = n as f64 / t.elapsed().as_secs_f64();
        println!(
            "{tag} {name} rate {r:.0} floor {fr:.0} ratio {:.3} p50 {:.1} p99 {:.1} fp50 {:.1} fp99 {:.1}",
            r / fr,
            pct(&mut all, 0.5),
            pct(&mut all, 0.99),
            pct(&mut fv, 0.5),
            pct(&mut fv, 0.99)
        );
    }
    {
        let (fr, _) = floor(&dir, 4096, 6_000);
        let n = 1_000_000;
        let rec = [7_u8; 1024];
        let mut q = std::collections::VecDeque::new();
        let t = Instant::now();
        for i in 0..n {
            q.push_back(log.append(&rec).unwrap());
            if q.len() >= 64 {
                let l = q.pop_front().unwrap();
                log.commit(l).unwrap();
                if i % 20_000 == 0 {
                    log.trim(l).unwrap();
                }
            }
        }
        let r = n as f64 / t.elapsed().as_secs_f64();
        println!("{tag} W4a rate {r:.0} floor {fr:.0} ratio {:.3}", r / fr);
    }
    {
        let (fr, _) = floor(&dir, 102_400, 2_000);
        let n = 6_000;
        let rec = [7_u8; 1024];
        let t = Instant::now();
        for i in 0..n {
            let mut l = Lsn::ZERO;
            for _ in 0..100 {
                l = log.append(&rec).unwrap();
            }
            log.commit(l).unwrap();
            if i % 100 == 0 {
                log.trim(l).unwrap();
            }
        }
        let r = n as f64 / t.elapsed().as_secs_f64();
        println!("{tag} W5 rate {r:.0} floor {fr:.0} ratio {:.3}", r / fr);
    }
    {
        let rec = [7_u8; 256];
        let mut best: f64 = 0.0;
        for _ in 0..10 {
            let n = 8_000;
            let t = Instant::now();
            let mut l = Lsn::ZERO;
            for _ in 0..n {
                l = log.append(&rec).unwrap();
            }
            best = best.max(n as f64 / t.elapsed().as_secs_f64());
            log.commit(l).unwrap();
        }
        println!("{tag} W6 rate {best:.0}");
    }
    log.close().unwrap();
    {
        let log = Log::open(format!("{dir}/r"), opts()).unwrap();
        let rec = [7_u8; 1024];
        for i in 0..400_000 {
            let l = log.append(&rec).unwrap();
            if i % 400 == 0 {
                log.commit(l).unwrap();
            }
        }
        log.close().unwrap();
        for w in ["cold", "W7"] {
            let t = Instant::now();
            let log = Log::open(format!("{dir}/r"), opts()).unwrap();
            let mut b = 0_usize;
            for r in log.read(Lsn::ZERO).unwrap() {
                b += r.unwrap().payload.len();
            }
            println!("{tag} {w} rate {:.0} MB/s", b as f64 / t.elapsed().as_secs_f64() / 1e6);
            log.close().unwrap();
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
