//! One host at a time, each with a higher epoch.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;
use wharf_store::{FileLease, Lease, LeaseError};

use crate::{SMALL, write_log};

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
            let error = FileLease::acquire(dir.path()).unwrap_err();
            assert!(matches!(error, LeaseError::EpochLost { .. }));
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            assert_eq!(fs::read(&path).unwrap(), bad, "left for a person to look at");
        }
    }
    write_log(dir.path(), SMALL, 1);
    fs::remove_file(&path).unwrap();
    assert!(matches!(FileLease::acquire(dir.path()), Err(LeaseError::EpochLost { .. })), "gone, but there are logs");
    fs::write(&path, good).unwrap();
    assert_eq!(FileLease::acquire(dir.path()).unwrap().epoch(), 2);
}
