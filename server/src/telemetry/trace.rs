//! W3C trace context: hookd takes part in the caller's trace and passes it on to http handlers.

use std::fmt;

use uuid::Uuid;

use crate::settings::KEEP_ALL;

/// Where a call stands in a trace: the caller's trace if it sent a valid one, or a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The trace. Not zero.
    pub trace_id: TraceId,
    /// The caller's span. `None`: the trace starts here.
    pub parent: Option<SpanId>,
    /// hookd's own span for this call. Not zero.
    pub span_id: SpanId,
    /// The caller's flags; 0 where the trace starts here.
    pub flags: u8,
}

/// The flag by which whoever begins a trace has chosen that it is recorded.
const SAMPLED: u8 = 1;

/// `00-`, trace, `-`, span, `-`, flags.
const TRACEPARENT_BYTES: usize = 55;

/// Id of a trace, shown as 32 lowercase hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceId(u128);

/// Id of a span, shown as 16 lowercase hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanId(u64);

impl Context {
    /// The context of a call that came with this `traceparent`. One that is absent or not valid starts a new trace,
    /// as the standard asks for; its id is the decision's. The span's id is the random half of the decision's.
    #[must_use]
    pub fn from_header(traceparent: Option<&str>, decision_id: Uuid) -> Self {
        let span_id = SpanId(decision_id.as_u64_pair().1);
        match traceparent.and_then(parse) {
            Some((trace_id, parent, flags)) => Self { trace_id, parent: Some(parent), span_id, flags },
            None => Self { trace_id: TraceId(decision_id.as_u128()), parent: None, span_id, flags: 0 },
        }
    }

    /// The context of what goes on for a call beside its answer: a span of its own below the one that `traceparent`, hookd's
    /// own, names. `None`: it names none.
    #[must_use]
    pub fn below(traceparent: &str) -> Option<Self> {
        let (trace_id, parent, flags) = parse(traceparent)?;
        Some(Self { trace_id, parent: Some(parent), span_id: SpanId::random(), flags })
    }

    /// The context with the choice of whether its call is recorded, where nobody has made it before: so many of 1,000,000
    /// traces that start here.
    #[must_use]
    pub fn sampled(self, ratio: u32) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the random half of the id")]
        let is_chosen = self.parent.is_none() && is_among(self.trace_id.0 as u64, ratio);
        Self { flags: if is_chosen { self.flags | SAMPLED } else { self.flags }, ..self }
    }

    /// Whether its call is recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The `traceparent` to pass on: hookd's own span is the parent there.
    #[must_use]
    pub fn to_traceparent(&self) -> String {
        // Digit by digit through `format!` this cost more than finding the rules of a call.
        let mut digits = [0; 32];
        let mut text = String::with_capacity(TRACEPARENT_BYTES);
        text.push_str("00-");
        text.push_str(Uuid::from_u128(self.trace_id.0).simple().encode_lower(&mut digits));
        text.push('-');
        let span = Uuid::from_u64_pair(self.span_id.0, u64::from(self.flags)).simple();
        let span = span.encode_lower(&mut digits);
        text.push_str(span.get(..16).unwrap_or_default());
        text.push('-');
        text.push_str(span.get(30..).unwrap_or_default());
        text
    }
}

impl TraceId {
    /// Its bytes in the order of its digits.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl SpanId {
    /// A new one.
    #[must_use]
    pub fn random() -> Self {
        // Not zero: this half holds the variant of the UUID.
        Self(Uuid::new_v4().as_u64_pair().1)
    }

    /// Its bytes in the order of its digits.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// Whether something is among so many of 1,000,000 that are chosen, by a number whose lower half is random.
#[must_use]
pub fn is_among(random: u64, millionths: u32) -> bool {
    let place = (random & u64::from(u32::MAX)).saturating_mul(u64::from(KEEP_ALL)) >> u32::BITS;
    place < u64::from(millionths)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Trace, parent and flags of a `traceparent`. A higher version is read as far as this one goes.
fn parse(header: &str) -> Option<(TraceId, SpanId, u8)> {
    let mut parts = header.trim().split('-');
    let version = hex(parts.next()?, 2)?;
    let trace_id = hex(parts.next()?, 32).filter(|id| *id != 0)?;
    let parent = hex(parts.next()?, 16).filter(|id| *id != 0)?;
    let flags = hex(parts.next()?, 2)?;
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    Some((TraceId(trace_id), SpanId(u64::try_from(parent).ok()?), u8::try_from(flags).ok()?))
}

fn hex(part: &str, digits: usize) -> Option<u128> {
    let lowercase = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    lowercase.then(|| u128::from_str_radix(part, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(0x019e_0000_0000_7000_8000_0000_0000_00ab);
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_callers_trace_goes_on_with_a_span_of_our_own() {
        let context = Context::from_header(Some(PARENT), ID);
        assert_eq!(context.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.parent.map(|span| span.to_string()).as_deref(), Some("00f067aa0ba902b7"));
        assert_ne!(Some(context.span_id), context.parent);
        let passed_on = context.to_traceparent();
        assert_eq!(passed_on, format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", context.span_id));
        assert_eq!(Context::from_header(Some(&passed_on), ID).parent, Some(context.span_id));
    }

    #[test]
    fn what_goes_on_beside_an_answer_is_below_its_span() {
        let call = Context::from_header(Some(PARENT), ID);
        let (one, other) = (Context::below(&call.to_traceparent()).unwrap(), Context::below(&call.to_traceparent()));
        let expected = Context { parent: Some(call.span_id), span_id: one.span_id, ..call };
        assert_eq!(one, expected);
        assert_ne!(Some(one.span_id), other.map(|other| other.span_id));
        assert_eq!(Context::below(""), None);
    }

    #[test]
    fn only_a_trace_that_starts_here_is_chosen_by_the_ratio() {
        let unsampled = PARENT.replace("-01", "-00");
        for (header, ratio, expected) in [
            (Some(PARENT), 0, 1),
            (Some(PARENT), KEEP_ALL, 1),
            (Some(&*unsampled), KEEP_ALL, 0),
            (None, KEEP_ALL, 1),
            (None, 0, 0),
        ] {
            let context = Context::from_header(header, ID).sampled(ratio);
            assert_eq!((context.flags, context.is_sampled()), (expected, expected == 1), "{header:?} {ratio}");
        }
        let chosen =
            (0..10_000).filter(|_| Context::from_header(None, Uuid::new_v4()).sampled(KEEP_ALL / 10).is_sampled());
        let chosen = chosen.count();
        assert!((800..1200).contains(&chosen), "{chosen}");
    }

    #[test]
    fn what_is_not_valid_starts_a_new_trace() {
        let bad = [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ];
        for header in bad {
            let context = Context::from_header(Some(header), ID);
            assert_eq!(context.parent, None, "{header}");
            assert_eq!(context.trace_id, TraceId(ID.as_u128()), "{header}");
        }
        assert!(
            Context::from_header(Some("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"), ID)
                .parent
                .is_some()
        );
    }
}
