//! One host at a time, each with a higher epoch.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;
use wharf_store::{Engine, FileLease, Lease, LeaseError, LogId};

use crate::{SMALL, body, engine};

#[test]
fn every_lease_has_a_higher_epoch() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("state");
    for epoch in 1..5 {
        assert_eq!(FileLease::acquire(&root).unwrap().epoch(), epoch);
    }
    assert_eq!(root.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    for file in ["host.lock", "epoch"] {
        assert_eq!(root.join(file).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_second_host_is_refused_with_the_pid_of_the_first() {
    let dir = TempDir::new().unwrap();
    let lease = FileLease::acquire(dir.path()).unwrap();
    let refusal = FileLease::acquire(dir.path()).unwrap_err();
    assert!(matches!(refusal, LeaseError::Held { pid: Some(pid), .. } if pid == std::process::id()));
    assert!(refusal.to_string().contains(&std::process::id().to_string()));
    drop(lease);
    assert_eq!(FileLease::acquire(dir.path()).unwrap().epoch(), 2, "a refused host raises nothing");
}

#[test]
fn an_old_epoch_never_comes_back() {
    let dir = TempDir::new().unwrap();
    drop(FileLease::acquire(dir.path()).unwrap());
    let path = dir.path().join("epoch");
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        for bad in [&bad[..], &good[..at]] {
            fs::write(&path, bad).unwrap();
            let lease = FileLease::acquire(dir.path()).unwrap();
            assert_eq!(lease.epoch(), 1_000_000);
            let lost = lease.lost_epoch().unwrap();
            let kept = lost.kept_as.as_ref().unwrap();
            assert_eq!((lost.found, &fs::read(kept).unwrap()[..]), (0, bad), "kept for a person to look at");
            fs::remove_file(kept).unwrap();
        }
    }
    fs::write(&path, good).unwrap();
    let lease = FileLease::acquire(dir.path()).unwrap();
    assert_eq!((lease.epoch(), lease.lost_epoch()), (2, None));
}

#[test]
fn lost_epoch_goes_on_above_all_logs_and_the_index() {
    let dir = TempDir::new().unwrap();
    let engine = engine(dir.path(), SMALL);
    for (bucket, epochs) in [("one", vec![3, 7]), ("two", vec![5])] {
        let log = engine.create(&LogId::new(bucket, "sess_1").unwrap()).unwrap();
        for (seq, epoch) in (0..).zip(epochs) {
            log.append(epoch, seq, &[body(seq + 1)]).unwrap();
        }
    }
    drop(engine);
    let path = dir.path().join("epoch");
    assert_eq!(FileLease::acquire(dir.path()).unwrap().epoch(), 1_000_007, "gone, but there are logs");
    fs::write(&path, "").unwrap();
    let lease = FileLease::acquire_with(dir.path(), &|| 2_000_000).unwrap();
    assert_eq!((lease.epoch(), lease.lost_epoch().unwrap().found), (3_000_000, 2_000_000));
    drop(lease);
    let lease = FileLease::acquire_with(dir.path(), &|| panic!("it is not lost")).unwrap();
    assert_eq!(lease.epoch(), 3_000_001);
    drop(lease);
    fs::write(&path, "").unwrap();
    let full = FileLease::acquire_with(dir.path(), &|| u64::MAX).unwrap_err();
    assert!(matches!(full, LeaseError::LastEpoch { .. }), "{full}");
}
