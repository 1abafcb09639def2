use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::End;
use crate::group::{Exit, Group};
use crate::pipes::Pipes;
use crate::place::{Stage, StageWatch};
use crate::workers::{Health, Said, Stray, Told, WorkerSettings};

/// How much is read at once, and how much room stays between calls.
const CHUNK: usize = 16 * 1024;
/// How much of stderr is kept.
const TAIL_BYTES: usize = 4096;

/// A question to a worker. Dropping the receiver of the reply kills it.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) line: Arc<[u8]>,
    /// Whoever asks.
    pub(crate) asker: Arc<str>,
    pub(crate) reply: oneshot::Sender<Reply>,
}

#[derive(Debug)]
pub(crate) enum Reply {
    /// What came of it, what it wrote to stderr if it ended, and whether it can be asked again.
    Said { said: Said, stderr: Vec<u8>, stays: bool },
    /// It was at its end before anything was written to it: ask another one.
    Gone,
}

/// One worker, in a task of its own. Dropping it kills its group.
#[derive(Debug)]
pub(crate) struct Worker {
    group: Group,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    tail: Tail,
    /// What was read of a line that is not yet whole.
    buffer: Vec<u8>,
    answers: u64,
    /// Who asked last.
    asker: Arc<str>,
    settings: WorkerSettings,
    health: Arc<Health>,
    told: Told,
}

/// What an idle worker does that it should not.
#[derive(Debug)]
enum Stir {
    Exit(io::Result<Exit>),
    /// Bytes, or none: it closed its stdout.
    Output,
}

impl Worker {
    pub(crate) fn new(group: Group, pipes: Pipes, settings: WorkerSettings, health: Arc<Health>, told: Told) -> Self {
        let Pipes { stdin, stdout, stderr } = pipes;
        let (tail, buffer) = (Tail::default(), Vec::new());
        let asker = Arc::from("");
        Self { group, stdin, stdout, stderr, tail, buffer, answers: 0, asker, settings, health, told }
    }

    /// Answers until nobody can ask any more, the workers are to end, or it fails.
    pub(crate) async fn serve(mut self, mut asks: mpsc::Receiver<Ask>, mut stage: StageWatch) {
        loop {
            // A new one was started to be asked, so what it says first is said to that.
            let is_new = self.answers == 0;
            let ask = tokio::select! {
                biased;
                () = stage.reached(Stage::Retiring) => None,
                stir = self.stir(), if !is_new => {
                    turn_away(&mut asks);
                    return self.end_of_idle(stir);
                }
                ask = asks.recv() => ask,
            };
            let Some(Ask { line, asker, mut reply }) = ask else {
                turn_away(&mut asks);
                return self.retire(stage).await;
            };
            if !is_new && self.says_something() {
                let _gone = reply.send(Reply::Gone);
                return self.end_of_idle(Stir::Output);
            }
            self.asker = asker;
            let said = tokio::select! {
                biased;
                () = reply.closed() => return,
                said = self.exchange(&line) => said,
            };
            let stays = matches!(said, Said::Line(_)) && self.can_stay();
            let stderr = std::mem::take(&mut self.tail).into_bytes();
            let stderr = if matches!(said, Said::Ended(_)) { stderr } else { Vec::new() };
            // What was exited of itself leaves its group alone, like any program; the rest is killed by the drop.
            let exited = matches!(said, Said::Ended(End::Exited(_) | End::Lost(_)));
            let answered = matches!(said, Said::Line(_));
            if matches!(said, Said::Ended(_)) {
                self.health.failed(&self.asker);
            } else if answered {
                self.health.answered(&self.asker);
            }
            let _nobody_waits = reply.send(Reply::Said { said, stderr, stays });
            if exited {
                return self.group.leave();
            }
            if !answered {
                return;
            }
            if !stays {
                return self.retire(stage).await;
            }
        }
    }

    /// Writes the line and reads one, both at once: a worker may answer before it has read everything.
    async fn exchange(&mut self, line: &[u8]) -> Said {
        let mut rest = line;
        let mut answer = None;
        loop {
            if let Some(said) = answer.take_if(|_| rest.is_empty()) {
                return said;
            }
            tokio::select! {
                biased;
                more = read(&mut self.stdout, &mut self.buffer), if answer.is_none() && self.stdout.is_some() => {
                    if !more {
                        // Most likely it is about to exit; otherwise it can never answer, and its time runs out.
                        self.stdout = None;
                        continue;
                    }
                    match self.said() {
                        Some(said @ Said::Line(_)) => answer = Some(said),
                        Some(said) => return said,
                        None => {}
                    }
                }
                count = write(&mut self.stdin, rest), if !rest.is_empty() => match count {
                    Some(count) => rest = rest.get(count..).unwrap_or_default(),
                    // It does not read any more. That need not keep it from answering, once.
                    None => (self.stdin, rest) = (None, &[]),
                },
                () = self.tail.follow(&mut self.stderr), if self.stderr.is_some() => {}
                exit = self.group.exited() => return self.last_words(exit, answer).await,
            }
        }
    }

    /// What the buffer says, once that is clear.
    fn said(&mut self) -> Option<Said> {
        let cap = self.settings.limits.output_bytes;
        let end = self.buffer.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(self.buffer.len()) > cap {
            return Some(Said::TooLong(cap));
        }
        let is_one = end?.saturating_add(1) == self.buffer.len();
        let mut line = std::mem::take(&mut self.buffer);
        if is_one {
            line.pop();
        }
        Some(if is_one && (self.settings.accepts)(&line) {
            self.answers = self.answers.saturating_add(1);
            Said::Line(line)
        } else {
            Said::Noise(line)
        })
    }

    /// It has exited: what it said before is still in the pipes.
    async fn last_words(&mut self, exit: io::Result<Exit>, answer: Option<Said>) -> Said {
        let mut answer = answer;
        let _others_hold_the_pipes = timeout(self.settings.limits.pipe_grace, async {
            while answer.is_none() && read(&mut self.stdout, &mut self.buffer).await {
                answer = self.said();
            }
            while self.stderr.is_some() {
                self.tail.follow(&mut self.stderr).await;
            }
        })
        .await;
        self.stdin = None;
        match (End::from(exit), answer) {
            (End::Exited(0), Some(answer)) => answer,
            (end, _) => Said::Ended(end),
        }
    }

    fn can_stay(&self) -> bool {
        self.stdin.is_some() && self.settings.max_calls.is_none_or(|most| self.answers < most)
    }

    /// Waits for what an idle worker should not do.
    async fn stir(&mut self) -> Stir {
        loop {
            tokio::select! {
                biased;
                exit = self.group.exited() => return Stir::Exit(exit),
                _ = read(&mut self.stdout, &mut self.buffer) => return Stir::Output,
                () = self.tail.follow(&mut self.stderr), if self.stderr.is_some() => {}
            }
        }
    }

    /// Whether there is something on stdout, or its end. Asks the kernel itself, since the news of it may still be under way.
    fn says_something(&self) -> bool {
        let Some(stdout) = &self.stdout else { return true };
        rustix::io::read(stdout, &mut [0_u8; 1]) != Err(rustix::io::Errno::AGAIN)
    }

    fn end_of_idle(mut self, stir: Stir) {
        match stir {
            // It has answered before, and may count its calls itself.
            Stir::Exit(Ok(Exit::Code(0))) => self.group.leave(),
            Stir::Exit(exit) => {
                let end = End::from(exit);
                self.tail.take_what_is_there(&self.stderr);
                self.told.of(Stray::Ended { end: end.clone(), stderr: std::mem::take(&mut self.tail).into_bytes() });
                self.health.failed(&self.asker);
                if matches!(end, End::Exited(_) | End::Lost(_)) {
                    self.group.leave();
                }
            }
            Stir::Output => self.told.of(Stray::Spoke),
        }
    }

    /// Lets it end by itself, within the grace.
    async fn retire(mut self, mut stage: StageWatch) {
        self.stdin = None;
        let grace = self.settings.limits.kill_grace;
        let exit = tokio::select! {
            biased;
            exit = self.exit_unheard() => Some(exit),
            () = stage.reached(Stage::Killing) => None,
            () = sleep(grace) => None,
        };
        if matches!(exit, Some(Ok(Exit::Code(_)))) {
            self.group.leave();
        }
    }

    async fn exit_unheard(&mut self) -> io::Result<Exit> {
        loop {
            tokio::select! {
                biased;
                exit = self.group.exited() => return exit,
                more = read(&mut self.stdout, &mut self.buffer), if self.stdout.is_some() => {
                    self.buffer.clear();
                    if !more {
                        self.stdout = None;
                    }
                }
                () = self.tail.follow(&mut self.stderr), if self.stderr.is_some() => {}
            }
        }
    }
}

/// Tells those who asked too late that nothing of it was read.
fn turn_away(asks: &mut mpsc::Receiver<Ask>) {
    asks.close();
    while let Ok(ask) = asks.try_recv() {
        let _nobody_waits = ask.reply.send(Reply::Gone);
    }
}

/// Reads something. False: there will be no more.
async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut Vec<u8>) -> bool {
    let Some(pipe) = pipe else { return false };
    buffer.reserve(CHUNK);
    matches!(pipe.read_buf(buffer).await, Ok(1..))
}

/// Writes something. `None`: it cannot be written to any more.
async fn write(pipe: &mut Option<ChildStdin>, bytes: &[u8]) -> Option<usize> {
    pipe.as_mut()?.write(bytes).await.ok()
}

/// The end of what a worker wrote to stderr since its last answer.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    /// Reads something and keeps the end of it.
    async fn follow(&mut self, pipe: &mut Option<ChildStderr>) {
        if !read(pipe, &mut self.bytes).await {
            *pipe = None;
        }
        self.cut();
    }

    /// Keeps the end of what can be read without waiting, by asking the kernel itself: the news of it may still be under way.
    fn take_what_is_there(&mut self, pipe: &Option<ChildStderr>) {
        let Some(pipe) = pipe else { return };
        let mut chunk = [0; CHUNK];
        while let Ok(read @ 1..) = rustix::io::read(pipe, &mut chunk) {
            self.bytes.extend_from_slice(chunk.get(..read).unwrap_or_default());
            self.cut();
        }
    }

    fn cut(&mut self) {
        let surplus = self.bytes.len().saturating_sub(TAIL_BYTES);
        self.bytes.drain(..surplus);
        self.cut |= surplus > 0;
    }

    fn into_bytes(mut self) -> Vec<u8> {
        if self.cut
            && let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n')
        {
            self.bytes.drain(..=end);
        }
        self.bytes
    }
}
