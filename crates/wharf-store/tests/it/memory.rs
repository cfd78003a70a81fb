//! The hostile engine fails as it is told to.

use std::sync::mpsc;

use bytes::Bytes;
use wharf_store::conformance::{read_all, sync_and_wait};
use wharf_store::{AppendError, Engine, Hostility, MemoryEngine, StoreError};

use crate::{body, id};

#[test]
fn scripted_append_failures_leave_no_records() {
    let hostility = Hostility::default();
    let log = MemoryEngine::new(hostility.clone()).create(&id()).unwrap();
    hostility.fill_appends(2);
    for _ in 0..2 {
        assert!(matches!(log.append(1, 0, &[body(1)]), Err(AppendError::Full(_))));
    }
    hostility.break_appends(1);
    assert!(matches!(log.append(1, 0, &[body(1)]), Err(AppendError::Store(StoreError::Io { .. }))));
    assert_eq!(log.head().seq, 0);
    assert_eq!(log.append(1, 0, &[body(1)]).unwrap().seq, 1);
    hostility.take_over(5);
    assert!(matches!(
        log.append(4, 1, &[body(2)]),
        Err(AppendError::StaleEpoch { ours: 4, current: 5 })
    ));
    assert_eq!(log.append(5, 1, &[body(2)]).unwrap().seq, 2);
}

#[test]
fn syncs_wait_until_they_are_released() {
    let hostility = Hostility::default();
    let log = MemoryEngine::new(hostility.clone()).create(&id()).unwrap();
    hostility.hold_syncs();
    log.append(1, 0, &[body(1)]).unwrap();
    let (send, done) = mpsc::sync_channel(10);
    log.sync(Box::new(move |result| send.send(result.unwrap()).unwrap()));
    assert_eq!((hostility.held_syncs(), done.try_recv().ok()), (1, None));
    hostility.release_syncs();
    assert_eq!(done.try_recv().ok(), Some(1));
    assert_eq!(sync_and_wait(&*log).unwrap(), 1, "and no more are held");
}

#[test]
fn a_failed_sync_closes_the_log_for_writing() {
    let hostility = Hostility::default();
    let log = MemoryEngine::new(hostility.clone()).create(&id()).unwrap();
    log.append(1, 0, &[body(1)]).unwrap();
    hostility.break_syncs(1);
    assert!(sync_and_wait(&*log).is_err());
    assert!(sync_and_wait(&*log).is_err(), "it is not tried again");
    assert!(log.append(1, 1, &[body(2)]).is_err());
    assert_eq!(read_all(&*log, 1, 1000).len(), 1);
}

#[test]
fn power_cut_drops_unsynced_records() {
    let engine = MemoryEngine::new(Hostility::default());
    let log = engine.create(&id()).unwrap();
    log.append(1, 0, &[body(1), body(2)]).unwrap();
    let safe = log.head();
    sync_and_wait(&*log).unwrap();
    log.append(1, 2, &[Bytes::from_static(b"gone")]).unwrap();
    engine.lose_power();
    assert_eq!(log.head(), safe);
    assert_eq!(read_all(&*log, 1, 1000).len(), 2);
}
