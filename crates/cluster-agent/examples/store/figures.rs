//! How fast it is on this machine.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use convoy_cluster::seal::ClusterKey;
use convoy_cluster_agent::etcd::StoreConfig;

use crate::client::{Client, put};

const RECORDS: usize = 10_000;
const BATCH: usize = 100;

pub(crate) fn print(config: &StoreConfig, folder: &Path) -> Result<()> {
    let key = ClusterKey::read(&folder.join("cluster.key"))?;
    let mut client = Client::connected(config)?;
    let mut times: Vec<_> = (0..200)
        .map(|number| {
            let begun = Instant::now();
            client.put("/one", &[number; 100])?;
            Ok(begun.elapsed())
        })
        .collect::<Result<_>>()?;
    times.sort();
    println!("one put: median {:?}, 99th percentile {:?}", times[100], times[198]);

    let begun = Instant::now();
    for batch in 0..100 {
        client.transact(
            None,
            &[],
            (0..128).map(|mark| put(&format!("/marks/{mark}"), &[batch; 24])).collect(),
            None,
        )?;
    }
    println!("transactions of 128 puts, one after the other: {:.0}/s", 100.0 / begun.elapsed().as_secs_f64());

    for batch in 0..RECORDS / BATCH {
        let names = (batch * BATCH..(batch + 1) * BATCH).map(|number| format!("/records/{number:016x}"));
        let puts = names.map(|name| {
            let sealed = key.seal(&name, name.repeat(16).as_bytes());
            (name, sealed, None)
        });
        client.transact(None, &[], puts.collect(), None)?;
    }
    let begun = Instant::now();
    let found = client.read("/records/")?;
    let read = begun.elapsed();
    ensure!(found.len() == RECORDS, "{} records", found.len());
    for record in &found {
        let opened = key.open(&record.key, &record.value)?;
        ensure!(opened.starts_with(record.key.as_bytes()), "another record was opened");
    }
    let length = found[0].value.len();
    println!(
        "{RECORDS} sealed records of {length} bytes: read in {read:?}, opened in {:?}",
        begun.elapsed() - read
    );
    Ok(())
}
