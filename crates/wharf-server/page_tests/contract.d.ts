/**
 * The host's contract: the types of its JSON, and what each call sends and answers with. Made from
 * the OpenAPI document; after a change of the contract, write it anew:
 * WHARF_BLESS=1 cargo nextest run -p wharf-server contract_types
 */

export type AcceptedKind = "image" | "audio" | "embedded";

export type ActionWord = "accept" | "decline" | "cancel";

export type ActiveWorkspace = {
  slug: string;
};

export type Adapter = {
  accepts?: Array<AcceptedKind>;
  agentVersion?: string;
  binPath?: string;
  binVersion?: string;
  capabilities: { [name: string]: boolean };
  command: Array<string>;
  default: boolean;
  description: string;
  forks?: boolean;
  installHint?: string;
  installed: boolean;
  login: LoginState;
  loginHint?: string;
  missing?: Array<string>;
  modes: Array<AdapterMode>;
  name: string;
  options: Array<AdapterOption>;
  path?: string;
  protocol: string;
  slug: string;
  source: string;
  variables: Array<string>;
  version: string;
  versionOk?: boolean;
};

export type AdapterList = {
  adapters: Array<Adapter>;
};

export type AdapterMode = {
  description?: string;
  id: string;
};

export type AdapterOption = {
  default?: unknown;
  description?: string;
  enum?: Array<string>;
  id: string;
  max?: number;
  min?: number;
  type: string;
};

export type AgentCommandInfo = {
  description?: string;
  hint?: string;
  name: string;
};

export type AgentLogLine = {
  at: string;
  cut?: boolean;
  stream: LogStream;
  text: string;
};

export type AgentLogPage = {
  gap?: boolean;
  id: string;
  lines: Array<AgentLogLine>;
  next: string;
};

export type AnswerArgs = {
  action?: ActionWord | null;
  cancel?: boolean | null;
  content?: { [name: string]: unknown } | null;
  optionId?: string | null;
};

export type Answered = {
  askId: number;
  ok: boolean;
};

export type AskAnswer = {
  after: number;
  at: string;
  by?: RowActor | null;
  name?: string | null;
  option?: string | null;
};

export type AskChange = {
  askId: number;
  kind?: AskKind;
  open: boolean;
  optionId?: string;
  options?: Array<AskOption>;
  outcome?: string;
  params?: unknown;
  toolCall?: unknown;
};

export type AskForm = {
  schema?: unknown;
  url?: string | null;
};

export type AskKind = "permission" | "elicitation";

export type AskList = {
  asks: Array<OpenAsk>;
};

export type AskOption = {
  kind: string;
  name: string;
  optionId: string;
};

export type AskOverview = {
  asks: Array<SessionAsk>;
  truncated?: boolean;
};

export type AskState = "open" | "answered" | "declined" | "cancelled" | "withdrawn" | "agent_gone";

export type AskSubject = {
  command?: string | null;
  cwd?: string | null;
  detailed: boolean;
  diffs: Array<FileDiff>;
  outside: Array<string>;
  paths: Array<string>;
  text?: string | null;
  title: string;
};

export type AttachedClient = {
  clientId: string;
  connections: number;
  name?: string;
  person?: string;
  role: ClientRole;
  since: string;
  transport?: ClientTransport;
  version?: string;
};

export type Attention = {
  count: number;
  muted: boolean;
  row?: string | null;
  seen?: string | null;
  since: string;
  state: AttentionState;
  text?: string | null;
  unread: boolean;
  via?: string | null;
  why?: string | null;
};

export type AttentionState = "needs_answer" | "failed" | "finished" | "parked" | "working" | "quiet";

export type ChangedFile = {
  added: number;
  changedAt: string;
  exact: boolean;
  path: string;
  removed: number;
  rowCount: number;
  rows: Array<string>;
  status: ChangedFileStatus;
  turnCount: number;
  turns: Array<string>;
};

export type ChangedFileList = {
  added: number;
  asOf: string;
  files: Array<ChangedFile>;
  fold: number;
  partial: boolean;
  removed: number;
  session: string;
  total: number;
};

export type ChangedFileStatus = "created" | "changed" | "deleted";

export type ChildCount = {
  count: number;
  failed: number;
  latest: string;
  open: number;
};

export type ChoiceValue = {
  description?: string;
  group?: string;
  id: string;
  name: string;
};

export type ClientList = {
  clients: Array<AttachedClient>;
};

export type ClientRole = "controller" | "observer";

export type ClientTransport = "websocket" | "http" | "amux";

export type CodeArgs = {
  codeSeconds?: number | null;
  role?: string | null;
  ttlSeconds?: number | null;
  workspace?: string | null;
};

export type CodesWithdrawn = {
  count: number;
  ok: boolean;
};

export type Content = string | Array<ContentBlock>;

export type ContentBlock = {
  type: string;
};

export type ContextUse = {
  size: number;
  used: number;
};

export type Count = {
  live: number;
  total: number;
};

export type Described = {
  cancelTimeoutMs?: number;
  defaultAgent: string;
  logFile?: string;
  pid: number;
  process?: HostProcess;
  publicUrl?: string;
  sessions: Count;
  settings?: SettingsState;
  stateDir: string;
  turns?: TurnCount;
  url: string;
  version: string;
};

export type DiffHunk = {
  lines: Array<string>;
  new?: Array<number> | null;
  old?: Array<number> | null;
};

export type EndReason = "agent_exited" | "start_failed" | "unresponsive" | "user" | "closed" | "finished" | "idle" | "memory" | "log_full" | "host_shutdown" | "host_restarted";

export type EventPage = {
  events: Array<StoredEvent>;
  next?: string;
};

export type File = {
  absolute: string;
  kind: FileKind;
  path: string;
};

export type FileChange = "create" | "modify" | "delete";

export type FileChangeCount = {
  added: number;
  path: string;
  removed: number;
};

export type FileDiff = {
  added: number;
  change: FileChange;
  cut?: RowCut | null;
  hunks: Array<DiffHunk>;
  numbered: boolean;
  path: string;
  removed: number;
};

export type FileKind = "file" | "directory";

export type FileList = {
  files: Array<File>;
  partial: boolean;
};

export type Finished = {
  id: string;
  ok: boolean;
};

export type Forgotten = {
  agentDelete?: string;
  id: string;
  ok: boolean;
};

export type ForgottenSession = {
  id: string;
};

export type ForkArgs = {
  label?: string | null;
  onLabel?: OnLabelChange | null;
  title?: string | null;
};

export type ForkOrigin = {
  eventId: string;
  sessionId: string;
};

export type HostProcess = {
  arguments: Array<string>;
  service?: string;
  startedAs: StartKind;
};

export type HostSetting = {
  effect: SettingEffect;
  key: string;
  setBy?: string;
  source: SettingSource;
  value?: string;
  variable: string;
  waiting?: string;
};

export type HostSettings = SettingsState & {
  settings: Array<HostSetting>;
};

export type HostStopping = {
  pid: number;
};

export type InterruptArgs = {
  force?: boolean | null;
};

export type Interrupted = {
  id: string;
  ok: boolean;
  wasBusy: boolean;
};

export type KeeperInfo = {
  limits?: KeeperLimits;
  version: string;
};

export type KeeperLimits = {
  absenceMillis?: number;
  outputBytes: number;
};

export type Killed = {
  id: string;
  ok: boolean;
};

export type LiveOutput = {
  bytes: number;
  terminal: string;
  text: string;
  toolCallId: string;
};

export type LogStream = "stderr" | "stdout";

export type LoggedIn = {
  expiresAt: string;
  page: string;
  role: string;
  workspace?: string;
};

export type LoggedOut = {
  ok: boolean;
};

export type Login = {
  createdAt: string;
  current: boolean;
  expiresAt?: string;
  id: string;
  lastSeenAt?: string;
  name: string;
  role: string;
  workspace?: string;
};

export type LoginArgs = {
  code: string;
  name?: string | null;
};

export type LoginChange = {
  name: string;
};

export type LoginCode = {
  code: string;
  goodForSeconds: number;
  role: string;
  workspace?: string;
};

export type LoginEnded = {
  id: string;
  ok: boolean;
};

export type LoginList = {
  logins: Array<Login>;
};

export type LoginState = "yes" | "no" | "unknown";

export type MuteArgs = {
  muted: boolean;
};

export type MuteMark = {
  id: string;
  muted: boolean;
  ok: boolean;
};

export type NewWorkspace = {
  label?: string | null;
  path: string;
  slug: string;
};

export type NoticeLevel = "debug" | "info" | "warning" | "error";

export type NoticeTopic = "mode" | "model" | "option" | "started" | "forked" | "resumed" | "restarted" | "asleep" | "ended" | "killed" | "paused" | "continued" | "fault" | "compaction" | "agent" | "stray_output" | "renamed" | "background" | "other";

export type NotifyTest = {
  receivers: Array<NotifyTestResult>;
};

export type NotifyTestResult = {
  detail?: string;
  ok: boolean;
  output?: string;
  receiver: string;
};

export type OnLabel = "share" | "refuse" | "take" | "continue";

export type OnLabelChange = "share" | "refuse" | "take";

export type OpenAsk = {
  askId: number;
  kind: AskKind;
  openedAt?: string;
  options: Array<AskOption>;
  params: { [name: string]: unknown };
  row?: string;
  subject?: AskSubject;
  toolCall?: { [name: string]: unknown };
};

export type Output = {
  id: string;
  lastEventId?: string;
  lines: Array<string>;
  truncated?: boolean;
};

export type OutputLine = {
  line: string;
  stream: string;
};

export type OutputStreamEvent = {
  data: OutputLine;
  event: "line";
} | {
  data: StatusChange;
  event: "status";
} | {
  data: TurnChange;
  event: "turn";
} | {
  data: AskChange;
  event: "ask";
} | {
  data: PauseChange;
  event: "pause";
};

export type PauseChange = {
  paused: boolean;
  why?: PauseReason;
};

export type PauseReason = "storage_full" | "storage_read_only";

export type Places = {
  recent: Array<RecentDirectory>;
  workspaces: Array<WorkspacePlace>;
};

export type Problem = {
  agentError?: { [name: string]: unknown };
  code: string;
  detail: string;
  exitCode?: number;
  install?: string;
  legacyCode?: string;
  offered?: Array<string>;
  reasons?: Array<string>;
  retryAfter?: number;
  sessionId?: string;
  status: number;
  stderr?: string;
  title: string;
  tokens?: Array<string>;
  type: string;
};

export type Processes = {
  sessions: Array<SessionProcesses>;
};

export type PromptArgs = {
  interrupt?: boolean | null;
  prompt: Content;
  queue?: boolean | null;
};

export type Prompted = {
  duplicate?: boolean;
  id: string;
  ok: boolean;
  position?: number;
  promptId: string;
  turn?: TurnDetail;
};

export type PushDelivery = {
  at: string;
  detail?: string;
  ok: boolean;
};

export type PushKeys = {
  auth: string;
  p256dh: string;
};

export type PushState = {
  lastDelivery?: PushDelivery;
  publicKey: string;
  subscribed: boolean;
};

export type PushSubscriptionArgs = {
  endpoint: string;
  keys: PushKeys;
};

export type Queue = {
  queue: Array<Waiting>;
};

export type QueueChange = {
  keepAttachments?: boolean;
  position?: number | null;
  prompt?: Content | null;
};

export type QueueChanged = {
  ok: boolean;
  promptId: string;
};

export type QueueSendArgs = {
  steer?: boolean | null;
};

export type QueueSent = {
  interrupted: boolean;
  ok: boolean;
  promptId: string;
};

export type RecentDirectory = {
  adapterSlug: string;
  cwd: string;
  lastUsedAt: string;
  sessions: number;
};

export type Reloaded = {
  changed: Array<string>;
  waiting: Array<string>;
};

export type Removed = {
  ok: boolean;
  purged: number;
  slug: string;
};

export type Resources = {
  cpuMillis: number;
  memoryBytes: number;
  overLimit?: boolean;
  processes: number;
};

export type ResumeArgs = {
  acceptAgentSettings?: boolean | null;
  sessionMode?: string | null;
};

export type Row = RowBody & {
  at: string;
  changedAt: string;
  id: string;
  open: boolean;
  parent?: string | null;
  rev: number;
  summary: string;
  turn?: string | null;
};

export type RowActor = {
  agent?: boolean;
  client?: string | null;
  name?: string | null;
  parentSession?: string | null;
  token?: string | null;
};

export type RowAppend = {
  changedAt: string;
  from: number;
  id: string;
  part: number;
  rev: number;
  text: string;
};

export type RowAsk = {
  answer?: AskAnswer | null;
  ask: string;
  askId: number;
  form?: AskForm | null;
  moreOptions?: number;
  options?: Array<AskOption>;
  state: AskState;
  subject: AskSubject;
  tool?: string | null;
};

export type RowBlobPart = {
  blob: string;
  bytes: number;
  media: string;
  mime: string;
  name?: string | null;
};

export type RowBody = RowPrompt & {
  kind: "prompt";
} | RowText & {
  kind: "message";
} | RowText & {
  kind: "thought";
} | RowTool & {
  kind: "tool";
} | RowPlan & {
  kind: "plan";
} | RowAsk & {
  kind: "ask";
} | RowNotice & {
  kind: "notice";
} | RowTurnEnd & {
  kind: "turn_end";
} | {
  kind: "unknown";
};

export type RowCut = {
  bytes: number;
  missingLines?: number | null;
  tail?: string | null;
  whole?: string | null;
};

export type RowFilePart = {
  name?: string | null;
  uri: string;
};

export type RowHead = {
  id: string;
  summary: string;
};

export type RowNotice = {
  by?: RowActor | null;
  forkedFrom?: ForkOrigin | null;
  level: NoticeLevel;
  text: string;
  what: NoticeTopic;
};

export type RowPage = {
  after?: string | null;
  asOf: string;
  before?: string | null;
  fold: number;
  midTurn: boolean;
  rows: Array<Row>;
  session: string;
  state?: TranscriptState | null;
  turnHead?: RowHead | null;
};

export type RowPart = RowTextPart & {
  type: "text";
} | RowBlobPart & {
  type: "blob";
} | RowFilePart & {
  type: "file";
} | {
  type: "unknown";
};

export type RowPlan = {
  done: number;
  entries: Array<RowPlanEntry>;
  total: number;
};

export type RowPlanEntry = {
  priority?: string | null;
  status: string;
  text: string;
};

export type RowPrompt = {
  acceptedAt?: string | null;
  again?: boolean;
  by: RowActor;
  editedBy?: RowActor | null;
  parts: Array<RowPart>;
};

export type RowStreamEvent = {
  data: RowPage;
  event: "page";
} | {
  data: Row;
  event: "row";
} | {
  data: RowAppend;
  event: "append";
} | {
  data: RowAppend;
  event: "tail";
} | {
  data: StateChange;
  event: "state";
} | {
  data: StreamBeat;
  event: "beat";
} | {
  data: StreamReset;
  event: "reset";
} | {
  data: StreamGone;
  event: "gone";
};

export type RowText = {
  messageId?: string | null;
  parts: Array<RowPart>;
};

export type RowTextPage = {
  bytes: number;
  next?: number | null;
  offset: number;
  part: string;
  row: string;
  text: string;
};

export type RowTextPart = {
  cut?: RowCut | null;
  text: string;
};

export type RowTool = {
  asks?: Array<string>;
  childSession?: string | null;
  children?: ChildCount | null;
  command?: string | null;
  cwd?: string | null;
  diffs?: Array<FileDiff>;
  endedAt?: string | null;
  error?: string | null;
  input?: unknown;
  inputCut?: RowCut | null;
  inputPath?: string | null;
  locations?: Array<ToolLocation>;
  name?: string | null;
  output?: ToolOutput | null;
  parts?: Array<RowPart>;
  startedAt: string;
  state: ToolState;
  title: string;
  toolCallId: string;
  toolKind?: string | null;
};

export type RowTurnEnd = {
  context?: ContextUse | null;
  durationMs?: number | null;
  error?: unknown;
  files: Array<FileChangeCount>;
  message?: string | null;
  next?: TurnSequel | null;
  outcome: TurnOutcome;
  reason: string;
  stderr?: string | null;
  tools: ToolCount;
  usage?: TokenUsage | null;
};

export type SearchHit = {
  at: string;
  kind: string;
  row: string;
  session: string;
  snippet: Array<SnippetPart>;
  summary: string;
  title?: string | null;
  turn?: string | null;
  workspaceSlug: string;
};

export type SearchPage = {
  fold: number;
  hits: Array<SearchHit>;
  nextCursor?: string | null;
  pending: number;
};

export type SeenArgs = {
  upTo: string;
};

export type SeenMark = {
  id: string;
  ok: boolean;
  seen: string;
};

export type Session = {
  adapterSlug: string;
  agentSessionId?: string;
  archived?: boolean;
  attention?: Attention;
  clients: number;
  context?: ContextUse;
  cwd: string;
  depth?: number;
  endReason?: EndReason;
  endedAt?: string;
  exitCode?: number;
  forkable?: boolean;
  forkedFrom?: ForkOrigin;
  id: string;
  keeper?: KeeperInfo;
  label?: string;
  lastOutcome?: TurnOutcome;
  lastOutputAt?: string;
  lastSeq: number;
  message?: string;
  name?: string;
  parentSessionId?: string;
  paused?: PauseReason;
  queued: number;
  resources?: Resources;
  resumable: boolean;
  startedAt: string;
  status: Status;
  title?: string;
  turn: Turn;
  usage?: TokenUsage;
  workspaceSlug: string;
};

export type SessionAsk = OpenAsk & {
  sessionId: string;
  sessionTitle: string;
  workspaceSlug: string;
};

export type SessionList = {
  nextCursor?: string;
  sessions: Array<Session>;
};

export type SessionPatch = {
  archived?: boolean | null;
  label?: string | null;
  onLabel?: OnLabelChange | null;
  title?: string | null;
};

export type SessionProcesses = Session & {
  asks: number;
  idleMillis?: number;
  lagEvents: number;
  logBytes: number;
  pids: Array<number>;
  readers: number;
};

export type SessionSettings = {
  accepts?: Array<AcceptedKind>;
  commands: Array<AgentCommandInfo>;
  id: string;
  models?: SettingChoice;
  modes?: SettingChoice;
  options: Array<SettingOption>;
  shortened?: boolean;
};

export type SessionSnapshot = {
  sessions: Array<Session>;
};

export type SessionStreamEvent = {
  data: SessionSnapshot;
  event: "snapshot";
} | {
  data: Session;
  event: "session";
} | {
  data: ForgottenSession;
  event: "forgotten";
} | {
  data: HostStopping;
  event: "stopping";
} | {
  data: RowPage;
  event: "page";
} | {
  data: Row;
  event: "row";
} | {
  data: RowAppend;
  event: "append";
} | {
  data: RowAppend;
  event: "tail";
} | {
  data: StateChange;
  event: "state";
} | {
  data: StreamBeat;
  event: "beat";
} | {
  data: StreamReset;
  event: "reset";
} | {
  data: StreamGone;
  event: "gone";
};

export type SettingChoice = {
  all: Array<ChoiceValue>;
  current: string;
};

export type SettingEffect = "now" | "new sessions" | "restart";

export type SettingOption = {
  all: Array<ChoiceValue>;
  category?: string;
  current: unknown;
  description?: string;
  id: string;
  name: string;
  type: string;
};

export type SettingSource = "default" | "file" | "environment" | "flag";

export type SettingsChange = {
  mode?: string | null;
  model?: string | null;
  options?: { [name: string]: unknown } | null;
};

export type SettingsState = {
  fault?: string;
  file?: string;
  waiting?: Array<string>;
};

export type SnippetPart = {
  match?: boolean;
  text: string;
};

export type SpawnArgs = {
  adapter: string;
  additionalDirectories?: Array<string> | null;
  cwd?: string | null;
  env?: { [name: string]: string } | null;
  label?: string | null;
  mcpServers?: Array<unknown> | null;
  mode?: string | null;
  onLabel?: OnLabel | null;
  options?: { [name: string]: unknown } | null;
  prompt?: Content | null;
  workspaceSlug?: string | null;
};

export type SpawnedSession = Session & {
  promptId?: string;
  warnings?: Array<string>;
};

export type StartKind = "foreground" | "background" | "service";

export type StateChange = {
  asks?: Array<string> | null;
  clients?: Array<AttachedClient> | null;
  live?: Array<LiveOutput> | null;
  plan?: string | null;
  queue?: Array<Waiting> | null;
  session?: Session | null;
  settings?: SessionSettings | null;
};

export type Status = "starting" | "running" | "exited" | "killed" | "error";

export type StatusChange = {
  endReason?: EndReason;
  exitCode?: number;
  status: Status;
};

export type Stopping = {
  ok: boolean;
  pid: number;
};

export type StoredEvent = {
  at: number;
  epoch: number;
  id: string;
  kind: string;
  seq: number;
};

export type StreamBeat = {
  asOf: string;
  now: string;
};

export type StreamGone = { [name: string]: unknown };

export type StreamReset = {
  why: string;
};

export type TokenUsage = {
  atLeast?: boolean;
  cached?: number | null;
  cost?: UsageCost | null;
  guessed?: boolean;
  input?: number | null;
  output?: number | null;
  total?: number | null;
};

export type ToolCount = {
  count: number;
  failed: number;
};

export type ToolLocation = {
  line?: number | null;
  path: string;
};

export type ToolOutput = {
  bytes: number;
  cut?: RowCut | null;
  exitCode?: number | null;
  lines: number;
  live?: boolean;
  signal?: string | null;
  text: string;
};

export type ToolState = "pending" | "running" | "paused" | "completed" | "failed" | "cancelled" | "cut_off";

export type TranscriptState = {
  asks: Array<string>;
  clients?: Array<AttachedClient>;
  live?: Array<LiveOutput>;
  plan?: string | null;
  queue: Array<Waiting>;
  session: Session;
  settings?: SessionSettings;
};

export type Turn = "idle" | "running" | "awaiting_input";

export type TurnChange = {
  error?: TurnFailure;
  promptId: string;
  stopReason?: string;
  turn: TurnStep;
};

export type TurnCount = {
  kept: number;
  running: number;
};

export type TurnDetail = TurnInfo & {
  text: string;
  textCut: boolean;
};

export type TurnFailure = {
  message: string;
  stderr?: string;
};

export type TurnInfo = {
  context?: ContextUse | null;
  durationMs?: number | null;
  endedAt?: string | null;
  firstRow?: string | null;
  lastRow?: string | null;
  message?: string | null;
  outcome?: TurnOutcome | null;
  promptId: string;
  startedAt?: string | null;
  state: TurnState;
  stopReason?: string | null;
  summary: string;
  usage?: TokenUsage | null;
};

export type TurnOutcome = "done" | "stopped" | "refused" | "cancelled" | "failed" | "cut_off";

export type TurnPage = {
  before?: string | null;
  fold: number;
  turns: Array<TurnInfo>;
};

export type TurnSequel = {
  requeued?: boolean;
};

export type TurnState = "queued" | "running" | "ended";

export type TurnStep = "started" | "ended";

export type Upload = {
  bytes: number;
  id: string;
  mimeType: string;
  name: string;
};

export type UsageCost = {
  amount: number;
  currency: string;
};

export type UsageOfSession = {
  adapterSlug: string;
  context?: ContextUse | null;
  id: string;
  title?: string | null;
  usage?: TokenUsage | null;
  workspaceSlug: string;
};

export type UsagePage = {
  nextCursor?: string;
  sessions: Array<UsageOfSession>;
  total: UsageTotal;
};

export type UsageTotal = {
  atLeast?: boolean;
  cached?: number | null;
  costs: Array<UsageCost>;
  guessed?: boolean;
  input?: number | null;
  output?: number | null;
  reporting: number;
  sessions: number;
  total?: number | null;
};

export type Waiting = {
  acceptedAt?: string;
  attachments?: Array<string>;
  position: number;
  promptId: string;
  sender?: string;
  shortened?: boolean;
  text: string;
};

export type Workspace = {
  addedAt: string;
  label?: string;
  path: string;
  slug: string;
  updatedAt: string;
};

export type WorkspaceList = {
  active?: string | null;
  version: number;
  workspaces: Array<Workspace>;
};

export type WorkspacePlace = {
  active: boolean;
  label?: string;
  path: string;
  slug: string;
};

/** Ends the path of a call. */
export type Query = "" | `?${string}`;

/** The JSON that a call answers with. */
export type Answer<Call extends string> =
  Call extends `GET sessions/${string}/rows/${string}/text${Query}` ? RowTextPage :
  Call extends `POST sessions/${string}/queue/${string}/send${Query}` ? QueueSent :
  Call extends `DELETE sessions/${string}/queue/${string}/${string}` ? unknown :
  Call extends `DELETE sessions/${string}/queue/${string}${Query}` ? QueueChanged :
  Call extends `GET sessions/${string}/queue/${string}/${string}` ? unknown :
  Call extends `GET sessions/${string}/queue/${string}${Query}` ? Waiting :
  Call extends `GET sessions/${string}/rows/${string}/${string}` ? unknown :
  Call extends `GET sessions/${string}/rows/${string}${Query}` ? Row :
  Call extends `GET sessions/${string}/turns/${string}/${string}` ? unknown :
  Call extends `GET sessions/${string}/turns/${string}${Query}` ? TurnDetail :
  Call extends `PATCH sessions/${string}/queue/${string}/${string}` ? unknown :
  Call extends `PATCH sessions/${string}/queue/${string}${Query}` ? QueueChanged :
  Call extends `POST sessions/${string}/asks/${string}/${string}` ? unknown :
  Call extends `POST sessions/${string}/asks/${string}${Query}` ? Answered :
  Call extends `GET sessions/${string}/asks${Query}` ? AskList :
  Call extends `GET sessions/${string}/changes${Query}` ? ChangedFileList :
  Call extends `GET sessions/${string}/clients${Query}` ? ClientList :
  Call extends `GET sessions/${string}/events${Query}` ? EventPage :
  Call extends `GET sessions/${string}/export${Query}` ? { [name: string]: unknown } :
  Call extends `GET sessions/${string}/files${Query}` ? FileList :
  Call extends `GET sessions/${string}/logs${Query}` ? AgentLogPage :
  Call extends `GET sessions/${string}/output${Query}` ? Output :
  Call extends `GET sessions/${string}/queue${Query}` ? Queue :
  Call extends `GET sessions/${string}/rows${Query}` ? RowPage :
  Call extends `GET sessions/${string}/settings${Query}` ? SessionSettings :
  Call extends `GET sessions/${string}/turns${Query}` ? TurnPage :
  Call extends `PATCH sessions/${string}/settings${Query}` ? SessionSettings :
  Call extends `POST sessions/${string}/finish${Query}` ? Finished :
  Call extends `POST sessions/${string}/fork${Query}` ? Session :
  Call extends `POST sessions/${string}/interrupt${Query}` ? Interrupted :
  Call extends `POST sessions/${string}/kill${Query}` ? Killed :
  Call extends `POST sessions/${string}/prompt${Query}` ? Prompted :
  Call extends `POST sessions/${string}/resume${Query}` ? Session :
  Call extends `POST sessions/${string}/uploads${Query}` ? Upload :
  Call extends `PUT sessions/${string}/mute${Query}` ? MuteMark :
  Call extends `PUT sessions/${string}/seen${Query}` ? SeenMark :
  Call extends `DELETE login/codes${Query}` ? CodesWithdrawn :
  Call extends `DELETE logins/${string}/${string}` ? unknown :
  Call extends `DELETE logins/${string}${Query}` ? LoginEnded :
  Call extends `DELETE sessions/${string}/${string}` ? unknown :
  Call extends `DELETE sessions/${string}${Query}` ? Forgotten :
  Call extends `DELETE workspaces/${string}/${string}` ? unknown :
  Call extends `DELETE workspaces/${string}${Query}` ? Removed :
  Call extends `GET debug/sessions${Query}` ? Processes :
  Call extends `GET host/settings${Query}` ? HostSettings :
  Call extends `GET sessions/${string}/${string}` ? unknown :
  Call extends `GET sessions/${string}${Query}` ? Session :
  Call extends `PATCH logins/${string}/${string}` ? unknown :
  Call extends `PATCH logins/${string}${Query}` ? Login :
  Call extends `PATCH sessions/${string}/${string}` ? unknown :
  Call extends `PATCH sessions/${string}${Query}` ? Session :
  Call extends `POST host/reload${Query}` ? Reloaded :
  Call extends `POST login/codes${Query}` ? LoginCode :
  Call extends `POST notify/test${Query}` ? NotifyTest :
  Call extends `POST push/test${Query}` ? PushDelivery :
  Call extends `POST sessions/agent${Query}` ? SpawnedSession :
  Call extends `PUT workspaces/active${Query}` ? WorkspaceList :
  Call extends `DELETE push${Query}` ? PushState :
  Call extends `GET adapters${Query}` ? AdapterList :
  Call extends `GET asks${Query}` ? AskOverview :
  Call extends `GET files${Query}` ? FileList :
  Call extends `GET host${Query}` ? Described :
  Call extends `GET logins${Query}` ? LoginList :
  Call extends `GET openapi.json${Query}` ? { [name: string]: unknown } :
  Call extends `GET places${Query}` ? Places :
  Call extends `GET push${Query}` ? PushState :
  Call extends `GET search${Query}` ? SearchPage :
  Call extends `GET sessions${Query}` ? SessionList :
  Call extends `GET usage${Query}` ? UsagePage :
  Call extends `GET workspaces${Query}` ? WorkspaceList :
  Call extends `POST login${Query}` ? LoggedIn :
  Call extends `POST logout${Query}` ? LoggedOut :
  Call extends `POST stop${Query}` ? Stopping :
  Call extends `POST workspaces${Query}` ? Workspace :
  Call extends `PUT push${Query}` ? PushState :
  unknown;

/** The JSON that a call sends. */
export type Body<Call extends string> =
  Call extends `POST sessions/${string}/queue/${string}/send${Query}` ? QueueSendArgs | null :
  Call extends `PATCH sessions/${string}/queue/${string}/${string}` ? unknown :
  Call extends `PATCH sessions/${string}/queue/${string}${Query}` ? QueueChange :
  Call extends `POST sessions/${string}/asks/${string}/${string}` ? unknown :
  Call extends `POST sessions/${string}/asks/${string}${Query}` ? AnswerArgs :
  Call extends `PATCH sessions/${string}/settings${Query}` ? SettingsChange :
  Call extends `POST sessions/${string}/fork${Query}` ? ForkArgs | null :
  Call extends `POST sessions/${string}/interrupt${Query}` ? InterruptArgs | null :
  Call extends `POST sessions/${string}/prompt${Query}` ? PromptArgs :
  Call extends `POST sessions/${string}/resume${Query}` ? ResumeArgs | null :
  Call extends `PUT sessions/${string}/mute${Query}` ? MuteArgs :
  Call extends `PUT sessions/${string}/seen${Query}` ? SeenArgs :
  Call extends `PATCH logins/${string}/${string}` ? unknown :
  Call extends `PATCH logins/${string}${Query}` ? LoginChange :
  Call extends `PATCH sessions/${string}/${string}` ? unknown :
  Call extends `PATCH sessions/${string}${Query}` ? SessionPatch :
  Call extends `POST login/codes${Query}` ? CodeArgs :
  Call extends `POST sessions/agent${Query}` ? SpawnArgs :
  Call extends `PUT workspaces/active${Query}` ? ActiveWorkspace :
  Call extends `POST login${Query}` ? LoginArgs :
  Call extends `POST workspaces${Query}` ? NewWorkspace :
  Call extends `PUT push${Query}` ? PushSubscriptionArgs :
  unknown;
