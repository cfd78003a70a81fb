//! `wharf config set`, `unset`, `edit`, `check` and `path`: the file itself.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use wharf_api::{ReloadReceipt, SettingSource};
use wharf_config::{Config, ConfigKey, ConfigSources};

use crate::client::HostCall;
use crate::config_file::{
    ConfigFileEditor, FileMistake, StartBase, check_text, differs_in_address, read_value,
};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::start_check::RunningHost;
use crate::verbs::serve;
use crate::{connect, output};

/// Returns where the file is or would be.
pub(super) fn file_path(global: &GlobalOptions) -> anyhow::Result<PathBuf> {
    global.refuse_remote(
        "the configuration file is on the host's own machine; log in there to change it",
    )?;
    let file = global.config_path()?;
    std::path::absolute(&file).with_context(|| format!("finding {}", file.display()))
}

fn find_key(path: &str) -> Result<&'static ConfigKey, Failure> {
    ConfigKey::find(path).ok_or_else(|| Failure::new(Exit::Usage, wharf_config::unknown_key(path)))
}

/// Sets one or several keys in one step. `words` are keys and values by turns.
pub(super) async fn set(global: &GlobalOptions, words: &[String]) -> anyhow::Result<Exit> {
    let file = file_path(global)?;
    let mut changes = Vec::new();
    for pair in words.chunks(2) {
        let [path, value] = pair else {
            let words = format!("{} has no value; give keys and values by turns", pair.concat());
            return Err(Failure::new(Exit::Usage, words).into());
        };
        let value = if value == "-" { read_stdin()? } else { value.clone() };
        changes.push(SettingChange { key: find_key(path)?, path: path.clone(), value });
    }
    let base = find_start_base(global).await?;
    let hide = |error: anyhow::Error| {
        let secrets = changes.iter().filter(|change| change.key.secret);
        secrets.fold(error, |error, change| hide_value(&error, &change.value))
    };
    change_values(&changes, &file, &base).map_err(hide)?;
    let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    report_effect(global, &paths, &file).await
}

/// A new value of a key, as it was typed.
struct SettingChange {
    key: &'static ConfigKey,
    /// The key, dotted, with the user's names in it.
    path: String,
    value: String,
}

/// Sets the keys in the file, if a host could use the result.
fn change_values(changes: &[SettingChange], file: &Path, base: &StartBase) -> anyhow::Result<()> {
    let mut editor = ConfigFileEditor::open(file)?;
    let before = FileState::of(&editor, base);
    let mut lines = Vec::new();
    for change in changes {
        let value = read_value(change.key, &change.value)?;
        editor.set(&change.path, &value)?;
        let shown = if change.key.secret { "(set)".to_owned() } else { value.to_string() };
        lines.push(format!("{} = {}", change.path, shown.trim()));
    }
    judge_change(&before, &FileState::of(&editor, base))?;
    editor.save()?;
    drop(editor);
    lines.iter().for_each(|line| output::print_line(line));
    Ok(())
}

/// The text of the file at one time, and why no host could start with it.
struct FileState {
    text: String,
    mistake: Option<FileMistake>,
}

impl FileState {
    fn of(editor: &ConfigFileEditor, base: &StartBase) -> Self {
        Self {
            text: editor.text().to_owned(),
            mistake: editor.check(base).err(),
        }
    }
}

/// Refuses a change that keeps a host from starting. If the file kept it from that already, for the
/// same reason, a note says so.
fn judge_change(before: &FileState, after: &FileState) -> Result<(), Failure> {
    let refused = |mistake: &FileMistake, advice: &str| {
        Failure::new(Exit::Usage, format!("{mistake}{advice}"))
    };
    match (&before.mistake, &after.mistake) {
        (_, None) => Ok(()),
        (Some(FileMistake::Settings(_)), Some(mistake @ FileMistake::Settings(_))) => {
            Err(refused(mistake, EDIT_ADVICE))
        }
        (Some(was), Some(mistake @ FileMistake::Start(_)))
            if was == mistake || !differs_in_address(&before.text, &after.text) =>
        {
            output::print_note(&format!("note: {mistake}"));
            Ok(())
        }
        (_, Some(mistake @ FileMistake::Start(_))) => Err(refused(mistake, TOGETHER_ADVICE)),
        (_, Some(mistake)) => Err(refused(mistake, "")),
    }
}

/// How a file is mended that was invalid already.
const EDIT_ADVICE: &str =
    "\nmend the file: wharf config edit, or remove a key: wharf config unset KEY";
/// How settings are changed that need each other.
const TOGETHER_ADVICE: &str = "\nnothing is changed; settings that need each other go together: wharf config set KEY VALUE KEY VALUE";

/// Returns the circumstances of a start on this machine.
async fn find_start_base(global: &GlobalOptions) -> anyhow::Result<StartBase> {
    let Config { state_dir, program, .. } = serve::base_config(global)?;
    let running = RunningHost::find(global).await;
    Ok(StartBase {
        state_dir,
        program,
        variables: wharf_config::own_variables(),
        running,
    })
}

/// Returns the error without the value, which is a secret, whatever part of the program quotes it.
fn hide_value(error: &anyhow::Error, value: &str) -> anyhow::Error {
    let words = format!("{error:#}").replace(value, "(hidden)");
    Failure::new(Failure::exit_of(error), words).into()
}

pub(super) async fn unset(global: &GlobalOptions, paths: &[String]) -> anyhow::Result<Exit> {
    let file = file_path(global)?;
    let base = find_start_base(global).await?;
    let mut editor = ConfigFileEditor::open(&file)?;
    let before = FileState::of(&editor, &base);
    let mut removed = Vec::new();
    for path in paths {
        // A key that is unknown, but in the file, is a mistake that this mends.
        if editor.unset(path)? {
            removed.push(path.as_str());
        } else {
            find_key(path)?;
            output::print_note(&format!("{path} is not set in {}", file.display()));
        }
    }
    if removed.is_empty() {
        return Ok(Exit::Ok);
    }
    let is_mended = removed.iter().any(|path| find_key(path).is_err());
    let after = FileState::of(&editor, &base);
    // A removal that mends a mistake is saved before this check: the file may have further
    // mistakes, but it does not get worse.
    if !is_mended {
        judge_change(&before, &after)?;
    }
    editor.save()?;
    drop(editor);
    removed
        .iter()
        .for_each(|path| output::print_line(&format!("{path} is not set any more")));
    if is_mended {
        judge_change(&before, &after)?;
        return reload_running_host(global, &file).await;
    }
    report_effect(global, &removed, &file).await
}

fn read_stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .read_to_string(&mut text)
        .context("reading the value from stdin")?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// Says whether the values of the file count, and when.
async fn report_effect(
    global: &GlobalOptions,
    paths: &[&str],
    file: &Path,
) -> anyhow::Result<Exit> {
    let here = serve::load_config(global)?.describe_settings();
    let changed = here.settings.iter().filter(|setting| paths.contains(&setting.key.as_str()));
    for setting in changed.filter(|setting| setting.source == SettingSource::Environment) {
        let name = setting.set_by.as_deref().unwrap_or_default();
        output::print_note(&format!("the variable {name} is set here and counts before the file"));
    }
    reload_running_host(global, file).await
}

/// Makes a running host that uses this file read it again. Does nothing if no host runs.
async fn reload_running_host(global: &GlobalOptions, file: &Path) -> anyhow::Result<Exit> {
    let client = match global.connect_running_client().await {
        Ok(client) => client,
        Err(error) if Failure::exit_of(&error) == Exit::NoHost => return Ok(Exit::Ok),
        Err(error) => return Err(error),
    };
    let host: wharf_api::HostInfo = client.fetch_json(&HostCall::get("/host")).await?;
    let used = host.settings.and_then(|settings| settings.file).map(PathBuf::from);
    if used.as_deref() != Some(file) {
        let used = used.map_or_else(|| "no file".to_owned(), |used| used.display().to_string());
        output::print_note(&format!("the running host uses {used}"));
        return Ok(Exit::Ok);
    }
    let receipt: ReloadReceipt = client.fetch_json(&HostCall::post_empty("/host/reload")).await?;
    super::super::reload::report(&receipt, false);
    Ok(Exit::Ok)
}

pub(super) async fn edit(global: &GlobalOptions) -> anyhow::Result<Exit> {
    let file = file_path(global)?;
    if !output::is_person_present() {
        let words = "there is no terminal for an editor; use: wharf config set KEY VALUE";
        return Err(Failure::new(Exit::Usage, words).into());
    }
    let base = find_start_base(global).await?;
    let mut editor = ConfigFileEditor::open(&file)?;
    let before = FileState::of(&editor, &base);
    let folder = connect::PrivateFolder::create("wharf-config").context("making a copy to edit")?;
    let copy = folder.path().join("config.toml");
    std::fs::write(&copy, editor.text()).with_context(|| format!("writing {}", copy.display()))?;
    loop {
        connect::run_editor(&copy)?;
        let text = std::fs::read_to_string(&copy)
            .with_context(|| format!("reading {}", copy.display()))?;
        if text == editor.text() {
            output::print_note("nothing was changed");
            return Ok(Exit::Ok);
        }
        let mistake = check_text(&text, &file, &base).err();
        let after = FileState { text, mistake };
        match judge_change(&before, &after) {
            Ok(()) => {
                editor.replace_text(after.text);
                break;
            }
            Err(failure) => {
                output::print_error(&failure.into());
                if !output::confirm("edit it again? [Y/n] ", true)? {
                    output::print_note(&format!("{} stays as it was", file.display()));
                    return Ok(Exit::Usage);
                }
            }
        }
    }
    editor.save()?;
    drop(editor);
    output::print_line(&format!("{} is changed", file.display()));
    reload_running_host(global, &file).await
}

pub(super) async fn check(global: &GlobalOptions, named: Option<&Path>) -> anyhow::Result<Exit> {
    let file = match named {
        Some(file) => {
            std::path::absolute(file).with_context(|| format!("finding {}", file.display()))?
        }
        None => file_path(global)?,
    };
    let is_named = named.is_some() || global.config_file().is_some();
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_named => {
            return Err(
                Failure::new(Exit::Usage, format!("there is no file {}", file.display())).into()
            );
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
    };
    // Variables count too; an invalid one keeps a host from starting.
    let base = find_start_base(global).await?;
    check_text(text.as_deref().unwrap_or_default(), &file, &base)
        .map_err(|mistake| mistake.to_failure())?;
    let sources = ConfigSources::new(Some(file.clone()), false, &base.variables)?;
    for warning in sources.load()?.warnings {
        output::print_note(&format!("note: {warning}"));
    }
    match text {
        Some(_) => output::print_line(&format!("{} is right", file.display())),
        None => output::print_line(&format!(
            "there is no {}: every setting has its default",
            file.display()
        )),
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;

    use super::*;

    fn base() -> StartBase {
        let state_dir = PathBuf::from("/nonexistent");
        let program = PathBuf::from("/bin/sh");
        StartBase {
            state_dir,
            program,
            variables: Vec::new(),
            running: RunningHost::default(),
        }
    }

    /// Sets the keys in a file with this text. Returns the text afterwards.
    fn set_in(text: &str, pairs: &[(&str, &str)]) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        fs::write(&file, text).unwrap();
        let change = |(path, value): &(&str, &str)| SettingChange {
            key: find_key(path).unwrap(),
            path: (*path).to_owned(),
            value: (*value).to_owned(),
        };
        let changes: Vec<SettingChange> = pairs.iter().map(change).collect();
        let changed = change_values(&changes, &file, &base()).map_err(|error| error.to_string());
        let after = fs::read_to_string(&file).unwrap();
        assert!(changed.is_ok() || after == text, "a refused change touches nothing");
        changed.map(|()| after)
    }

    #[test]
    fn change_that_mends_one_mistake_and_makes_another_is_refused() {
        let invalid = "ask_timeout = \"soon\"\n";
        let refused =
            set_in(invalid, &[("ask_timeout", "1h"), ("listen", "127.0.0.1")]).unwrap_err();
        assert!(refused.contains("is not an address"), "{refused}");
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = format!("listen = \"{}\"\n", other.local_addr().unwrap());
        let mended = set_in(&format!("{invalid}{listen}"), &[("ask_timeout", "1h")]).unwrap();
        assert_eq!(mended, format!("ask_timeout = \"1h\"\n{listen}"));
    }
}
