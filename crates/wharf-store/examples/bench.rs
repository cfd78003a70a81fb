#![allow(clippy::all, clippy::unwrap_used, clippy::print_stdout, clippy::allow_attributes)]
use bytes::Bytes;
use std::time::Instant;
use wharf_store::*;
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    s.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e3
}
fn main() {
    let dir = tempfile::TempDir::new().unwrap();
    let mk = |n: &str| LogId::new("b", n).unwrap();
    let body = Bytes::from(vec![b'x'; 270]);
    let e = FileEngine::open(FileOptions::new(dir.path())).unwrap();
    let log = e.create(&mk("one")).unwrap();
    let n = 200_000u64;
    let (c, t) = (cpu(), Instant::now());
    for s in 0..n {
        log.append(1, s, std::slice::from_ref(&body)).unwrap();
    }
    println!("single: cpu {:.2} us wall {:.2} us", (cpu() - c) / n as f64, t.elapsed().as_micros() as f64 / n as f64);
    let log2 = e.create(&mk("two")).unwrap();
    let batch = vec![body.clone(); 64];
    let m = 2_000_000u64 / 64;
    let (c, t) = (cpu(), Instant::now());
    for s in 0..m {
        log2.append(1, s * 64, &batch).unwrap();
    }
    println!(
        "b64: {:.0} rec/s cpu {:.2} us/rec",
        (m * 64) as f64 / t.elapsed().as_secs_f64(),
        (cpu() - c) / (m * 64) as f64
    );
    drop((log, log2));
    drop(e);
    let e = FileEngine::open(FileOptions { segment_bytes: 80 << 20, ..FileOptions::new(dir.path()) }).unwrap();
    let log3 = e.create(&mk("three")).unwrap();
    let mut h = 0;
    let mut bytes = 0;
    while bytes < 64 << 20 {
        let x = log3.append(1, h, &batch).unwrap();
        h = x.seq;
        bytes = x.bytes;
    }
    drop(log3);
    drop(e);
    for idx in [true, false] {
        if idx == 4 {
            std::fs::remove_file(dir.path().join("workspaces/b/sessions/three/log/00000000000000000001.idx")).unwrap();
        }
        let p = dir.path().join("workspaces/b/sessions/three/log/00000000000000000001.idx");
        println!("idx exists {}", p.exists());
        if false {
            let _ = std::fs::remove_file(&p);
        }
        let e = FileEngine::open(FileOptions::new(dir.path())).unwrap();
        let t = Instant::now();
        let l = e.open(&mk("three")).unwrap();
        println!("open 64MiB: {:?}", t.elapsed());
        let t = Instant::now();
        let l2 = e.open(&mk("two")).unwrap();
        println!("open 2M ({} segs): {:?}", l2.head().bytes >> 26, t.elapsed());
        let (c, t) = (cpu(), Instant::now());
        let mut next = 1;
        let mut cnt = 0u64;
        loop {
            let p = l2.read(next, 256 << 10).unwrap();
            assert!(p.damage.is_empty());
            if p.records.is_empty() {
                break;
            }
            next = p.records.last().unwrap().seq + 1;
            cnt += p.records.len() as u64;
        }
        println!(
            "seq read 256K pages: {:.2} M rec/s cpu {:.3} us/rec",
            cnt as f64 / t.elapsed().as_secs_f64() / 1e6,
            (cpu() - c) / cnt as f64
        );
        let t = Instant::now();
        let mut x = 7u64;
        for _ in 0..2000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let from = 1 + x % cnt;
            assert_eq!(l2.read(from, 0).unwrap().records[0].seq, from);
        }
        println!("random single read: {:.1} us", t.elapsed().as_micros() as f64 / 2000.0);
        let mut s = l.head().seq;
        let t = Instant::now();
        let c = cpu();
        for _ in 0..100000 {
            s = l.append(1, s, std::slice::from_ref(&body)).unwrap().seq;
            assert_eq!(l.read(s, 1 << 16).unwrap().records.len(), 1);
        }
        println!("append+follow 1 rec: {:.2} us cpu {:.2}", t.elapsed().as_micros() as f64 / 1e5, (cpu() - c) / 1e5);
        let mut v = vec![];
        for _ in 0..200 {
            s = l.append(1, s, std::slice::from_ref(&body)).unwrap().seq;
            let t = Instant::now();
            conformance::sync(&*l).unwrap();
            v.push(t.elapsed());
        }
        v.sort();
        println!("sync p50 {:?} p99 {:?}", v[100], v[198]);
        let logs: Vec<_> = (0..64).map(|i| e.create(&mk(&format!("s{i}-{idx}"))).unwrap()).collect();
        for l in &logs {
            conformance::sync(&**l).unwrap();
        }
        let mut v = vec![];
        for r in 0..20 {
            for l in &logs {
                l.append(1, r, std::slice::from_ref(&body)).unwrap();
            }
            let t = Instant::now();
            let (tx, rx) = std::sync::mpsc::sync_channel(64);
            for l in &logs {
                let tx = tx.clone();
                l.sync(Box::new(move |r| {
                    r.unwrap();
                    tx.send(()).unwrap();
                }));
            }
            for _ in 0..64 {
                rx.recv().unwrap();
            }
            v.push(t.elapsed());
        }
        v.sort();
        println!("64 logs all synced p50 {:?} max {:?}", v[10], v[19]);
    }
    let dir = tempfile::TempDir::new().unwrap();
    for nth in 0..10_000 {
        let log = dir.path().join(format!("workspaces/bucket-{}/sessions/sess_{nth}/log", nth % 7));
        std::fs::create_dir_all(&log).unwrap();
        std::fs::write(log.join("00000000000000000001.log"), "").unwrap();
    }
    let e = FileEngine::open(FileOptions::new(dir.path())).unwrap();
    for _ in 0..4 {
        let t = Instant::now();
        e.list().unwrap();
        println!("list 10k: {:?}", t.elapsed());
    }
    let i = SqliteIndex::open(&dir.path().join("i.db")).unwrap();
    let rows: Vec<_> = (0..10000)
        .map(|n| IndexRow { id: mk(&format!("s{n}")), seq: 1, bytes: 1, snapshot: None, summary: body.clone() })
        .collect();
    let t = Instant::now();
    i.put(&rows).unwrap();
    println!("put 10k {:?}", t.elapsed());
    let t = Instant::now();
    for r in 0..100 {
        i.put(&rows[r..r + 1]).unwrap();
    }
    println!("put 1: {:?}", t.elapsed() / 100);
    let t = Instant::now();
    i.all().unwrap();
    println!("all 10k {:?}", t.elapsed());
    drop(i);
    let t = Instant::now();
    SqliteIndex::open(&dir.path().join("i.db")).unwrap();
    println!("reopen {:?}", t.elapsed());
}
