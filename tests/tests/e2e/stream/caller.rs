//! A caller that does message by message what a test says.

use hookd_client::{OfferTier, OfferedRules};
use hookd_tests::{
    Hookd,
    v1::{
        CommandResult, NeedFiles, OfferedFile, RuleFile, RuleFiles, RunCommand, StreamStart, Tier, TriggerRequest,
        TriggerResponse, TriggerStreamRequest, TriggerStreamResponse, run_command::Program,
        trigger_stream_request::Message as Sent, trigger_stream_response::Message as Came,
    },
    within,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Status, Streaming};

/// One open stream.
pub(crate) struct Caller {
    sender: Option<mpsc::UnboundedSender<TriggerStreamRequest>>,
    messages: Streaming<TriggerStreamResponse>,
}

impl Caller {
    /// Opens a stream and says nothing yet: that this returns shows that headers are sent at once.
    pub(crate) async fn open(hookd: &Hookd) -> Self {
        Self::open_with(hookd, |_| {}).await
    }

    pub(crate) async fn open_with(
        hookd: &Hookd,
        change: impl FnOnce(&mut Request<UnboundedReceiverStream<TriggerStreamRequest>>),
    ) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut request = Request::new(UnboundedReceiverStream::new(receiver));
        change(&mut request);
        // One that leaves deadlines to the server.
        let mut client = hookd.patient_client().await.max_decoding_message_size(64 << 20);
        let messages = within("headers", client.trigger_stream(request)).await.unwrap().into_inner();
        Self { sender: Some(sender), messages }
    }

    /// Opens a stream and starts it.
    pub(crate) async fn start(hookd: &Hookd, request: TriggerRequest, offered: &[OfferedRules]) -> Self {
        let caller = Self::open(hookd).await;
        caller.say(start(request, offered));
        caller
    }

    pub(crate) fn say(&self, message: Sent) {
        // The other side may have ended; what it says then is what a test looks at.
        let _ = self.sender.as_ref().unwrap().send(TriggerStreamRequest { message: Some(message) });
    }

    pub(crate) fn say_nothing_known(&self) {
        let _ = self.sender.as_ref().unwrap().send(TriggerStreamRequest { message: None });
    }

    /// Ends this side's direction.
    pub(crate) fn half_close(&mut self) {
        self.sender = None;
    }

    pub(crate) fn is_half_closed(&self) -> bool {
        self.sender.is_none()
    }

    /// Sends files, whatever was asked for.
    pub(crate) fn send_files(&self, files: &[OfferedRules]) {
        let files =
            files.iter().map(|file| RuleFile { sha256: file.sha256().to_owned(), content: file.content().to_vec() });
        self.say(Sent::Files(RuleFiles { files: files.collect() }));
    }

    pub(crate) fn answer(&self, command_id: u32, stdout: impl ToString) {
        self.say(Sent::CommandResult(printed(command_id, stdout)));
    }

    /// The next message, or the status.
    pub(crate) async fn try_next(&mut self) -> Result<Option<Came>, Status> {
        let message = within("a message", self.messages.message()).await?;
        Ok(message.map(|message| message.message.unwrap()))
    }

    pub(crate) async fn next(&mut self) -> Came {
        self.try_next().await.unwrap().unwrap()
    }

    /// The next message is a command.
    pub(crate) async fn command(&mut self) -> RunCommand {
        match self.next().await {
            Came::RunCommand(command) => command,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn cancelled(&mut self) -> u32 {
        match self.next().await {
            Came::CancelCommand(cancel) => cancel.command_id,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn need(&mut self) -> Vec<String> {
        match self.next().await {
            Came::NeedFiles(NeedFiles { sha256 }) => sha256,
            other => panic!("{other:?}"),
        }
    }

    /// The next message is the answer, and the stream ends after it.
    pub(crate) async fn response(&mut self) -> TriggerResponse {
        let response = match self.next().await {
            Came::Response(response) => response,
            other => panic!("{other:?}"),
        };
        assert_eq!(self.try_next().await.unwrap(), None);
        response
    }

    /// The stream ends with a status.
    pub(crate) async fn status(&mut self) -> Status {
        self.try_next().await.unwrap_err()
    }
}

pub(crate) fn start(request: TriggerRequest, offered: &[OfferedRules]) -> Sent {
    let offered = offered.iter().map(offer).collect();
    Sent::Start(StreamStart { trigger: Some(request), offered })
}

pub(crate) fn offer(file: &OfferedRules) -> OfferedFile {
    let tier = match file.tier() {
        OfferTier::Plugin => Tier::Plugin,
        OfferTier::Shared => Tier::Shared,
        OfferTier::Local => Tier::Local,
    };
    OfferedFile {
        sha256: file.sha256().to_owned(),
        tier: tier.into(),
        path: file.path().to_owned(),
        format: file.format().to_owned(),
    }
}

/// A file of the project's with these rules.
pub(crate) fn shared(rules: Value) -> OfferedRules {
    of_tier(OfferTier::Shared, rules)
}

pub(crate) fn of_tier(tier: OfferTier, rules: Value) -> OfferedRules {
    OfferedRules::new(tier, "/repo/.ling/hooks.json", "hookd", json!({ "hooks": rules }).to_string().into_bytes())
}

/// A command that exited with 0 and printed this.
pub(crate) fn printed(command_id: u32, stdout: impl ToString) -> CommandResult {
    CommandResult {
        command_id,
        exit_code: Some(0),
        stdout: stdout.to_string().into_bytes(),
        ..CommandResult::default()
    }
}

/// The place of a rule in the file that a command names.
pub(crate) fn place(command: &RunCommand) -> (String, u32) {
    match command.program.as_ref().unwrap() {
        Program::OfferedRule(rule) => (rule.sha256.clone(), rule.index),
        Program::ServerProgram(program) => panic!("{program:?}"),
    }
}
