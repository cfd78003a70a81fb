//! Lines, their bounds and their readers.

use super::*;

fn texts(page: &LoggedLines) -> Vec<&str> {
    page.lines.iter().map(|line| line.text.as_str()).collect()
}

fn written_by(write: impl FnOnce(&mut AgentLogWriter)) -> Arc<AgentLog> {
    let log = Arc::new(AgentLog::new(true));
    write(&mut AgentLogWriter::new(Arc::clone(&log)));
    log
}

#[test]
fn bytes_become_lines_however_they_are_cut() {
    let text = "one\r\n\u{1b}[31mtwo é\u{1b}[0m\n\n10 %\r20 %\r30 %\nthe end";
    for size in 1..=text.len() {
        let log = written_by(|writer| {
            text.as_bytes().chunks(size).for_each(|piece| writer.push_stderr(piece))
        });
        let page = log.read_last(100);
        assert_eq!(texts(&page), ["one", "two é", "", "30 %", "the end"], "in pieces of {size}");
        assert!(page.lines.iter().all(|line| line.stream == AgentStream::Stderr && !line.is_cut));
    }
}

#[test]
fn secrets_are_removed_from_each_stream_also_at_the_end_of_a_long_line() {
    let key = "sk-ant-0123456789abcdefghijklmnop";
    let long =
        format!("{}{key} and more {}", "x ".repeat(MAX_LINE_BYTES / 2 - 10), "y".repeat(10_000));
    let log = written_by(|writer| {
        writer.push_stderr(format!("a {key} b\n-----BEGIN RSA PRIVATE KEY-----\n").as_bytes());
        writer.push_stdout(b"not of the key");
        writer.push_stderr(b"MIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\nafter\n");
        writer.push_stdout(long.as_bytes());
    });
    let page = log.read_last(100);
    let (last, first) = page.lines.split_last().unwrap();
    let first: Vec<&str> = first.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(
        first,
        ["a sk-[redacted] b", "[redacted]", "not of the key", "[redacted]", "[redacted]", "after"]
    );
    assert!(
        last.is_cut && last.text.len() <= MAX_LINE_BYTES && !last.text.contains("sk-a"),
        "{}",
        last.text
    );
}

#[test]
fn secrets_stay_if_the_configuration_shows_them() {
    let log = Arc::new(AgentLog::new(false));
    AgentLogWriter::new(Arc::clone(&log))
        .push_stderr(b"ghp_0123456789abcdefghijklmnopqrstuvwxyz\n");
    assert_eq!(texts(&log.read_last(1)), ["ghp_0123456789abcdefghijklmnopqrstuvwxyz"]);
}

#[test]
fn reader_gets_each_line_once_and_is_told_of_lines_that_are_gone() {
    let log = written_by(|writer| writer.push_stderr(b"1\n2\n3\n"));
    let first = log.read_last(2);
    assert_eq!((texts(&first), first.has_gap), (vec!["2", "3"], false));
    let mut writer = AgentLogWriter::new(Arc::clone(&log));
    writer.push_stderr(b"4\n5\n6\n");
    let second = log.read_after(&first.next, 2);
    assert_eq!((texts(&second), second.has_gap), (vec!["4", "5"], false));
    let third = log.read_after(&second.next, 2);
    assert_eq!((texts(&third), third.has_gap), (vec!["6"], false));
    assert_eq!(log.read_after(&third.next, 2).lines, []);

    let many = MAX_LOG_BYTES / LINE_OVERHEAD_BYTES * 2;
    (0..many).for_each(|number| writer.push_stderr(format!("{number}\n").as_bytes()));
    let after_flood = log.read_after(&third.next, many);
    assert!(after_flood.has_gap && after_flood.lines.len() < many, "{}", after_flood.lines.len());
    assert_eq!(after_flood.lines.last().unwrap().text, (many - 1).to_string());
    assert!(log.lock_ring().bytes <= MAX_LOG_BYTES);
    assert_eq!(log.read_after(&after_flood.next, many).lines, []);
}

#[test]
fn position_of_another_ring_comes_before_all_lines() {
    let old = written_by(|writer| writer.push_stderr(b"1\n2\n3\n"));
    let position: LogPosition = old.read_last(9).next.to_string().parse().unwrap();
    assert_eq!(position, old.read_last(9).next);
    let page = written_by(|writer| writer.push_stderr(b"a\n")).read_after(&position, 9);
    assert_eq!((texts(&page), page.has_gap), (vec!["a"], true));
    for wrong in ["", "7", ".7", "0123456789ab", "0123456789ab.x", "0123456789a/.1"] {
        assert_eq!(wrong.parse::<LogPosition>(), Err(NoLogPosition), "{wrong:?}");
    }
}

#[tokio::test]
async fn reader_that_waits_gets_the_next_line_and_the_end_of_the_session() {
    let logs = AgentLogs::new(true);
    let session = SessionId::new("sess_1");
    let log = logs.get_or_create(&session);
    let start = log.read_last(1).next;
    let waiting = tokio::spawn({
        let (log, start) = (Arc::clone(&log), start.clone());
        async move {
            log.wait_after(&start).await;
            log.read_after(&start, 9)
        }
    });
    let mut writer = AgentLogWriter::new(Arc::clone(&log));
    writer.push_stderr(b"hello\n");
    let page = waiting.await.unwrap();
    assert_eq!(texts(&page), ["hello"]);
    logs.remove(&session);
    log.wait_after(&page.next).await;
    assert_eq!(log.read_last(9).lines, [], "nothing is left of a deleted session");
    assert_eq!(logs.get_or_create(&session).read_last(9).lines, []);
}

#[test]
fn logs_of_ended_agents_are_kept_until_there_are_too_many() {
    let logs = AgentLogs::new(true);
    let id = |number: usize| SessionId::new(format!("sess_{number}"));
    let running = AgentLogWriter::new(logs.get_or_create(&id(0)));
    (1..=MAX_ENDED_LOGS).for_each(|number| {
        AgentLogWriter::new(logs.get_or_create(&id(number))).push_stderr(b"last words\n");
    });
    assert_eq!(texts(&logs.get_or_create(&id(1)).read_last(9)), ["last words"]);
    (100..=100 + MAX_ENDED_LOGS).for_each(|number| {
        AgentLogWriter::new(logs.get_or_create(&id(number))).push_stderr(b"last words\n");
    });
    assert_eq!(logs.get_or_create(&id(1)).read_last(9).lines, []);
    let kept = logs.lock().logs.len();
    assert!(kept <= MAX_ENDED_LOGS + 2, "{kept} logs");
    assert!(
        Arc::ptr_eq(&running.log, &logs.get_or_create(&id(0))),
        "the log of a running agent stays"
    );
}

#[test]
fn reading_logs_without_lines_drops_no_log_that_has_some() {
    let logs = AgentLogs::new(true);
    let id = |number: usize| SessionId::new(format!("sess_{number}"));
    AgentLogWriter::new(logs.get_or_create(&id(0))).push_stderr(b"last words\n");
    let read = |number: usize| logs.get_or_create(&id(number)).read_last(9);
    (1..=MAX_ENDED_LOGS * 2).for_each(|number| assert_eq!(read(number).lines, []));
    assert_eq!(texts(&read(0)), ["last words"]);
    let kept = logs.lock().logs.len();
    assert!(kept <= 2, "{kept} logs");
}

#[tokio::test]
async fn reader_of_a_log_without_lines_gets_the_first_ones_without_a_gap() {
    let logs = AgentLogs::new(true);
    let (session, other) = (SessionId::new("sess_1"), SessionId::new("sess_2"));
    let start = logs.get_or_create(&session).read_last(9).next;
    let start: LogPosition = start.to_string().parse().unwrap();
    drop(logs.get_or_create(&other));
    AgentLogWriter::new(logs.get_or_create(&session)).push_stderr(b"first\n");
    let log = logs.get_or_create(&session);
    log.wait_after(&start).await;
    let page = log.read_after(&start, 9);
    assert_eq!((texts(&page), page.has_gap), (vec!["first"], false));
}
