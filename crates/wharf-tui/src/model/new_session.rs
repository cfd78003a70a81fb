//! The form for a new session, and the choices that the host offers for it.

use wharf_api::{AdapterDescription, LoginState, PlaceList, SpawnArgs};

use crate::composer::TextBuffer;

/// The agents and directories that the host knows.
#[derive(Debug, Default)]
pub(crate) struct StartChoices {
    pub(crate) adapters: Vec<AdapterDescription>,
    pub(crate) places: Option<PlaceList>,
}

impl StartChoices {
    /// Returns the agents that can be started. Notes about an installed one, such as a login that
    /// was not found, are no obstacle: the agent itself knows better.
    pub(crate) fn startable(&self) -> Vec<&AdapterDescription> {
        self.adapters.iter().filter(|adapter| adapter.installed).collect()
    }

    /// Returns the directories to choose from, each once: the person's own, those used last, and
    /// the workspaces.
    pub(crate) fn directories(&self, here: Option<&str>) -> Vec<String> {
        let recent = self
            .places
            .iter()
            .flat_map(|places| places.recent.iter().map(|place| place.cwd.as_str()));
        let workspaces = self
            .places
            .iter()
            .flat_map(|places| places.workspaces.iter().map(|place| place.path.as_str()));
        let mut all: Vec<String> = Vec::new();
        for directory in here.into_iter().chain(recent).chain(workspaces) {
            if !all.iter().any(|known| known == directory) {
                all.push(directory.to_owned());
            }
        }
        all
    }

    /// Returns the agent for a directory: the agent used there last, else the default, else a
    /// signed-in agent, else an agent that the person has configured, else the demo.
    pub(crate) fn agent_for(&self, directory: &str) -> Option<&AdapterDescription> {
        let startable = self.startable();
        let by_slug = |slug: &str| startable.iter().find(|adapter| adapter.slug == slug).copied();
        let recent = self
            .places
            .as_ref()
            .and_then(|places| places.recent.iter().find(|place| place.cwd == directory));
        let used_here = recent.and_then(|place| by_slug(&place.adapter_slug));
        // Without the setting `default_agent` the demo is the host's default.
        let real = || startable.iter().filter(|adapter| adapter.slug != "demo");
        let default = real().find(|adapter| adapter.default).copied();
        let signed_in = real().find(|adapter| adapter.login == LoginState::Yes);
        let configured =
            real().find(|adapter| adapter.source == "config" && adapter.login != LoginState::No);
        let demo = by_slug("demo");
        let own = signed_in.or(configured).copied();
        used_here.or(default).or(own).or(demo).or(startable.first().copied())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewSessionField {
    Directory,
    Agent,
    Mode,
    Prompt,
}

/// The form for a new session.
#[derive(Debug)]
pub(crate) struct NewSessionForm {
    pub(crate) field: NewSessionField,
    pub(crate) directory: TextBuffer,
    /// The slug of the agent; `None` until the person or the host has chosen one.
    pub(crate) agent: Option<String>,
    /// A mode of the agent; `None` for the agent's own choice.
    pub(crate) mode: Option<String>,
    pub(crate) prompt: TextBuffer,
    /// The start was requested.
    pub(crate) is_starting: bool,
    pub(crate) error: Option<String>,
}

impl NewSessionForm {
    pub(crate) fn new(directory: Option<String>, draft: &str) -> Self {
        Self {
            field: NewSessionField::Prompt,
            directory: TextBuffer::with_text(&directory.unwrap_or_default()),
            agent: None,
            mode: None,
            prompt: TextBuffer::with_text(draft),
            is_starting: false,
            error: None,
        }
    }

    /// Returns the chosen agent, else the agent that suits the directory.
    pub(crate) fn chosen_agent<'a>(
        &self,
        choices: &'a StartChoices,
    ) -> Option<&'a AdapterDescription> {
        let chosen = self.agent.as_deref();
        let named = choices.adapters.iter().find(|adapter| Some(adapter.slug.as_str()) == chosen);
        named.or_else(|| choices.agent_for(self.directory.text()))
    }

    /// Returns the request. Fails with a sentence if something is missing.
    pub(crate) fn to_spawn(&self, choices: &StartChoices) -> Result<SpawnArgs, String> {
        let agent = self.chosen_agent(choices).ok_or("no agent is installed; see: wharf agents")?;
        let directory = self.directory.text().trim();
        let prompt = self.prompt.text().trim();
        Ok(SpawnArgs {
            adapter: agent.slug.clone(),
            cwd: (!directory.is_empty()).then(|| directory.to_owned()),
            prompt: (!prompt.is_empty()).then(|| wharf_api::Content::from_text(prompt)),
            mode: self.mode.clone(),
            ..SpawnArgs::default()
        })
    }
}
