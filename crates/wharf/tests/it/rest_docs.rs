//! The transcript in `docs/protocol/rest.md` matches the answers of a real host.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use wharf_testkit::host::HostOptions;

use crate::{cwd, program, wharf_binary};

const BLOCK_BEGIN: &str = "```console\n";
const BLOCK_END: &str = "```\n";

fn documented_commands() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol")
}

/// Replaces ids by their position in the transcript, and times by fixed values.
#[derive(Default)]
struct TranscriptNormaliser {
    names: HashMap<String, String>,
    prompts: usize,
}

impl TranscriptNormaliser {
    fn text(&mut self, text: &str) -> String {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '.' | '/');
        let (mut out, mut rest) = (String::new(), text);
        while let Some(start) = rest.find(word) {
            let end = rest[start..].find(|c| !word(c)).map_or(rest.len(), |end| start + end);
            out.push_str(&rest[..start]);
            out.push_str(&self.word(&rest[start..end]));
            rest = &rest[end..];
        }
        out + rest
    }

    /// Shortens a word, which may be a path with an id in it.
    fn word(&mut self, word: &str) -> String {
        if word.starts_with("curl/") {
            return "curl/8".to_owned();
        }
        let parts: Vec<String> = word.split('/').map(|part| self.part(part)).collect();
        parts.join("/")
    }

    fn part(&mut self, part: &str) -> String {
        if let Some(value) = part.strip_prefix(':') {
            return format!(":{}", self.part(value));
        }
        if part.len() == 24 && part.ends_with('Z') && part.as_bytes()[10] == b'T' {
            return "2026-01-01T00:00:00.000Z".to_owned();
        }
        if part.len() == 13 && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return "1767225600000".to_owned();
        }
        if part.starts_with("sess_") && part.len() == 31 {
            return "sess_A".to_owned();
        }
        if part.starts_with("prm_") && part.len() == 30 {
            let prompts = &mut self.prompts;
            let name = self.names.entry(part.to_owned()).or_insert_with(|| {
                *prompts += 1;
                format!("prm_{prompts}")
            });
            return name.clone();
        }
        part.to_owned()
    }
}

/// Removes a member that differs from run to run.
fn remove_member(text: &str, member: &str) -> String {
    let begin = format!("\"{member}\":");
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(&begin) {
        out.push_str(&rest[..start]);
        let end = rest[start..].find(',').map_or(rest.len(), |comma| start + comma + 1);
        rest = &rest[end..];
    }
    out + rest
}

/// Removes the usage of a session, its last member, which is known only after the first
/// measurement.
fn remove_resources(text: &str) -> String {
    let mut parts = text.split(",\"resources\":{");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('}').map_or(part, |(_, rest)| rest))
}

#[test]
fn transcript_in_the_documentation_matches_the_server() -> Result<()> {
    let host =
        HostOptions { binary: Some(wharf_binary()), ..HostOptions::default() }.start_host()?;
    let dir = cwd(&host)?;
    let mut script = program::script_command(&documented_commands().join("rest.sh"));
    let run = script
        .arg(&dir)
        .env("WHARF_URL", host.url())
        .env("WHARF_TOKEN", host.token())
        .output()?;
    ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let said = String::from_utf8(run.stdout)?.replace(&dir, "/home/me/project");
    let said = TranscriptNormaliser::default()
        .text(&remove_resources(&remove_member(&remove_member(&said, "lastSeq"), "lastOutputAt")));

    let path = documented_commands().join("rest.md");
    let document = std::fs::read_to_string(&path)?;
    let (before, rest) = document.split_once(BLOCK_BEGIN).context("no transcript")?;
    let (written, after) = rest.split_once(BLOCK_END).context("the transcript has no end")?;
    if std::env::var_os("WHARF_BLESS").is_some() {
        std::fs::write(
            &path,
            format!("{before}{BLOCK_BEGIN}{}\n{BLOCK_END}{after}", said.trim_end()),
        )?;
        return Ok(());
    }
    for (index, (line, expected)) in
        said.trim_end().lines().zip(written.trim_end().lines()).enumerate()
    {
        assert_eq!(
            line, expected,
            "line {index} of the transcript; WHARF_BLESS=1 takes it as it is now"
        );
    }
    assert_eq!(said.trim_end().lines().count(), written.trim_end().lines().count());
    Ok(())
}
