//! Transactions, leases and watches, while all members are well.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use convoy_cluster::{Call, StoreAnswer, StoreChange};
use convoy_cluster_agent::etcd::StoreConfig;

use crate::client::{Client, End, put, transaction};
use crate::have_done;

/// The leases' time to live, which no pause of this machine's should exceed.
const TTL_S: u32 = 4;

pub(crate) fn all(config: &StoreConfig) -> Result<()> {
    let mut client = Client::connected(config)?;
    guarded(&mut client)?;
    contended(config)?;
    refused(&mut client)?;
    expiring(&mut client)?;
    kept_alive(&mut client)?;
    watched_from_the_beginning(&mut client)?;
    forgotten(&mut client)
}

fn guarded(client: &mut Client) -> Result<()> {
    let made =
        client.transact(Some(("/g/a", 0)), &[], vec![put("/g/a", b"1"), put("/g/b", b"2")], Some("/g/"))?;
    ensure!(made.is_done && made.read.len() == 2, "creation: {made:?}");
    let is_of_one_revision =
        made.read.iter().all(|found| (found.created, found.modified) == (made.revision, made.revision));
    ensure!(is_of_one_revision, "not read at the revision of the puts: {made:?}");
    let again = client.transact(Some(("/g/a", 0)), &[], vec![put("/g/a", b"x")], Some("/g/"))?;
    ensure!(!again.is_done && again.read.is_empty(), "a guard that fails: {again:?}");
    ensure!(again.revision == made.revision, "a refused transaction has changed the store");

    let changed =
        client.transact(Some(("/g/a", made.revision)), &["/g/b"], vec![put("/g/a", b"3")], Some("/g/"))?;
    ensure!(changed.is_done && changed.read.len() == 1, "a guard that holds: {changed:?}");
    ensure!(changed.read[0].value == b"3" && changed.read[0].created == made.revision, "{changed:?}");
    let late = client.transact(Some(("/g/a", made.revision)), &["/g/a"], Vec::new(), None)?;
    ensure!(!late.is_done, "the guard has the revision of an older change");
    ensure!(client.read("/g/")? == changed.read, "what was read in the transaction is not what is there");
    println!("a guarded transaction deletes, puts and reads in one revision, or does nothing");
    Ok(())
}

fn contended(config: &StoreConfig) -> Result<()> {
    let mut clients = (0..4).map(|_| Client::connected(config)).collect::<Result<Vec<_>>>()?;
    for key in 0..20 {
        let name = format!("/c/{key}");
        let mut winners = 0;
        std::thread::scope(|scope| {
            let attempts = clients.iter_mut().map(|client| {
                let name = &name;
                scope.spawn(move || client.transact(Some((name, 0)), &[], vec![put(name, b"mine")], None))
            });
            for attempt in attempts.collect::<Vec<_>>() {
                winners += usize::from(attempt.join().expect("no panic")?.is_done);
            }
            anyhow::Ok(())
        })?;
        ensure!(winners == 1, "{winners} of 4 clients have created {name}");
    }
    println!("of four clients that create the same key at once, one does, 20 times");
    Ok(())
}

fn refused(client: &mut Client) -> Result<()> {
    let no_lease = ("/r/a".to_owned(), Vec::new(), Some(0x1234_5678));
    let reason = client.refused(transaction(None, &[], vec![put("/r/b", b""), no_lease], None))?;
    ensure!(reason.contains("lease not found"), "{reason}");
    let many = (0..129).map(|number| put(&format!("/r/{number}"), b"")).collect();
    let reason = client.refused(transaction(None, &[], many, None))?;
    ensure!(reason.contains("too many operations"), "{reason}");
    let large = (0..4).map(|number| put(&format!("/r/{number}"), &[0; 400_000])).collect();
    let reason = client.refused(transaction(None, &[], large, None))?;
    ensure!(reason.contains("too large"), "{reason}");
    ensure!(client.read("/r/")?.is_empty(), "something of it was executed");
    println!("a lease that is not there, 129 puts and 1.6 MB are refused, and leave nothing");
    Ok(())
}

fn expiring(client: &mut Client) -> Result<()> {
    println!("the shortest lease is of {} s", client.grant(1)?.1);
    let (lease, ttl_s) = client.grant(TTL_S)?;
    let puts = ["/l/a", "/l/b"].map(|key| (key.to_owned(), b"leased".to_vec(), Some(lease)));
    let made = client.transact(None, &[], puts.to_vec(), None)?;
    client.watch("/l/", made.revision)?;
    let after = client.put("/l/c", b"for ever")?;
    ensure!(client.keep_alive(lease)? == ttl_s, "the lease is there");
    let seen = (0..5).map(|_| client.change()).collect::<Result<Vec<_>>>()?;
    let words: Vec<_> = seen.iter().map(word).collect();
    ensure!(words[2] == ("put", "/l/c", after), "{words:?}");
    ensure!(words[..2].iter().all(|word| word.0 == "put" && word.2 == made.revision), "{words:?}");
    ensure!(words[3..].iter().all(|word| word.0 == "delete" && word.2 > after), "{words:?}");
    ensure!(client.keep_alive(lease)? == 0 && client.keep_alive(lease)? == 0, "the lease has expired");
    ensure!(client.read("/l/")?.len() == 1, "only the key without a lease is left");
    ensure!(client.answer(Call::Revoke { lease })? == StoreAnswer::Revoked, "it has ended anyway");
    println!("a lease that expires removes its keys, its watch says so in order, and its time to live is 0");
    Ok(())
}

fn kept_alive(client: &mut Client) -> Result<()> {
    let (lease, ttl_s) = client.grant(TTL_S)?;
    client.transact(None, &[], vec![("/k/a".into(), Vec::new(), Some(lease))], None)?;
    let begun = Instant::now();
    while begun.elapsed().as_secs() < 2 * u64::from(ttl_s) {
        ensure!(client.keep_alive(lease)? == ttl_s, "it is kept alive");
        std::thread::sleep(Duration::from_millis(100));
    }
    ensure!(client.read("/k/")?.len() == 1, "the key is there after twice its time to live");
    ensure!(client.answer(Call::Revoke { lease })? == StoreAnswer::Revoked, "revoked");
    ensure!(client.read("/k/")?.is_empty() && client.keep_alive(lease)? == 0, "it has ended with its key");
    println!("a lease that is kept alive outlives its time to live, and ends when it is revoked");
    Ok(())
}

fn watched_from_the_beginning(client: &mut Client) -> Result<()> {
    let first = client.put("/w/0", b"0")?;
    for number in 1..300 {
        client.put(&format!("/w/{}", number % 7), number.to_string().as_bytes())?;
    }
    client.watch("/w/", first)?;
    for number in 300..320 {
        client.put(&format!("/w/{}", number % 7), number.to_string().as_bytes())?;
    }
    let mut last = 0;
    for number in 0..320 {
        let StoreChange::Put(found) = client.change()? else { bail!("nothing was removed") };
        ensure!(found.value == number.to_string().as_bytes(), "change {number} is {found:?}");
        ensure!(found.modified > last, "revision {} after {last}", found.modified);
        last = found.modified;
    }
    println!("a watch from an older revision has all 320 changes in order, and goes on");
    Ok(())
}

fn forgotten(client: &mut Client) -> Result<()> {
    let revision = client.put("/f/a", b"1")?;
    client.put("/f/a", b"2")?;
    let newest = client.put("/f/a", b"3")?;
    have_done(&format!("compact {newest}"))?;
    match client.end(Call::Watch { prefix: "/f/".into(), from: revision })? {
        // Its answer may have been that it has begun.
        End::Answered(StoreAnswer::Watching) => while client.is_connected && client.next()?.is_none() {},
        End::Answered(other) => bail!("a watch of what is forgotten was answered by {other:?}"),
        End::Lost(_) => {}
    }
    ensure!(client.last_loss.contains("forgotten"), "{}", client.last_loss);
    client.connect()?;
    client.watch("/f/", newest + 1)?;
    println!("a watch of changes that the store has forgotten ends: {}", client.last_loss);
    Ok(())
}

fn word(change: &StoreChange) -> (&'static str, &str, u64) {
    match change {
        StoreChange::Put(found) => ("put", &found.key, found.modified),
        StoreChange::Delete { key, revision } => ("delete", key, *revision),
    }
}
