//! Gateways that are killed and start again, by the packets that they send: with the state file no
//! sequence number and no IV comes twice.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use convoy_assembly::assemble;
use convoy_config::Config;
use convoy_dataplane::pipeline::Clock;
use convoy_packet::IpHeader;
use convoy_scheduler::{CostModel, Input};
use convoy_state::{Started, Starts, State};

/// A clock that was never set, as at each start of a machine without a battery.
const BOOT_NS: u64 = 1_000_000_000;

const CONFIG: &str = "\
[[tunnel]]
name = \"site-b\"
local = \"192.0.2.1\"
remote = \"192.0.2.2\"
local_ts = [\"10.1.0.0/24\"]
remote_ts = [\"10.2.0.0/24\"]
esp_proposal = \"aes128gcm16\"
[tunnel.manual]
spi_in = 4097
spi_out = 4096
key_in = \"00112233445566778899aabbccddeeff00112233\"
key_out = \"ffeeddccbbaa99887766554433221100ffeeddcc\"
";

/// Sequence numbers and IVs of the packets that a gateway with this configuration sends.
fn sends(config: &Config, starts: &Starts, packets: usize) -> Vec<(u32, [u8; 8])> {
    let mut costs = assemble::costs();
    costs.set_fixed("software0", CostModel { t_init: 1_000.0, t_block: 10.0 });
    let engines = assemble::engines(config, &mut costs).expect("software").remove(0);
    let (mut pipeline, _) =
        assemble::pipeline(config, 0, engines, &costs, Clock::start(), starts).expect("assembled");
    let mut plain = [0; 60];
    IpHeader::new(253, "10.1.0.1".parse().expect("an address"), "10.2.0.1".parse().expect("an address"))
        .write(&mut plain);
    let mut seen = Vec::new();
    while seen.len() < packets {
        let mut burst: Vec<_> =
            (0..8).map(|_| pipeline.pool_mut().take_filled(&plain, 0).expect("a frame")).collect();
        pipeline.outbound(&mut burst);
        while !pipeline.is_empty() {
            pipeline.pump(Input::Ended);
        }
        let (pool, departures) = pipeline.pool_and_departures();
        // ESP in UDP over IPv4: headers of 20 and 8 bytes, then SPI, sequence number and IV.
        seen.extend(departures.to_outside.iter().map(|frame| {
            let number: [u8; 4] = frame[32..36].try_into().expect("4 bytes");
            (u32::from_be_bytes(number), frame[36..44].try_into().expect("8 bytes"))
        }));
        pool.give_back_burst(&mut departures.to_outside);
        assert!(pipeline.ipsec().counters().drops.total() == 0, "{:?}", pipeline.ipsec().counters().drops);
    }
    seen
}

fn repeated<T: Ord>(all: impl IntoIterator<Item = T>) -> usize {
    let all: Vec<T> = all.into_iter().collect();
    let count = all.len();
    count - all.into_iter().collect::<BTreeSet<T>>().len()
}

#[test]
fn a_clock_that_begins_at_the_same_instant_at_each_start_repeats_no_number_and_no_iv() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    let text = format!("[gateway]\nstate = \"{}\"\n{CONFIG}", path.display());
    let config = Config::parse("test.toml", &text).expect("good");
    let quiet: convoy_process::Notify = Arc::new(|_| ());
    let mut all = Vec::new();
    for _ in 0..3 {
        // The gateway is killed each time, so it reports nothing at its end.
        let state = State::open(&config, &quiet).expect("usable").expect("static keys");
        let starts = state.start_at(&config.tunnels, &config.tunnels, BOOT_NS).expect("begun");
        all.extend(sends(&config, &starts, 200));
    }
    assert_eq!(repeated(all.iter().map(|(number, _)| *number)), 0);
    assert_eq!(repeated(all.iter().map(|(_, iv)| *iv)), 0);
    assert!(all.is_sorted(), "a peer takes them all");

    let fresh = || Starts::Kept(HashMap::from([("site-b".to_owned(), vec![Started::unlimited(BOOT_NS)])]));
    let without = [sends(&config, &fresh(), 200), sends(&config, &fresh(), 200)].concat();
    assert_eq!(repeated(without.iter().map(|(_, iv)| *iv)), 200, "what the file is there for");
}
