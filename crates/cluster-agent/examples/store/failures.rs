//! Members of etcd that are killed or stopped, a client that they do not know, a full store.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use convoy_cluster::{KeyValue, StoreAnswer};
use convoy_cluster_agent::etcd::StoreConfig;

use crate::client::{Client, End, put, transaction};
use crate::have_done;

/// A number that only this client raises, by transactions that are guarded by its last change.
struct Counter {
    /// What was read or written last.
    known: KeyValue,
    /// Whether a write of the next number has an unknown outcome.
    is_open: bool,
    done: usize,
    lost: usize,
    refused: usize,
}

const COUNTER: &str = "/counter";

impl Counter {
    fn begin(client: &mut Client) -> Result<Self> {
        client.put(COUNTER, b"0")?;
        let known = client.read(COUNTER)?.remove(0);
        Ok(Self { known, is_open: false, done: 0, lost: 0, refused: 0 })
    }

    fn number(&self) -> Result<u64> {
        Ok(std::str::from_utf8(&self.known.value)?.parse()?)
    }

    /// Raises it once, or reads what became of the last attempt.
    fn step(&mut self, client: &mut Client) -> Result<()> {
        let next = self.number()? + 1;
        let call = if self.is_open {
            transaction(None, &[], Vec::new(), Some(COUNTER))
        } else {
            let puts = vec![put(COUNTER, next.to_string().as_bytes())];
            transaction(Some((COUNTER, self.known.modified)), &[], puts, Some(COUNTER))
        };
        match client.end(call)? {
            End::Answered(StoreAnswer::Transacted { is_done: true, read, .. }) => self.found(read, next),
            End::Answered(StoreAnswer::Refused { .. }) => {
                self.refused += 1;
                std::thread::sleep(Duration::from_millis(20));
                Ok(())
            }
            // A write whose outcome was unknown was executed after the key was read again.
            End::Answered(StoreAnswer::Transacted { .. }) if self.lost > 0 => {
                self.is_open = true;
                Ok(())
            }
            End::Answered(other) => bail!("an answer that cannot be: {other:?}"),
            End::Lost(_) => {
                self.lost += 1;
                self.is_open = true;
                Ok(())
            }
        }
    }

    fn found(&mut self, mut read: Vec<KeyValue>, next: u64) -> Result<()> {
        let (known, found) = (self.known.clone(), read.remove(0));
        let is_raised = found.value == next.to_string().as_bytes() && found.modified > known.modified;
        ensure!(is_raised || (self.is_open && found == known), "{known:?} was followed by {found:?}");
        (self.known, self.is_open) = (found, false);
        self.done += 1;
        Ok(())
    }

    fn steps(&mut self, client: &mut Client, done: usize) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(60);
        let end = self.done + done;
        while self.done < end {
            ensure!(Instant::now() < until, "no progress: {}", client.last_loss);
            self.step(client)?;
        }
        Ok(())
    }
}

/// etcd's leader is killed: another endpoint goes on.
pub(crate) fn leader_killed(config: &StoreConfig) -> Result<()> {
    let client = &mut Client::connected(config)?;
    let mut counter = Counter::begin(client)?;
    let (lease, ttl_s) = client.grant(60)?;
    counter.steps(client, 20)?;
    have_done("kill leader")?;
    let begun = Instant::now();
    counter.steps(client, 1)?;
    println!("etcd's leader was killed: the next answer came after {:?}", begun.elapsed());
    counter.steps(client, 50)?;
    ensure!(client.keep_alive(lease)? == ttl_s, "the lease has outlived the leader");
    have_done("start killed")?;
    counter.steps(client, 20)?;
    println!(
        "{} answers, {} lost, {} refused, and no number missing",
        counter.done, counter.lost, counter.refused
    );
    Ok(())
}

/// Two members are stopped. The only endpoint is the third, which leads: what it takes before it
/// notices may be executed when they go on.
pub(crate) fn no_quorum(config: &StoreConfig) -> Result<()> {
    let client = &mut Client::connected(config)?;
    let mut counter = Counter::begin(client)?;
    counter.steps(client, 5)?;
    have_done("stop two")?;
    let (done, until) = (counter.done, Instant::now() + Duration::from_secs(6));
    while Instant::now() < until {
        counter.step(client)?;
    }
    ensure!(counter.done == done, "{} transactions without a quorum", counter.done - done);
    have_done("continue two")?;
    counter.steps(client, 20)?;
    println!("without a quorum nothing was answered, and afterwards no number is missing");
    Ok(())
}

/// A client whose certificate no member trusts.
pub(crate) fn stranger(config: &StoreConfig) -> Result<()> {
    let mut client = Client::start(config)?;
    while client.last_loss.is_empty() {
        ensure!(!client.is_connected, "a stranger is connected");
        client.next()?;
    }
    ensure!(client.last_loss.contains("ertificate"), "{}", client.last_loss);
    let reason = client.refused(transaction(None, &[], vec![put("/s", b"")], None));
    println!("a stranger: {}", client.last_loss);
    // Another endpoint's failure may come before the answer.
    ensure!(reason.is_ok() || !client.is_connected, "{reason:?}");
    Ok(())
}

/// A store that is filled until it has no more room.
pub(crate) fn full(config: &StoreConfig) -> Result<()> {
    let mut client = Client::connected(config)?;
    let (lease, ttl_s) = client.grant(30)?;
    let (mut lost, mut kept) = (0, Vec::new());
    let reason = loop {
        ensure!(kept.len() < 10_000, "it is never full");
        let name = format!("/full/{:05}", kept.len());
        match client.end(transaction(None, &[], vec![put(&name, &[7; 50_000])], None))? {
            End::Answered(StoreAnswer::Transacted { is_done: true, .. }) => kept.push(name),
            End::Answered(StoreAnswer::Refused { reason }) if client.is_connected => break reason,
            End::Answered(other) => bail!("answered by {other:?}"),
            End::Lost(reason) => {
                ensure!(reason.contains("space"), "{reason}");
                lost += 1;
                client.connect()?;
                kept = client.read("/full/")?.into_iter().map(|found| found.key).collect();
            }
        }
    };
    ensure!(reason.contains("space"), "{reason}");
    let found: Vec<_> = client.read("/full/")?.into_iter().map(|found| found.key).collect();
    ensure!(found == kept, "{} keys were put, {} are there", kept.len(), found.len());
    ensure!(client.keep_alive(lease)? == ttl_s, "leases are kept alive");
    let removed = client.transact(None, &[&kept[0]], Vec::new(), Some("/full/"))?;
    ensure!(removed.is_done && removed.read.len() == kept.len() - 1, "{removed:?}");
    println!("a full store refuses ({reason}; {lost} lost before), keeps leases alive and removes keys");
    Ok(())
}
