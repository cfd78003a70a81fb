//! Wharf's own files and terminals for the session's agent, where no client serves them.

use std::sync::{Arc, PoisonError};

use wharf_core::{Origin, StartNo};
use wharf_json::rpc;

use super::agent_connection::AgentRequest;
use super::command::{Command, ServedAnswer};
use super::context::TaskContext;
use super::terminal_transcript::terminal_of;
use crate::agent_services::{self, FilesAndTerminals};

#[derive(Debug)]
pub(super) struct AgentServices {
    context: Arc<TaskContext>,
}

impl AgentServices {
    pub(super) fn new(context: Arc<TaskContext>) -> Self {
        Self { context }
    }

    pub(super) fn get(&self) -> Option<FilesAndTerminals> {
        self.context.shared.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives files and terminals to the agent that starts, and ends those of the one before.
    pub(super) fn equip(&self, origin: &Origin, agent: u32) {
        self.replace(self.context.host.tools(&self.context.shared.log_id, origin, agent));
    }

    /// Ends the terminals: the agent is gone.
    pub(super) fn close(&self) {
        self.replace(None);
    }

    fn replace(&self, tools: Option<FilesAndTerminals>) {
        let mut held = self.context.shared.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *held, tools);
        drop(held);
        if let Some(old) = old {
            old.close();
        }
    }

    pub(super) fn can_serve(&self, method: &str) -> bool {
        agent_services::is_served(method) && self.get().is_some()
    }

    /// Serves a request of the agent of `start` beside the task; the answer comes back as a
    /// command. Returns false if too much is under way.
    pub(super) fn serve(&self, request: AgentRequest, start: StartNo) -> bool {
        let Some(tools) = self.get() else { return true };
        let Some(permit) = tools.limits.try_acquire_request(request.frame.len()) else {
            return false;
        };
        let commands = self.context.commands.clone();
        tokio::spawn(async move {
            let id = request.agent_request.as_str();
            let answer_permit = tools.limits.acquire_answer(&request.method).await;
            let frame =
                match agent_services::answer_request(&tools, &request.method, &request.frame).await
                {
                    Ok(result) => rpc::response(id, result),
                    Err(failure) => rpc::error_response(
                        id,
                        rpc::error(failure.code(), &failure.to_string(), failure.data()),
                    ),
                };
            let ended = if request.method == "terminal/wait_for_exit" {
                terminal_of(&request.frame)
            } else {
                None
            };
            let agent_request = request.agent_request.clone();
            let served = ServedAnswer { start, agent_request, frame, ended, permit: answer_permit };
            let _ = commands.send(Command::Served(served)).await;
            drop(permit);
        });
        true
    }
}
