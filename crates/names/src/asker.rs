//! The thread that asks for names: all of them at the same time, each again when its answer ends.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use convoy_process::supervise::{self, Fault};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet, LocalSet};

use super::NameAnswer;

/// A name is asked for again when the time to live of its answer ends, but no sooner than this.
const SOONEST: Duration = Duration::from_secs(1);
/// And no later than this: /etc/hosts and /etc/resolv.conf may have changed.
pub(super) const LATEST: Duration = Duration::from_secs(300);
/// When a name is asked for again that did not resolve; doubled each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest that doubling makes of it.
const LAST_RETRY: Duration = Duration::from_secs(60);
/// The longest that one question may take, whatever /etc/resolv.conf says.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Names asked for at the same time, at most.
const AT_ONCE: usize = 64;
/// How long the content of /etc/hosts and /etc/resolv.conf is used.
const FRESH: Duration = Duration::from_secs(1);

/// The addresses of a name, and the time for which they hold.
pub(super) type FoundAddresses = Result<(Vec<IpAddr>, Duration), String>;

/// Starts the thread. It asks for the names of the last set received, sends the answers, and ends
/// with either channel.
///
/// # Errors
/// The system's, if it refuses the thread.
pub(super) fn start(
    wanted: mpsc::UnboundedReceiver<HashSet<String>>,
    answers: Sender<NameAnswer>,
    faults: &Sender<Fault>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    supervise::spawn("names", faults, move || {
        let system = Rc::new(System::default());
        let ask = move |name: String| {
            let system = Rc::clone(&system);
            async move { system.ask(&name).await }
        };
        LocalSet::new().block_on(&runtime, serve(wanted, answers, ask));
    })?;
    Ok(())
}

/// Asks once for each of these names, all at the same time.
///
/// # Errors
/// The system's, if it refuses a socket for events.
pub(super) fn ask_once(names: HashSet<String>) -> io::Result<Vec<(String, FoundAddresses)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (system, free) = (Rc::new(System::default()), Rc::new(Semaphore::new(AT_ONCE)));
    let mut asked = JoinSet::new();
    let local = LocalSet::new();
    for name in names {
        let (system, free) = (Rc::clone(&system), Rc::clone(&free));
        let ask = async move {
            let _turn = free.acquire().await;
            let found = system.ask(&name).await;
            (name, found)
        };
        asked.spawn_local_on(ask, &local);
    }
    Ok(local.block_on(&runtime, asked.join_all()))
}

/// Has a task for each name.
pub(super) async fn serve<A, F>(
    mut wanted: mpsc::UnboundedReceiver<HashSet<String>>,
    answers: Sender<NameAnswer>,
    ask: A,
) where
    A: Fn(String) -> F + Clone + 'static,
    F: Future<Output = FoundAddresses> + 'static,
{
    let free = Rc::new(Semaphore::new(AT_ONCE));
    let mut tasks: HashMap<String, AbortHandle> = HashMap::new();
    while let Some(names) = wanted.recv().await {
        tasks.retain(|name, task| {
            let stays = names.contains(name);
            if !stays {
                task.abort();
            }
            stays
        });
        for name in names {
            let follow = || follow(name.clone(), Rc::clone(&free), answers.clone(), ask.clone());
            let start = || tokio::task::spawn_local(follow()).abort_handle();
            tasks.entry(name.clone()).or_insert_with(start);
        }
    }
}

/// Asks for one name again and again.
async fn follow<F: Future<Output = FoundAddresses>>(
    name: String,
    free: Rc<Semaphore>,
    answers: Sender<NameAnswer>,
    ask: impl Fn(String) -> F,
) {
    let mut retry = FIRST_RETRY;
    loop {
        let found = {
            let _turn = free.acquire().await;
            ask(name.clone()).await
        };
        let (found, again) = match found {
            Ok((addresses, holds)) => {
                retry = FIRST_RETRY;
                (Ok(addresses), holds.clamp(SOONEST, LATEST))
            }
            Err(why) => {
                let now = retry;
                retry = (now * 2).min(LAST_RETRY);
                (Err(why), now)
            }
        };
        let answer = NameAnswer { name: name.clone(), found, asked_again: Instant::now() + again };
        if answers.send(answer).is_err() {
            return;
        }
        tokio::time::sleep(again).await;
    }
}

/// The system's configuration, read again when it is no longer fresh.
#[derive(Default)]
struct System(RefCell<Option<(Instant, TokioResolver)>>);

impl System {
    fn resolver(&self) -> Result<TokioResolver, NetError> {
        let mut known = self.0.borrow_mut();
        if let Some((_, resolver)) = known.as_ref().filter(|(read, _)| read.elapsed() < FRESH) {
            return Ok(resolver.clone());
        }
        let resolver = resolver()?;
        *known = Some((Instant::now(), resolver.clone()));
        Ok(resolver)
    }

    async fn ask(&self, name: &str) -> FoundAddresses {
        let resolver = self.resolver().map_err(|error| format!("/etc/resolv.conf: {error}"))?;
        let found = tokio::time::timeout(TIMEOUT, resolver.lookup_ip(name)).await;
        let found = found.map_err(|_| "no answer in time".to_owned())?;
        let found = found.map_err(|error| in_words(&error))?;
        let holds = found.valid_until().saturating_duration_since(Instant::now());
        Ok((found.iter().collect(), holds))
    }
}

/// A resolver by /etc/hosts and /etc/resolv.conf; by /etc/hosts alone where the other is missing or
/// names no server.
fn resolver() -> Result<TokioResolver, NetError> {
    let provider = TokioRuntimeProvider::default();
    let mut builder = match TokioResolver::builder(provider.clone()) {
        Ok(builder) => builder,
        Err(_) => {
            let none = ResolverConfig::from_name_servers(Vec::new());
            TokioResolver::builder_with_config(none, provider).with_options(ResolverOpts::default())
        }
    };
    let options = builder.options_mut();
    // The answers' time to live is kept by the tasks.
    options.cache_size = 0;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.try_tcp_on_error = true;
    builder.build()
}

/// What to tell the operator.
fn in_words(error: &NetError) -> String {
    if error.is_no_records_found() {
        return if error.is_nx_domain() { "there is no such name" } else { "it has no address" }.to_owned();
    }
    match error {
        NetError::Timeout => "no server of /etc/resolv.conf answers".to_owned(),
        NetError::NoConnections => "/etc/resolv.conf has no server that can be asked".to_owned(),
        other => other.to_string(),
    }
}
