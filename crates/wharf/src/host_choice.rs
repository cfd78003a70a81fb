//! Decides which host a verb talks to: the one of this machine, or one at a URL, and with which
//! token.
//!
//! Invariant: a token goes only to the host that it was given for. In the process of an agent,
//! which has a token and a URL of its own host in its environment, variables choose no host: only
//! flags do.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context;

use crate::connect::{HostUrl, RemoteOptions, RemoteToken};
use crate::contexts::{Contexts, HostContext, LOCAL_CONTEXT};
use crate::exit::{Exit, Failure};

/// The flags and variables that choose a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostChoiceInputs {
    pub(crate) flags: HostFlags,
    pub(crate) variables: HostVariables,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct HostFlags {
    pub(crate) url: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) plain_http: bool,
    pub(crate) state_dir: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct HostVariables {
    pub(crate) url: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) state_dir: bool,
    /// The verb runs in the process of an agent.
    pub(crate) in_agent: bool,
}

impl HostVariables {
    pub(crate) fn of_process() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            url: text("WHARF_URL"),
            token: text(wharf_host::TOKEN_VARIABLE),
            context: text("WHARF_CONTEXT"),
            ca: text("WHARF_CA").map(PathBuf::from),
            state_dir: text("WHARF_STATE_DIR").is_some(),
            in_agent: text(wharf_host::SESSION_VARIABLE).is_some(),
        }
    }
}

/// The host that a verb talks to.
#[derive(Clone, Debug)]
pub(crate) enum HostChoice {
    Local,
    Remote { options: RemoteOptions, chosen_by: String },
}

impl HostChoiceInputs {
    /// Chooses the host. `contexts` is where named hosts are kept.
    pub(crate) fn choose(&self, contexts: &Path) -> anyhow::Result<HostChoice> {
        let Self { flags, variables } = self;
        if let Some(url) = &flags.url {
            return self.by_url(url, "--url");
        }
        if let Some(name) = &flags.context {
            return self.by_context(name, &format!("--context {name}"), contexts);
        }
        if flags.state_dir || variables.in_agent {
            return self.local();
        }
        if let Some(url) = &variables.url {
            return self.by_url(url, "the variable WHARF_URL");
        }
        if let Some(name) = &variables.context {
            return self.by_context(name, "the variable WHARF_CONTEXT", contexts);
        }
        if variables.state_dir {
            return self.local();
        }
        match Contexts::load(contexts)?.current {
            Some(name) => self.by_context(&name, &format!("the context {name}"), contexts),
            None => self.local(),
        }
    }

    fn local(&self) -> anyhow::Result<HostChoice> {
        let flags = &self.flags;
        let useless = [("--token", flags.token.is_some()), ("--ca", flags.ca.is_some())];
        match useless.iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                let words = format!("{flag} is for a host at a URL; give --url or --context too");
                Err(Failure::new(Exit::Usage, words).into())
            }
            None => Ok(HostChoice::Local),
        }
    }

    fn by_url(&self, url: &str, chosen_by: &str) -> anyhow::Result<HostChoice> {
        let url = HostUrl::parse(url)?;
        let token = match &self.flags.token {
            Some(given) => Some(read_token_flag(given)?),
            None => self.variable_token(&url),
        };
        let ca = self.flags.ca.clone().or_else(|| self.variables.ca.clone());
        let options = RemoteOptions { url, token, ca, plain_http: self.flags.plain_http };
        Ok(HostChoice::Remote { options, chosen_by: chosen_by.to_owned() })
    }

    /// Returns the token of the environment, if it is meant for this host.
    fn variable_token(&self, url: &HostUrl) -> Option<RemoteToken> {
        let is_meant = match &self.variables.url {
            Some(own) => HostUrl::parse(own).is_ok_and(|own| own.has_same_origin(url)),
            None => !self.variables.in_agent,
        };
        let text = self.variables.token.clone().filter(|_| is_meant)?;
        Some(RemoteToken { text, source: "the variable WHARF_TOKEN".to_owned() })
    }

    fn by_context(
        &self,
        name: &str,
        chosen_by: &str,
        contexts: &Path,
    ) -> anyhow::Result<HostChoice> {
        if name == LOCAL_CONTEXT {
            return self.local();
        }
        let contexts = Contexts::load(contexts)?;
        let context = contexts.find(name)?;
        let token = match &self.flags.token {
            Some(given) => Some(read_token_flag(given)?),
            None => context_token(name, context)?,
        };
        let options = RemoteOptions {
            url: HostUrl::parse(&context.url)?,
            token,
            ca: self.flags.ca.clone().or_else(|| context.ca.clone()),
            plain_http: self.flags.plain_http || context.insecure_plain_http,
        };
        Ok(HostChoice::Remote { options, chosen_by: chosen_by.to_owned() })
    }
}

fn context_token(name: &str, context: &HostContext) -> anyhow::Result<Option<RemoteToken>> {
    match (&context.token, &context.token_file) {
        (Some(text), _) => {
            Ok(Some(RemoteToken { text: text.clone(), source: format!("the context {name}") }))
        }
        (None, Some(file)) => read_token_file(file).map(Some),
        (None, None) => Ok(None),
    }
}

/// Reads the token that `--token` gives: itself, `@FILE`, or `-` for stdin.
pub(crate) fn read_token_flag(given: &str) -> anyhow::Result<RemoteToken> {
    if let Some(file) = given.strip_prefix('@') {
        return read_token_file(Path::new(file));
    }
    if given == "-" {
        return Ok(RemoteToken {
            text: check_token(read_stdin_once()?, "stdin")?,
            source: "stdin".to_owned(),
        });
    }
    Ok(RemoteToken {
        text: check_token(given, "--token")?,
        source: "--token".to_owned(),
    })
}

/// Returns the text on stdin. A verb may choose its host several times, and stdin can be read once.
fn read_stdin_once() -> anyhow::Result<&'static str> {
    static STDIN_TEXT: OnceLock<String> = OnceLock::new();
    if let Some(text) = STDIN_TEXT.get() {
        return Ok(text);
    }
    let text =
        std::io::read_to_string(std::io::stdin().lock()).context("reading the token from stdin")?;
    Ok(STDIN_TEXT.get_or_init(|| text))
}

fn read_token_file(file: &Path) -> anyhow::Result<RemoteToken> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("reading the token in {}", file.display()))?;
    let source = format!("the file {}", file.display());
    Ok(RemoteToken { text: check_token(&text, &source)?, source })
}

/// Returns the token without the line break at its end.
pub(crate) fn check_token(text: &str, source: &str) -> Result<String, Failure> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::new(
            Exit::Usage,
            format!("{source} holds no token: it has to be one word"),
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN_URL: &str = "http://127.0.0.1:7433";

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn contexts_file(folder: &tempfile::TempDir, current: Option<&str>) -> PathBuf {
        let path = folder.path().join("contexts.toml");
        let context = HostContext {
            url: "https://box".to_owned(),
            token: some("of-box"),
            ..HostContext::default()
        };
        let contexts = [("box".to_owned(), context)].into();
        Contexts { current: current.map(ToOwned::to_owned), contexts }
            .save(&path)
            .unwrap();
        path
    }

    /// Returns the URL and the token of the choice; `None` for the host of this machine.
    fn chosen(inputs: &HostChoiceInputs, contexts: &Path) -> Option<(String, Option<String>)> {
        match inputs.choose(contexts).unwrap() {
            HostChoice::Local => None,
            HostChoice::Remote { options, .. } => {
                Some((options.url.to_string(), options.token.map(|token| token.text)))
            }
        }
    }

    #[test]
    fn flags_count_before_variables_and_these_before_the_current_context() {
        let folder = tempfile::tempdir().unwrap();
        let file = contexts_file(&folder, Some("box"));
        let mut inputs = HostChoiceInputs::default();
        let boxed = || Some(("https://box".to_owned(), some("of-box")));
        assert_eq!(chosen(&inputs, &file), boxed());
        inputs.variables.state_dir = true;
        assert_eq!(chosen(&inputs, &file), None);
        inputs.variables.context = some("box");
        assert_eq!(chosen(&inputs, &file), boxed());
        (inputs.variables.url, inputs.variables.token) = (some("https://far"), some("of-far"));
        assert_eq!(chosen(&inputs, &file), Some(("https://far".to_owned(), some("of-far"))));
        inputs.flags.state_dir = true;
        assert_eq!(chosen(&inputs, &file), None);
        inputs.flags = HostFlags { context: some("box"), ..HostFlags::default() };
        assert_eq!(
            chosen(&inputs, &file),
            boxed(),
            "the token of the variable is for another host"
        );
        inputs.flags = HostFlags { context: some("local"), ..HostFlags::default() };
        assert_eq!(chosen(&inputs, &file), None);
        inputs.flags = HostFlags { context: some("gone"), ..HostFlags::default() };
        assert_eq!(Failure::exit_of(&inputs.choose(&file).unwrap_err()), Exit::NotFound);
    }

    #[test]
    fn token_of_the_environment_goes_to_its_own_host_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = contexts_file(&folder, None);
        let with_url = |url: &str, variables: &HostVariables| {
            let flags = HostFlags { url: some(url), ..HostFlags::default() };
            let (_, token) =
                chosen(&HostChoiceInputs { flags, variables: variables.clone() }, &file).unwrap();
            token
        };
        let mut variables = HostVariables { token: some("secret"), ..HostVariables::default() };
        assert_eq!(
            with_url("https://far", &variables),
            some("secret"),
            "given for the URL on the command line"
        );
        variables.url = some(OWN_URL);
        assert_eq!(with_url("https://far", &variables), None);
        assert_eq!(with_url("http://127.0.0.1:7433/", &variables), some("secret"));
    }

    #[test]
    fn variables_and_contexts_choose_no_host_in_an_agents_process() {
        let folder = tempfile::tempdir().unwrap();
        let file = contexts_file(&folder, Some("box"));
        let variables = HostVariables {
            url: some(OWN_URL),
            token: some("agents"),
            context: some("box"),
            state_dir: true,
            in_agent: true,
            ..HostVariables::default()
        };
        let mut inputs = HostChoiceInputs { flags: HostFlags::default(), variables };
        assert_eq!(chosen(&inputs, &file), None, "the socket, as ever");
        inputs.variables.state_dir = false;
        assert_eq!(chosen(&inputs, &file), None);
        inputs.flags.url = some("https://far");
        assert_eq!(chosen(&inputs, &file), Some(("https://far".to_owned(), None)));
        inputs.variables.url = None;
        assert_eq!(chosen(&inputs, &file), Some(("https://far".to_owned(), None)));
        inputs.flags = HostFlags { context: some("box"), ..HostFlags::default() };
        assert_eq!(chosen(&inputs, &file), Some(("https://box".to_owned(), some("of-box"))));
    }

    #[test]
    fn options_of_a_url_are_refused_without_one() {
        let folder = tempfile::tempdir().unwrap();
        let flags = HostFlags { token: some("x"), ..HostFlags::default() };
        let inputs = HostChoiceInputs { flags, ..HostChoiceInputs::default() };
        assert_eq!(
            Failure::exit_of(&inputs.choose(&folder.path().join("none")).unwrap_err()),
            Exit::Usage
        );
    }
}
