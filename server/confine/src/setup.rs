//! What a helper does to itself.

use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{
        CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    },
};

use crate::{Account, Confinement, filter, landlock};

/// Sets up everything, or says what it was that could not be. The order matters: hard limits are lowered while there may be
/// privileges to do so, paths are opened as the user who will use them, and memory gets scarce last.
pub(crate) fn apply(confinement: &Confinement) -> Result<(), String> {
    let Confinement { account, limits, landlock } = confinement;
    for (what, resource, limit) in [
        ("processor time", Resource::Cpu, limits.cpu_time),
        ("open files", Resource::Nofile, limits.open_files),
        ("processes", Resource::Nproc, limits.processes),
        ("file size", Resource::Fsize, limits.file_size),
    ] {
        lower(what, resource, limit)?;
    }
    if let Some(account) = account {
        switch(*account)?;
    }
    if let Some(landlock) = landlock {
        landlock::restrict(landlock)?;
        filter::restrict(landlock)?;
    }
    lower("address space", Resource::As, limits.address_space)
}

fn lower(what: &str, resource: Resource, limit: Option<u64>) -> Result<(), String> {
    let Some(limit) = limit else { return Ok(()) };
    // Between the two a program that handles SIGXCPU can clean up.
    let grace = u64::from(resource == Resource::Cpu);
    let wanted = Rlimit { current: Some(limit), maximum: Some(limit.saturating_add(grace)) };
    setrlimit(resource, wanted).map_err(|error| {
        let hard = getrlimit(resource).maximum.map_or_else(|| "none".to_owned(), |hard| hard.to_string());
        format!("the limit of {what} cannot be set to {limit} ({error}; the hard limit is {hard})")
    })
}

/// The helper has one thread, so what the kernel does to a thread is done to the process.
fn switch(Account { user, group }: Account) -> Result<(), String> {
    let cannot = |what: &str, id: u32| {
        let what = what.to_owned();
        move |error| format!("it cannot run as {what} {id} ({error})")
    };
    let (uid, gid) = (rustix::process::Uid::from_raw(user), rustix::process::Gid::from_raw(group));
    set_thread_groups(&[]).map_err(|error| format!("its supplementary groups cannot be dropped ({error})"))?;
    set_thread_res_gid(gid, gid, gid).map_err(cannot("group", group))?;
    set_thread_res_uid(uid, uid, uid).map_err(cannot("user", user))?;
    // From one user to another, neither of them root, the kernel leaves capabilities; the ambient ones outlive the exec.
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    if user != 0 {
        clear_ambient_capability_set()
            .and_then(|()| set_capabilities(None, none))
            .map_err(|error| format!("its capabilities cannot be dropped ({error})"))?;
    }
    Ok(())
}
