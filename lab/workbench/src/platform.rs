//! Platforms with engines to choose among, on any machine.

use std::fmt::Write as _;

use convoy_config::{Basis, Config};
use convoy_dataplane::costs::Costs;
use convoy_engine::{EngineDescription, IdleEngine, Multibuffer, Software};
use convoy_ipsec::{Proposal, Transform};
use convoy_scheduler::CostModel;
use serde::Serialize;

use super::DemoError;
use super::sites::TUNNELS;

/// CBC with a long HMAC: expensive enough for the choice of engine to matter, and several times
/// cheaper per packet in bursts.
const CHAINED: &str = "aes256-sha512";
/// The mode where rules are compared.
const TUNNEL_MODE: &str = "tunnel";
/// Modelled accelerators, and their time per block relative to `software` on this processor. The
/// thread that keeps their time also computes their ciphers, so both together must fit on one core:
/// ipsec-mb needs a fifth of the time of `software`.
const FAST_MODELS: [(&str, f64); 2] = [("model-a", 0.4), ("model-b", 0.6)];
/// The modelled accelerators without ipsec-mb, where `software` computes their ciphers.
const SLOW_MODELS: [(&str, f64); 2] = [("model-a", 2.0), ("model-b", 4.0)];
/// Setup time of a modelled accelerator beyond that of the processor, in ns: it makes the processor
/// the better choice for single packets.
const MODEL_INIT_NS: f64 = 3_000.0;
/// A 64-bit PCI-X bus at 133 MHz. With 32 bits at 66 MHz, as in the paper, the bus would be the
/// bottleneck, and every policy that fills it would carry the same.
const BUS: &str = "\n[[bus]]\nname = \"pci-x\"\nclock_mhz = 133.0\naddress_cycles = 1\nwidth_bytes = 8\n";
/// Blocks per packet for comparing costs: the mean of the IMIX.
const MEAN_BLOCKS: f64 = 24.0;

/// Cost of an engine, as given to the scheduler at the start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoEngine {
    /// Its name.
    pub name: String,
    /// Whether it is a model with a configured cost; otherwise the cost was measured.
    pub is_model: bool,
    /// Time per multi-packet, in ns.
    pub t_init_ns: f64,
    /// Time per block of 16 bytes, in ns.
    pub t_block_ns: f64,
    /// Time of a single packet of 384 bytes, relative to the measured time of `software` on this
    /// processor.
    pub of_cpu: f64,
}

/// So many tunnels between the gateways, with this ESP proposal.
#[derive(Clone, Copy, Debug)]
pub struct TunnelSet {
    /// The proposal.
    pub proposal: &'static str,
    /// The number of tunnels.
    pub tunnels: usize,
}

/// The engines of a trial, as in a configuration.
#[derive(Clone, Debug)]
pub struct Platform {
    /// Description in one line.
    pub about: String,
    /// Name in a few words.
    pub name: &'static str,
    /// Mode of the tunnels, as in a configuration.
    pub mode: &'static str,
    /// The ESP proposal.
    pub proposal: &'static str,
    /// Tunnels between the gateways, each with one SA per direction.
    pub tunnels: usize,
    /// Costs of the engines, where rules are compared.
    pub engines: Vec<DemoEngine>,
    /// Engine tables of the gateway under test; without any, it chooses by itself.
    pub(crate) site: String,
    /// Engine tables of its peer.
    pub(crate) peer: String,
}

/// Measured costs of this machine's engines.
struct MachineCosts {
    software: CostModel,
    multibuffer: Option<CostModel>,
    cores: usize,
}

impl MachineCosts {
    fn new(costs: &mut Costs) -> Self {
        let transform = transform();
        let mut cost =
            |mut engine: IdleEngine| costs.of_engine(&mut engine, transform).ok().map(|cost| cost.model);
        let software = cost(IdleEngine::new(Software::new("software")))
            .unwrap_or(CostModel { t_init: 1e3, t_block: 1e2 });
        let multibuffer =
            Multibuffer::inline("multibuffer").ok().and_then(|engine| cost(IdleEngine::new(engine)));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { software, multibuffer, cores }
    }

    fn has_multibuffer(&self) -> bool {
        self.multibuffer.is_some()
    }

    fn engine(&self, name: &str, is_model: bool, cost: CostModel) -> DemoEngine {
        let of_packet = |cost: CostModel| cost.t_init + cost.t_block * MEAN_BLOCKS;
        DemoEngine {
            name: name.to_owned(),
            is_model,
            t_init_ns: cost.t_init,
            t_block_ns: cost.t_block,
            of_cpu: of_packet(cost) / of_packet(self.software),
        }
    }

    fn software(&self) -> DemoEngine {
        self.engine("software", false, self.software)
    }

    fn multibuffer(&self) -> Option<DemoEngine> {
        self.multibuffer.map(|cost| self.engine("multibuffer", false, cost))
    }

    fn models(&self) -> Vec<DemoEngine> {
        let CostModel { t_init, t_block } = self.software;
        let model = |(name, times): (&str, f64)| {
            let cost = CostModel { t_init: t_init * times + MODEL_INIT_NS, t_block: t_block * times };
            self.engine(name, true, cost)
        };
        let models = if self.has_multibuffer() { FAST_MODELS } else { SLOW_MODELS };
        models.into_iter().map(model).collect()
    }

    fn peer(&self) -> String {
        let kind = if self.has_multibuffer() { "multibuffer" } else { "software" };
        engine(kind, "peer", "")
    }
}

fn transform() -> Transform {
    CHAINED.parse::<Proposal>().expect("it is one").transform
}

fn engine(kind: &str, name: &str, more: &str) -> String {
    format!("\n[[engine]]\nkind = \"{kind}\"\nname = \"{name}\"\n{more}")
}

fn models_text(models: &[DemoEngine]) -> String {
    let mut text = BUS.to_owned();
    for model in models {
        let t_init_us = model.t_init_ns / 1000.0;
        let more =
            format!("bus = \"pci-x\"\nt_init_us = {t_init_us:.4}\nt_block_ns = {:.4}\n", model.t_block_ns);
        text += &engine("model", &model.name, &more);
    }
    text
}

impl Platform {
    /// All engines of this machine, and modelled accelerators.
    pub fn all(costs: &mut Costs) -> Self {
        let here = MachineCosts::new(costs);
        let mut site = String::new();
        if here.has_multibuffer() {
            // On two cores, the gateways and the modelled bus occupy both; a third busy thread
            // would only slow them down.
            let core = if here.cores > 2 { format!("core = {}\n", here.cores - 1) } else { String::new() };
            site += &engine("multibuffer", "multibuffer", &core);
        }
        let models = here.models();
        site += &(engine("software", "software", "") + &models_text(&models));
        let engines = here.multibuffer().into_iter().chain([here.software()]).chain(models).collect();
        let about = "all engines of this machine, and two modelled accelerators on a PCI-X bus".to_owned();
        Self { about, name: "all engines", engines, site, ..Self::chained(&here) }
    }

    /// The processor as in the small-packets paper, and two unlike accelerators on a bus; available
    /// on every machine.
    pub fn accelerators(costs: &mut Costs) -> Self {
        let here = MachineCosts::new(costs);
        let models = here.models();
        let site = engine("software", "software", "") + &models_text(&models);
        let engines = [here.software()].into_iter().chain(models).collect();
        let about = "the processor (software) and two unlike modelled accelerators on a PCI-X bus".to_owned();
        Self { about, name: "accelerators", engines, site, ..Self::chained(&here) }
    }

    /// Two real engines: a slow one on the gateway's thread, and one on a core of its own that is
    /// fast but needs bursts. `None` without ipsec-mb or a second core.
    pub fn own_core(costs: &mut Costs) -> Option<Self> {
        let here = MachineCosts::new(costs);
        let multibuffer = here.multibuffer().filter(|_| here.cores > 1)?;
        let mut site = engine("software", "software", "");
        let core = here.cores - 1;
        let _ = write!(site, "{}", engine("multibuffer", "multibuffer", &format!("core = {core}\n")));
        let about = "software in the gateway's thread, multibuffer on a core of its own".to_owned();
        let engines = vec![here.software(), multibuffer];
        Some(Self { about, name: "crypto core", engines, site, ..Self::chained(&here) })
    }

    /// No engines beside this machine's peer, and the proposal where rules are compared.
    fn chained(here: &MachineCosts) -> Self {
        Self {
            proposal: CHAINED,
            peer: here.peer(),
            ..Self::plain(String::new(), TUNNEL_MODE, String::new())
        }
    }

    /// A platform from `[[engine]]` tables of the gateway (`site`) and of its peer.
    ///
    /// # Errors
    /// [`DemoError::Platform`] says what is wrong with the tables.
    pub fn of(
        about: &str,
        TunnelSet { proposal, tunnels }: TunnelSet,
        site: &str,
        peer: &str,
        costs: &mut Costs,
    ) -> Result<Self, DemoError> {
        let wrong = |error: String| DemoError::Platform(error);
        let config = Config::parse_at("engines.toml", site, &Basis::of(&convoy_devices::KINDS))
            .map_err(|error| wrong(error.to_string()))?;
        let transform = proposal.parse::<Proposal>().map_err(|error| wrong(error.to_string()))?.transform;
        let here = MachineCosts::new(costs);
        let mut engines = Vec::new();
        for engine in convoy_assembly::assemble::engines(&config, costs)?.into_iter().flatten() {
            let EngineDescription { name, is_model, .. } = engine.description().clone();
            let cost =
                IdleEngine::from(engine).calibrate(transform).map_err(|error| wrong(error.to_string()))?;
            engines.push(here.engine(&name, is_model, cost.model));
        }
        let (about, site, peer) = (about.to_owned(), site.to_owned(), peer.to_owned());
        Ok(Self { about, name: "given engines", mode: TUNNEL_MODE, proposal, tunnels, engines, site, peer })
    }

    /// Two gateways with the engines that they choose by themselves.
    pub(crate) fn chosen(mode: &'static str) -> Self {
        let about = "the engines that a gateway chooses automatically".to_owned();
        Self::plain(about, mode, String::new())
    }

    /// The GRIP card's RTL simulated by Verilator, as the only engine at both ends.
    #[cfg(feature = "card")]
    pub fn card() -> Self {
        Self::plain("the verilated card".to_owned(), TUNNEL_MODE, engine("card", "card-model", ""))
    }

    /// The same engines at both ends, and AES-GCM.
    fn plain(about: String, mode: &'static str, site: String) -> Self {
        let peer = site.clone();
        let (name, proposal, engines) = ("one choice", "aes128gcm16", Vec::new());
        Self { about, name, mode, proposal, tunnels: TUNNELS, engines, site, peer }
    }
}

#[cfg(test)]
mod tests {
    use convoy_assembly::assemble;
    use convoy_devices::model::ModelSettings;

    use super::*;
    use crate::rule::Rule;
    use crate::sites::both;

    #[test]
    fn every_platform_is_a_good_configuration_and_its_models_cost_what_they_say() {
        let mut costs = assemble::costs();
        let platforms = [Some(Platform::all(&mut costs)), Some(Platform::accelerators(&mut costs))];
        for platform in platforms.into_iter().chain([Platform::own_core(&mut costs)]).flatten() {
            let [site, _] = both(Rule::SKIP, 32, &platform);
            assert_eq!(site.engines.len(), platform.engines.len(), "{}", platform.about);
            for (engine, cost) in site.engines.iter().zip(&platform.engines) {
                assert_eq!(engine.name, cost.name);
                assert_eq!(engine.settings.kind().traits().is_model, cost.is_model);
                if let Some(model) = engine.settings.of::<ModelSettings>() {
                    assert!((model.t_block_ns - cost.t_block_ns).abs() < 0.001);
                    assert!((model.t_init_ns - cost.t_init_ns).abs() < 1.0);
                    assert!(cost.of_cpu > 0.0);
                }
            }
        }
    }

    #[cfg(feature = "dpdk")]
    #[test]
    fn a_device_of_dpdk_that_fails_half_way_loses_and_doubles_nothing() {
        use crate::trial::run_trial;
        use crate::{Load, Trial, imix};

        let engines = |devices: &[(&str, &str)]| {
            let more = |device: &str| format!("device = \"{device}\"\n");
            devices.iter().map(|(name, device)| engine("cryptodev", name, &more(device))).collect::<String>()
        };
        let site = engines(&[("dpdk-a", "crypto_aesni_mb_a"), ("dpdk-b", "crypto_openssl_b")]);
        let site = site + &engine("software", "software", "");
        let mut costs = Costs::without_cache();
        let tunnels = TunnelSet { proposal: "aes128-sha1", tunnels: 8 };
        let platform = Platform::of(
            "devices of DPDK's",
            tunnels,
            &site,
            &engines(&[("peer", "crypto_aesni_mb_p")]),
            &mut costs,
        );
        let platform = platform.expect("software devices are everywhere");
        let rule = Rule::rival(convoy_rivals::by_name("round-robin").expect("a baseline"));
        // It fails at its 2,000th multi-packet, which is its 2,000th packet with a window of 1.
        let (window, load, fail) = (1, Load::Saturating, Some("dpdk-a"));
        let mut run = |seconds| {
            let length = std::time::Duration::from_secs(seconds);
            let trial = Trial { platform: &platform, rule, window, load, length, fail };
            run_trial(&trial, &imix(1), &mut costs, &mut |_| {}).expect("memory does not fail")
        };
        let mut report = run(6);
        if !report.events.iter().any(|event| event.contains("dpdk-a")) {
            // A busy machine needs longer for so many.
            report = run(60);
        }
        assert!(report.is_perfect && report.sent > 0, "{report:?}");
        assert!(report.engines.iter().all(|engine| engine.share > 0.0), "{report:?}");
        assert!(report.events.iter().any(|event| event.contains("dpdk-a")), "{:?}", report.events);
    }
}
