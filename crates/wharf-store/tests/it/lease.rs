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
    assert!(
        matches!(refusal, LeaseError::Held { pid: Some(pid), .. } if pid == std::process::id())
    );
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
            assert_eq!(
                (lost.found, &fs::read(kept).unwrap()[..]),
                (0, bad),
                "kept for a person to look at"
            );
            fs::remove_file(kept).unwrap();
        }
    }
    fs::write(&path, good).unwrap();
    let lease = FileLease::acquire(dir.path()).unwrap();
    assert_eq!((lease.epoch(), lease.lost_epoch()), (2, None));
}

#[test]
#[cfg(target_os = "linux")]
fn epoch_that_cannot_be_read_is_set_aside() {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::{CWD, Mode};

    let dir = TempDir::new().unwrap();
    let engine = engine(dir.path(), SMALL);
    let log = engine.create(&LogId::new("one", "sess_1").unwrap()).unwrap();
    log.append(7, 0, &[body(1)]).unwrap();
    drop((log, engine));
    let path = dir.path().join("epoch");
    let make_pipe = |path: &Path| rustix::fs::mkfifoat(CWD, path, Mode::RWXU).unwrap();
    // Reading the first byte of one's memory fails with EIO, as with a failing disk.
    let make_unreadable = |path: &Path| symlink("/proc/self/mem", path).unwrap();
    let make_directory = |path: &Path| fs::create_dir(path).unwrap();
    type MakeOddity<'a> = &'a dyn Fn(&Path);
    let oddities: [(&str, MakeOddity<'_>); 3] = [
        ("a directory", &make_directory),
        ("a pipe", &make_pipe),
        ("an unreadable file", &make_unreadable),
    ];
    let mut last = 7;
    for (what, make) in oddities {
        let _ = fs::remove_file(&path);
        make(&path);
        let lease = FileLease::acquire_with(dir.path(), &|| last)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(lease.epoch(), last + 1_000_000, "{what}");
        let kept = lease.lost_epoch().unwrap().kept_as.clone().unwrap();
        assert!(fs::symlink_metadata(&kept).is_ok(), "{what} is not kept");
        last = lease.epoch();
        drop(lease);
        assert_eq!(FileLease::acquire(dir.path()).unwrap().epoch(), last + 1, "{what}");
    }
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
    assert_eq!(
        FileLease::acquire(dir.path()).unwrap().epoch(),
        1_000_007,
        "gone, but there are logs"
    );
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
