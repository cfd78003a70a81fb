//! `wharf config set`, `unset`, `edit`, `check` and `path`: the file itself.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use wharf_api::{ReloadReceipt, SettingSource};
use wharf_host::ConfigKey;

use crate::client::HostCall;
use crate::config_file::{ConfigFileEditor, check_text, read_value};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::verbs::serve;
use crate::{connect, output};

/// Returns where the file is or would be.
pub(super) fn file_path(global: &GlobalOptions) -> anyhow::Result<PathBuf> {
    global.refuse_remote("the configuration file is on the host's own machine; log in there to change it")?;
    let file = global.config_path()?;
    std::path::absolute(&file).with_context(|| format!("finding {}", file.display()))
}

fn find_key(path: &str) -> Result<&'static ConfigKey, Failure> {
    ConfigKey::find(path).ok_or_else(|| Failure::new(Exit::Usage, wharf_host::unknown_key(path)))
}

pub(super) async fn set(global: &GlobalOptions, path: &str, value: &str) -> anyhow::Result<Exit> {
    let key = find_key(path)?;
    let value = if value == "-" { read_stdin()? } else { value.to_owned() };
    change_value(global, key, path, &value)
        .map_err(|error| if key.secret { hide_value(&error, &value) } else { error })?;
    report_effect(global, path, &file_path(global)?).await
}

/// Sets the key in the file, if a host could use the result.
fn change_value(global: &GlobalOptions, key: &ConfigKey, path: &str, value: &str) -> anyhow::Result<()> {
    let value = read_value(key, value)?;
    let file = file_path(global)?;
    let mut editor = ConfigFileEditor::open(&file)?;
    let base = serve::base_config(global)?;
    let was_valid = editor.check(&base).is_ok();
    editor.set(path, &value)?;
    if let Err(error) = editor.check(&base) {
        return Err(if was_valid { error } else { Failure::new(Exit::Usage, advise_edit(&error)).into() });
    }
    editor.save()?;
    drop(editor);
    let shown = if key.secret { "(set)".to_owned() } else { value.to_string() };
    output::print_line(&format!("{path} = {}", shown.trim()));
    Ok(())
}

/// Returns the error without the value, which is a secret, whatever part of the program quotes it.
fn hide_value(error: &anyhow::Error, value: &str) -> anyhow::Error {
    let words = format!("{error:#}").replace(value, "(hidden)");
    Failure::new(Failure::exit_of(error), words).into()
}

pub(super) async fn unset(global: &GlobalOptions, path: &str) -> anyhow::Result<Exit> {
    let file = file_path(global)?;
    let mut editor = ConfigFileEditor::open(&file)?;
    let is_removed = editor.unset(path)?;
    // A key that is unknown, but in the file, is a mistake that this mends.
    let known_key = find_key(path);
    if !is_removed {
        known_key?;
        output::print_note(&format!("{path} is not set in {}", file.display()));
        return Ok(Exit::Ok);
    }
    let checked = editor.check(&serve::base_config(global)?);
    let checked = checked.map_err(|error| Failure::new(Exit::Usage, advise_edit(&error)));
    if known_key.is_ok() {
        checked?;
        editor.save()?;
    } else {
        // The file may have further mistakes; without this one it is no worse.
        editor.save()?;
        output::print_line(&format!("{path} is not set any more"));
        checked?;
        return reload_running_host(global, &file).await;
    }
    drop(editor);
    output::print_line(&format!("{path} is not set any more"));
    report_effect(global, path, &file).await
}

/// Says how a file is mended that was invalid already.
fn advise_edit(error: &anyhow::Error) -> String {
    format!("{error:#}\nmend the file: wharf config edit, or remove a key: wharf config unset KEY")
}

fn read_stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).context("reading the value from stdin")?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// Says whether the value of the file counts, and when.
async fn report_effect(global: &GlobalOptions, path: &str, file: &Path) -> anyhow::Result<Exit> {
    let here = serve::load_config(global)?.describe_settings();
    if let Some(setting) = here.settings.iter().find(|setting| setting.key == path)
        && setting.source == SettingSource::Environment
    {
        let name = setting.set_by.as_deref().unwrap_or_default();
        output::print_note(&format!("the variable {name} is set here and counts before the file"));
    }
    reload_running_host(global, file).await
}

/// Has a running host that uses this file read it again. Without one there is nothing to do.
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
    let mut editor = ConfigFileEditor::open(&file)?;
    let base = serve::base_config(global)?;
    let folder = connect::PrivateFolder::create("wharf-config").context("making a copy to edit")?;
    let copy = folder.path().join("config.toml");
    std::fs::write(&copy, editor.text()).with_context(|| format!("writing {}", copy.display()))?;
    loop {
        connect::run_editor(&copy)?;
        let text = std::fs::read_to_string(&copy).with_context(|| format!("reading {}", copy.display()))?;
        if text == editor.text() {
            output::print_note("nothing was changed");
            return Ok(Exit::Ok);
        }
        match check_text(&text, &file, &base) {
            Ok(()) => {
                editor.replace_text(text);
                break;
            }
            Err(error) => {
                output::print_error(&error);
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

pub(super) fn check(global: &GlobalOptions, named: Option<&Path>) -> anyhow::Result<Exit> {
    let file = match named {
        Some(file) => file.to_owned(),
        None => file_path(global)?,
    };
    let is_named = named.is_some() || global.config_file().is_some();
    let base = serve::base_config(global)?;
    match std::fs::read_to_string(&file) {
        Ok(text) => check_text(&text, &file, &base)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_named => {
            return Err(Failure::new(Exit::Usage, format!("there is no file {}", file.display())).into());
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            output::print_line(&format!("there is no {}: every setting has its default", file.display()));
            return Ok(Exit::Ok);
        }
        Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
    }
    // Variables count too; an invalid one keeps a host from starting.
    let config = serve::load_config(global)?;
    for warning in &config.warnings {
        output::print_note(&format!("note: {warning}"));
    }
    output::print_line(&format!("{} is right", file.display()));
    Ok(Exit::Ok)
}
