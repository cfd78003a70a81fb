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
    let batch = vec![body.clone(); 64];
    let o = FileOptions { segment_bytes: 80 << 20, ..FileOptions::new(dir.path()) };
    let e = FileEngine::open(o.clone()).unwrap();
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
    for _ in 0..3 {
        let p = dir.path().join("workspaces/b/sessions/three/log/00000000000000000001.idx");
        let _ = std::fs::remove_file(&p);
        let e = FileEngine::open(o.clone()).unwrap();
        let c = cpu();
        let t = Instant::now();
        let l = e.open(&mk("three")).unwrap();
        println!("open 64MiB no idx {:?}: {:?} cpu {:.1} ms", l.head(), t.elapsed(), (cpu() - c) / 1e3);
    }
    let dir = tempfile::TempDir::new().unwrap();
    for nth in 0..10_000 {
        let log = dir.path().join(format!("workspaces/bucket-{}/sessions/sess_{nth}/log", nth % 7));
        std::fs::create_dir_all(&log).unwrap();
        std::fs::write(log.join("00000000000000000001.log"), "").unwrap();
    }
    let e = FileEngine::open(FileOptions::new(dir.path())).unwrap();
    for _ in 0..6 {
        let c = cpu();
        let t = Instant::now();
        e.list().unwrap();
        println!("list 10k: {:?} cpu {:.1} ms", t.elapsed(), (cpu() - c) / 1e3);
    }
}
