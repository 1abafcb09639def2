//! Sockets that Landlock does not see.
//!
//! Landlock looks at TCP, where a port is bound or connected to by name. Ways around that: transports beside TCP that speak to
//! the same ports (MPTCP), a connection that begins with its first bytes (TCP Fast Open), a port that is listened on
//! without having been bound, and sockets of other kinds: also one of a pair, if it is of datagrams, which can be sent to any
//! unix socket. And a filter has a way around it too, `io_uring`.

use seccompiler::{BackendError as Error, SeccompCmpOp, SeccompRule};

use crate::{
    Landlock,
    filter::{Calls, always, argument, is_not},
};

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const SOCK_STREAM: u64 = 1;
const SOCK_DGRAM: u64 = 2;
const SOCK_SEQPACKET: u64 = 5;
/// What of the second argument of `socket` is the type; the rest are flags.
const SOCK_TYPE: u64 = 0xf;
const TCP: u64 = 6;
const UDP: u64 = 17;
const MSG_FASTOPEN: u64 = 0x2000_0000;

/// The system calls around sockets that are kept back.
pub(crate) fn calls(wanted: &Landlock) -> Result<Calls, Error> {
    let mut calls = Calls::from([
        (libc::SYS_socket, sockets(!wanted.connect.is_empty())?),
        (libc::SYS_socketpair, pairs()?),
        (libc::SYS_sendto, vec![fast_open(3)?]),
        (libc::SYS_sendmsg, vec![fast_open(2)?]),
        (libc::SYS_sendmmsg, vec![fast_open(3)?]),
        (libc::SYS_io_uring_setup, always()),
    ]);
    if wanted.bind.is_empty() {
        calls.insert(libc::SYS_listen, always());
    }
    Ok(calls)
}

/// The sockets that cannot be made: all but those of TCP, and of UDP where names may have to be looked up.
fn sockets(with_udp: bool) -> Result<Vec<SeccompRule>, Error> {
    let protocols = |kind, own| SeccompRule::new(vec![is_type(kind)?, is_not(2, 0)?, is_not(2, own)?]);
    let mut rules =
        vec![SeccompRule::new(vec![is_not(0, AF_INET)?, is_not(0, AF_INET6)?])?, protocols(SOCK_STREAM, TCP)?];
    if with_udp {
        rules.push(protocols(SOCK_DGRAM, UDP)?);
    }
    rules.extend(types_but(|kind| kind == SOCK_STREAM || (with_udp && kind == SOCK_DGRAM))?);
    Ok(rules)
}

/// The pairs that cannot be made: all that could be sent to others than one another.
fn pairs() -> Result<Vec<SeccompRule>, Error> {
    let mut rules = vec![SeccompRule::new(vec![is_not(0, AF_UNIX)?])?];
    rules.extend(types_but(|kind| [SOCK_STREAM, SOCK_SEQPACKET].contains(&kind))?);
    Ok(rules)
}

/// Each type that is none of those. There is no condition for bits that differ.
fn types_but(is_left: impl Fn(u64) -> bool) -> Result<Vec<SeccompRule>, Error> {
    (0..=SOCK_TYPE).filter(|kind| !is_left(*kind)).map(|kind| SeccompRule::new(vec![is_type(kind)?])).collect()
}

fn is_type(kind: u64) -> Result<seccompiler::SeccompCondition, Error> {
    argument(1, SeccompCmpOp::MaskedEq(SOCK_TYPE), kind)
}

/// A call whose flags, the argument at this place, connect with the first bytes.
fn fast_open(flags: u8) -> Result<SeccompRule, Error> {
    SeccompRule::new(vec![argument(flags, SeccompCmpOp::MaskedEq(MSG_FASTOPEN), MSG_FASTOPEN)?])
}

#[cfg(test)]
mod tests {
    use std::{
        io::IoSlice,
        net::{SocketAddrV4, TcpListener},
        num::NonZeroU32,
        thread,
    };

    use rustix::{
        io::Errno,
        net::{
            AddressFamily, MMsgHdr, Protocol, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, bind, listen,
            sendmmsg, sendmsg_addr, sendto, socket, socket_with, socketpair,
        },
    };

    use super::*;
    use crate::filter::restrict;

    const INET: AddressFamily = AddressFamily::INET;
    const STREAM: SocketType = SocketType::STREAM;
    const DGRAM: SocketType = SocketType::DGRAM;

    fn made(family: AddressFamily, kind: SocketType, protocol: u32) -> Result<(), Errno> {
        socket(family, kind, NonZeroU32::new(protocol).map(Protocol::from_raw)).map(drop)
    }

    fn pair(kind: SocketType) -> Result<(), Errno> {
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).map(drop)
    }

    /// What does not get through on a thread that is held to `wanted`.
    fn kept_back(wanted: Landlock) -> Vec<&'static str> {
        let to = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = to.local_addr().unwrap();
        let try_all = move || {
            restrict(&wanted).unwrap();
            let tcp = || socket(INET, STREAM, None).unwrap();
            // With MSG_NOSIGNAL, which is harmless.
            let (fast_open, among_others) = (0x2000_0000, 0x2000_4000);
            let flags = SendFlags::from_bits_retain;
            let (bytes, mut nothing) = ([IoSlice::new(b"x")], SendAncillaryBuffer::default());
            let message = sendmsg_addr(tcp(), &to, &bytes, &mut nothing, flags(fast_open));
            let address = to.into();
            let mut messages = [MMsgHdr::new_with_addr(&address, &bytes, &mut nothing)];
            let messages = sendmmsg(tcp(), &mut messages, flags(fast_open));
            [
                ("tcp", made(INET, STREAM, 0)),
                ("tcp by name, of IPv6", made(AddressFamily::INET6, STREAM, 6)),
                ("mptcp", made(INET, STREAM, 262)),
                ("sctp", made(INET, STREAM, 132)),
                ("udp", made(INET, DGRAM, 0)),
                ("udp with flags", socket_with(INET, DGRAM, SocketFlags::CLOEXEC, None).map(drop)),
                ("udp-lite", made(INET, DGRAM, 136)),
                ("ping", made(INET, DGRAM, 1)),
                ("raw", made(INET, SocketType::RAW, 1)),
                ("packets", made(AddressFamily::PACKET, SocketType::RAW, 0)),
                ("netlink", made(AddressFamily::NETLINK, SocketType::RAW, 0)),
                ("unix", made(AddressFamily::UNIX, STREAM, 0)),
                ("a pair", pair(STREAM)),
                ("a pair of packets", pair(SocketType::SEQPACKET)),
                ("a pair of datagrams", pair(DGRAM)),
                ("a raw pair", pair(SocketType::RAW)),
                ("binding", bind(tcp(), &SocketAddrV4::new([127, 0, 0, 1].into(), 0))),
                ("fast open", sendto(tcp(), b"x", flags(fast_open), &to).map(drop)),
                ("fast open among others", sendto(tcp(), b"x", flags(among_others), &to).map(drop)),
                ("fast open of a message", message.map(drop)),
                ("fast open of messages", messages.map(drop)),
                ("listening unbound", listen(tcp(), 1)),
            ]
        };
        let tried = thread::spawn(try_all).join().unwrap();
        tried.into_iter().filter(|(_, result)| *result == Err(Errno::ACCESS)).map(|(what, _)| what).collect()
    }

    #[test]
    fn only_tcp_is_left_and_udp_where_names_are_looked_up() {
        let nothing = Landlock::default();
        let others = [
            "raw",
            "packets",
            "netlink",
            "unix",
            "a pair of datagrams",
            "a raw pair",
            "fast open",
            "fast open among others",
            "fast open of a message",
            "fast open of messages",
        ];
        let udp = ["mptcp", "sctp", "udp", "udp with flags", "udp-lite", "ping"];
        let with = |first: &[&'static str], last: &[&'static str]| [first, &others, last].concat();
        assert_eq!(kept_back(nothing.clone()), with(&udp, &["listening unbound"]));
        let connects = Landlock { connect: vec![443], ..nothing.clone() };
        assert_eq!(kept_back(connects), with(&["mptcp", "sctp", "udp-lite", "ping"], &["listening unbound"]));
        let binds = Landlock { bind: vec![0], ..nothing };
        assert_eq!(kept_back(binds), with(&udp, &[]));
    }
}
