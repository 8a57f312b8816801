//! Converts a capture to the packets that the gateway's scheduler would see.

use std::collections::HashMap;
use std::path::Path;

use convoy_assembly::assemble;
use convoy_capture::Unread;
use convoy_config::{Config, EngineConfig, ManualKeys};
use convoy_dataplane::pipeline::{Clock, Pipeline};
use convoy_engine::ENGINES;
use convoy_ipsec::{CryptoStatus, KeyMaterial, OutboundBurst, Transform};
use convoy_packet::Frame;
use convoy_port::{Pcap, Port};
use convoy_sim::Packet;
use convoy_state::Starts;
use rand::Rng;

use super::PlanError;

/// Packets read at a time.
const BURST: usize = 64;
/// Packets kept for measurements: more than caches hold.
const SAMPLE: usize = 20_000;

/// Packets with their SAs, and statistics of the conversion.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In order. Payload lengths are the bytes to encrypt, so platforms must not add headers to
    /// them.
    pub packets: Vec<Packet>,
    /// Packets that no policy protects, or that were dropped.
    pub unprotected: u64,
    /// Unusable packets of the capture, by reason.
    pub unreadable: Unread,
    /// Where the capture is truncated or damaged, if it is; the rest was not read.
    pub damage: Option<String>,
    /// Bytes encrypted under each transform.
    pub transforms: HashMap<Transform, u64>,
    /// The first packets as captured, for measurements.
    pub(super) sample: Vec<Vec<u8>>,
}

impl Trace {
    /// Passes up to `limit` packets of a capture through the policies and SAs of a configuration.
    /// Tunnels without manual keys get temporary ones.
    ///
    /// # Errors
    /// [`PlanError`] if the capture cannot be read, or if no policy protects any of it.
    pub fn read(config: &Config, capture: &Path, limit: usize) -> Result<Self, PlanError> {
        let config = with_keys(config);
        let mut pipeline = pipeline(&config)?;
        // Only lengths and addresses matter, so packets truncated by the snap length are usable.
        let mut port = Pcap::open("the capture", Some(capture), None)?.filling_up_truncated();
        let (mut trace, mut read) = (Self::default(), 0);
        let mut frames: Vec<Frame> = Vec::with_capacity(BURST);
        while trace.packets.len() < limit {
            let count =
                port.receive(pipeline.pool_mut(), BURST.min(limit - trace.packets.len()), &mut frames)?;
            if count == 0 {
                break;
            }
            read += count as u64;
            let left = SAMPLE.saturating_sub(trace.sample.len());
            trace.sample.extend(frames.iter().take(left).map(|frame| frame.to_vec()));
            trace.take(&mut pipeline, &mut frames);
        }
        let protected = trace.packets.len() as u64;
        if protected == 0 {
            return Err(PlanError::Unprotected(capture.display().to_string(), read));
        }
        trace.unprotected = read.saturating_sub(protected);
        trace.unreadable = port.unread();
        trace.damage = port.damage().map(ToString::to_string);
        Ok(trace)
    }

    fn take(&mut self, pipeline: &mut Pipeline, frames: &mut Vec<Frame>) {
        let now_ns = pipeline.clock().now_ns();
        let mut random = |bytes: &mut [u8]| rand::rng().fill_bytes(bytes);
        let (ipsec, pool) = pipeline.ipsec_and_pool();
        let mut out = OutboundBurst::default();
        ipsec.outbound.classify(&mut ipsec.tables, now_ns, &mut random, pool, frames, &mut out);
        ipsec.tables.lay_out(now_ns, &mut out.protect, &mut random);
        for prepared in &mut out.protect {
            let bytes = u32::from(prepared.job.cipher_len.max(prepared.job.auth_len));
            self.packets.push(Packet {
                payload_bytes: bytes,
                sa: prepared.sa.0,
                class: prepared.class,
                gap_ticks: 0,
            });
            if prepared.status == CryptoStatus::Pending {
                prepared.status = CryptoStatus::Done;
            }
            if let Some(view) = ipsec.tables.sa(prepared.sa) {
                *self.transforms.entry(view.transform).or_default() += u64::from(bytes);
            }
        }
        let mut leaving = Vec::with_capacity(BURST);
        ipsec.outbound.finish(&mut ipsec.tables, pool, &mut out.protect, &mut leaving);
        for mut burst in [leaving, out.bypass, out.to_inside] {
            pool.give_back_burst(&mut burst);
        }
    }
}

/// A pipeline whose engine is never used.
fn pipeline(config: &Config) -> Result<Pipeline, PlanError> {
    let software = EngineConfig::plain(&ENGINES[0]);
    let config = Config { engines: vec![software], ..config.with_one_worker() };
    let mut costs = assemble::costs();
    let engines = assemble::engines(&config, &mut costs)?.pop().unwrap_or_default();
    Ok(assemble::pipeline(&config, 0, engines, &costs, Clock::start(), &Starts::Unlimited)?.0)
}

/// The configuration, with keys for every tunnel.
pub(super) fn with_keys(config: &Config) -> Config {
    let mut config = config.clone();
    for (at, tunnel) in config.tunnels.iter_mut().enumerate() {
        let transform = tunnel.proposal.transform;
        let len = transform.cipher_key_len() + transform.salt_len() + transform.integrity_key_len();
        let key = || {
            let mut bytes = vec![0; len];
            rand::rng().fill_bytes(&mut bytes);
            KeyMaterial::new(transform, bytes).ok()
        };
        // A high range, to avoid SPIs that operators use.
        let spi = 0xf000_0000 + 2 * at as u32;
        if !tunnel.has_static_keys()
            && let (Some(keys_in), Some(keys_out)) = (key(), key())
        {
            tunnel.manual = vec![ManualKeys { spi_in: spi, spi_out: spi + 1, keys_in, keys_out }];
        }
    }
    config
}
