//! The command line of the scripted agent, which sets its behaviour from the start.

use std::path::PathBuf;
use std::time::Duration;

/// The reaction to a prompt that arrives while another one runs in the same session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OverlapReaction {
    /// Answers with an error.
    #[default]
    Reject,
    /// Ends the earlier prompt with `end_turn`, then starts this one.
    Supersede,
    /// Starts this prompt when the earlier one has ended by itself.
    Queue,
    /// Never answers it.
    Ignore,
}

/// Whether the agent reports a change of a setting that a client asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChangeReport {
    /// The agent only answers.
    #[default]
    Nothing,
    /// The agent sends the update of that setting before the answer.
    Before,
    /// The agent sends the update of that setting after the answer.
    After,
    /// The agent sends the updates of both mode and config options after the answer.
    Both,
}

/// All flags. [`FLAGS_USAGE`] describes each one.
#[derive(Debug, Default)]
pub struct Flags {
    pub slow_start: Option<Duration>,
    pub start_token: Option<PathBuf>,
    pub exit_on_start: Option<i32>,
    pub stderr: Vec<String>,
    pub early_updates: u64,
    pub commands: bool,
    pub no_load: bool,
    pub resume: bool,
    pub close: bool,
    pub delete: bool,
    pub fork: bool,
    pub replay: u64,
    pub replay_on_resume: bool,
    pub replay_after_load: bool,
    pub replay_forever: bool,
    pub forget: bool,
    pub no_modes: bool,
    pub fixed_mode: bool,
    pub boolean_option: bool,
    pub settings: Option<PathBuf>,
    pub first_mode: Option<String>,
    pub mode_option: bool,
    pub only_options: bool,
    pub effort_option: bool,
    pub models: bool,
    pub split_models: bool,
    pub refuse_same: bool,
    pub silent_load: bool,
    pub report: ChangeReport,
    pub native_queue: bool,
    pub overlap: OverlapReaction,
    pub ready: bool,
    pub auth: bool,
    pub terminal_auth: bool,
    pub no_cancel: bool,
    pub hang_on: Vec<String>,
    pub die_on: Vec<String>,
    pub die_after: Vec<String>,
    pub garbage_on: Vec<String>,
    pub answer_with: Vec<(String, String)>,
    pub add_to: Vec<(String, String)>,
    pub error_on: Vec<(String, i64)>,
    pub delay: Vec<(String, Duration)>,
    pub await_on: Vec<(String, String)>,
    pub session_id: Option<String>,
    pub record: Option<PathBuf>,
    pub count: Option<PathBuf>,
    pub ignore_eof: bool,
    pub ignore_term: bool,
    pub spawn_children: bool,
    pub socket: Option<PathBuf>,
    pub hold: Option<usize>,
    pub transcript: Option<PathBuf>,
}

/// The list of flags, for `--help` and for wrong ones.
pub const FLAGS_USAGE: &str = "\
wharf-scripted-agent: an ACP agent for tests; prompts are scripts, see the crate's documentation
  --slow-start MS       reads nothing for so long
  --start-token DIR     reads nothing before it has removed a file of this directory
  --exit-on-start CODE  exits at once
  --stderr TEXT         writes a line to stderr at start (repeatable)
  --early-updates N     N updates before the session/new response
  --commands            an available_commands_update after new, load and resume
  --no-load             has no session/load
  --resume              has session/resume
  --close               has session/close
  --delete              has session/delete
  --fork                has session/fork; a copy tells from which session it was made
  --replay N            session/load replays N prompts with their answers (2)
  --replay-on-resume    session/resume replays too
  --replay-after-load   the replay comes after the response
  --replay-forever      the replay comes after the response and never ends
  --forget              knows no session at load or resume
  --no-modes            no modes and no config options
  --fixed-mode          refuses session/set_mode and session/set_config_option
  --boolean-option      has an option that is on or off besides
  --settings DIR        keeps mode, model and effort of each session in a file there, and reads it at load and resume
  --first-mode MODE     begins in this mode (ask)
  --mode-option         has the mode as a config option too
  --only-options        has the mode as a config option only
  --effort-option       has an effort, which any other change sets back to low
  --models              tells the models in the older form too, and has session/set_model
  --split-models        the same, each model with an effort: large[high]
  --refuse-same         refuses to set what is set already, with error data
  --silent-load         tells no settings when it answers load and resume
  --report HOW          reports what was set by an update: before or after the answer, or both spellings (after it)
  --native-queue        advertises promptQueueing, and --overlap supersede
  --overlap HOW         reject, supersede, queue or ignore a prompt that overlaps another
  --ready               advertises ready; holds updates and refuses prompts until session/ready
  --auth                session/new fails with -32000 until authenticate
  --terminal-auth       offers a login in a terminal to clients that can do that
  --no-cancel           ignores session/cancel and $/cancel_request
  --hang-on METHOD      never answers it (repeatable)
  --die-on METHOD       exits with 3 when it comes (repeatable)
  --die-after METHOD    exits with 3 when it has answered it (repeatable)
  --garbage-on METHOD   answers it with what is no answer (repeatable)
  --answer-with METHOD=LINE  answers it with this line as it is; @ID@ is replaced (repeatable)
  --add-to METHOD=MEMBERS  puts these members, as they are, first into the result (repeatable)
  --error-on METHOD=CODE  answers it with this error (repeatable)
  --delay METHOD=MS     answers it after so long (repeatable)
  --await-on METHOD=FILE  answers it once the file exists (repeatable)
  --session-id ID       every session/new gives this id
  --record FILE         appends every line that it receives
  --count FILE          appends `+` at start, and `-` when it has answered new, load or resume
  --ignore-eof          goes on after stdin has ended
  --ignore-term         ignores SIGTERM
  --spawn-children      starts stubborn children at start; their pids are the last line on stderr
  --call WHERE METHOD PATH [TOKEN [BODY]]   is no agent: calls a host, and prints the status and the body;
                        WHERE is the path of a unix socket or http://ADDRESS, TOKEN may be empty
  --say SOCKET LINE…    is no agent: sends lines to a unix socket, and prints how much was answered
  --socket PATH         asks for /acp on this unix socket at start; the status line goes to stderr
  --hold MIB            is no agent: holds so much memory and says nothing
  --transcript FILE     answers as the agent in this recording did, whatever the prompts say
";

impl Flags {
    /// Reads the command line, without the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut flags = Self { replay: 2, ..Self::default() };
        let mut rest = arguments.into_iter();
        while let Some(flag) = rest.next() {
            if !flags.set_switch(&flag) {
                let value = rest
                    .next()
                    .ok_or_else(|| format!("unknown flag, or no value for it: {flag}"))?;
                flags.set_value(&flag, value).map_err(|why| format!("{flag}: {why}"))?;
            }
        }
        Ok(flags)
    }

    fn set_switch(&mut self, flag: &str) -> bool {
        let slot = match flag {
            "--commands" => &mut self.commands,
            "--no-load" => &mut self.no_load,
            "--resume" => &mut self.resume,
            "--close" => &mut self.close,
            "--delete" => &mut self.delete,
            "--fork" => &mut self.fork,
            "--replay-on-resume" => &mut self.replay_on_resume,
            "--replay-after-load" => &mut self.replay_after_load,
            "--replay-forever" => &mut self.replay_forever,
            "--forget" => &mut self.forget,
            "--no-modes" => &mut self.no_modes,
            "--boolean-option" => &mut self.boolean_option,
            "--fixed-mode" => &mut self.fixed_mode,
            "--mode-option" => &mut self.mode_option,
            "--only-options" => &mut self.only_options,
            "--effort-option" => &mut self.effort_option,
            "--models" => &mut self.models,
            "--split-models" => &mut self.split_models,
            "--silent-load" => &mut self.silent_load,
            "--refuse-same" => &mut self.refuse_same,
            "--native-queue" => {
                self.overlap = OverlapReaction::Supersede;
                &mut self.native_queue
            }
            "--ready" => &mut self.ready,
            "--auth" => &mut self.auth,
            "--terminal-auth" => &mut self.terminal_auth,
            "--no-cancel" => &mut self.no_cancel,
            "--ignore-eof" => &mut self.ignore_eof,
            "--ignore-term" => &mut self.ignore_term,
            "--spawn-children" => &mut self.spawn_children,
            _ => return false,
        };
        *slot = true;
        true
    }

    fn set_value(&mut self, flag: &str, value: String) -> Result<(), String> {
        match flag {
            "--slow-start" => self.slow_start = Some(Duration::from_millis(parse_number(&value)?)),
            "--start-token" => self.start_token = Some(PathBuf::from(value)),
            "--exit-on-start" => self.exit_on_start = Some(parse_number(&value)?),
            "--stderr" => self.stderr.push(value),
            "--early-updates" => self.early_updates = parse_number(&value)?,
            "--replay" => self.replay = parse_number(&value)?,
            "--overlap" => self.overlap = parse_overlap(&value)?,
            "--settings" => self.settings = Some(PathBuf::from(value)),
            "--first-mode" => self.first_mode = Some(value),
            "--report" => self.report = parse_report(&value)?,
            "--hang-on" => self.hang_on.push(value),
            "--die-on" => self.die_on.push(value),
            "--die-after" => self.die_after.push(value),
            "--garbage-on" => self.garbage_on.push(value),
            "--answer-with" => self.answer_with.push(parse_named(&value)?),
            "--add-to" => self.add_to.push(parse_named(&value)?),
            "--error-on" => self.error_on.push(parse_pair(&value)?),
            "--delay" => {
                let (method, millis) = parse_pair(&value)?;
                self.delay.push((method, Duration::from_millis(millis)));
            }
            "--await-on" => self.await_on.push(parse_named(&value)?),
            "--session-id" => self.session_id = Some(value),
            "--record" => self.record = Some(PathBuf::from(value)),
            "--hold" => self.hold = Some(parse_number(&value)?),
            "--transcript" => self.transcript = Some(value.into()),
            "--count" => self.count = Some(PathBuf::from(value)),
            "--socket" => self.socket = Some(PathBuf::from(value)),
            _ => return Err("unknown flag".to_owned()),
        }
        Ok(())
    }
}

fn parse_number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("not a number: {value}"))
}

fn parse_named(value: &str) -> Result<(String, String), String> {
    let (method, tail) = value.split_once('=').ok_or_else(|| format!("no = in {value}"))?;
    Ok((method.to_owned(), tail.to_owned()))
}

fn parse_pair<T: std::str::FromStr>(value: &str) -> Result<(String, T), String> {
    let (method, tail) = parse_named(value)?;
    Ok((method, parse_number(&tail)?))
}

fn parse_overlap(value: &str) -> Result<OverlapReaction, String> {
    match value {
        "reject" => Ok(OverlapReaction::Reject),
        "supersede" => Ok(OverlapReaction::Supersede),
        "queue" => Ok(OverlapReaction::Queue),
        "ignore" => Ok(OverlapReaction::Ignore),
        _ => Err(format!("unknown way: {value}")),
    }
}

fn parse_report(value: &str) -> Result<ChangeReport, String> {
    match value {
        "before" => Ok(ChangeReport::Before),
        "after" => Ok(ChangeReport::After),
        "both" => Ok(ChangeReport::Both),
        _ => Err(format!("unknown way: {value}")),
    }
}
