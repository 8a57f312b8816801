//! A pipeline with tunnels between two sites, whose keys are known.

use convoy_engine::{Engine, Software};
use convoy_ipsec::{
    Action, Aead, Ipsec, IpsecConfig, KeyBits, KeyMaterial, Policy, PolicyDirection, SaConfig, SaDirection,
    Selector, Transform, TunnelId,
};
use convoy_packet::FramePool;
use convoy_scheduler::SchedulerConfig;

use crate::costs::Costs;
use crate::pipeline::{CryptoStage, EngineSet, Pipeline, PipelineResources, StageConfig};

/// The first tunnel's inbound SPI; those of the next tunnels follow.
pub(crate) const SPI_IN: u32 = 0x1000;
const SPI_OUT: u32 = 0x2000;
const TRANSFORM: Transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });

/// What a pipeline is made of. Tunnel n is between 10.1.n.0/24 and 10.2.n.0/24.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) tunnels: u8,
    pub(crate) worker: u16,
    pub(crate) scheduler: SchedulerConfig,
}

impl Default for Fixture {
    /// One tunnel, the only worker, and a scheduler that waits for no engine which is 200 us late.
    fn default() -> Self {
        let scheduler = SchedulerConfig { late_margin: Some(200_000), ..SchedulerConfig::default() };
        Self { tunnels: 1, worker: 0, scheduler }
    }
}

impl Fixture {
    /// Its pipeline, with the SAs that the worker serves.
    pub(crate) fn pipeline(
        &self,
        engines: Vec<Box<dyn Engine>>,
        costs: &Costs,
        resources: impl Into<PipelineResources>,
    ) -> Pipeline {
        let resources = resources.into();
        let config = StageConfig { window_ns: costs.window_ns(), ..StageConfig::new(self.scheduler.clone()) };
        let stage = CryptoStage::new(config, EngineSet::new(engines), resources.clock.clone());
        let settings = IpsecConfig { worker: self.worker, ..IpsecConfig::default() };
        let ipsec = Ipsec::among(settings, resources.directory.clone());
        let (small, jumbo, huge) = resources.frames;
        let pool = FramePool::in_region(small, jumbo, huge).expect("packet memory");
        let mut pipeline = Pipeline::new(ipsec, stage.expect("in range"), pool, resources);
        let models = costs.models();
        let served = (0..self.tunnels).filter(|at| pipeline.ipsec().tables.serves(TunnelId((*at).into())));
        for at in served.collect::<Vec<_>>() {
            for sa in sas(at) {
                let cost = &|engine: &_, transform| models.of(engine, transform);
                pipeline.install(&sa, cost).expect("an engine does it");
            }
        }
        pipeline.ipsec_mut().set_policies((0..self.tunnels).map(policy).collect());
        pipeline
    }

    /// Its pipeline with software as its one engine.
    pub(crate) fn of_software(&self, resources: impl Into<PipelineResources>) -> Pipeline {
        self.pipeline(vec![Box::new(Software::new("software"))], &Costs::without_cache(), resources)
    }
}

fn sas(tunnel: u8) -> [SaConfig; 2] {
    let [ours, peers] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(Into::into);
    [(SaDirection::Inbound, SPI_IN, 1), (SaDirection::Outbound, SPI_OUT, 101)].map(|(direction, spi, key)| {
        let keys = KeyMaterial::new(TRANSFORM, vec![tunnel + key; 20]).expect("16 bytes of key, 4 of salt");
        let sa = SaConfig::new(spi + u32::from(tunnel), direction, ours, peers, keys);
        SaConfig { tunnel: TunnelId(tunnel.into()), ..sa }
    })
}

fn policy(tunnel: u8) -> Policy {
    let network = |site: u8| format!("10.{site}.{tunnel}.0/24").parse().expect("well-formed");
    Policy {
        name: format!("t{tunnel}"),
        priority: 1,
        direction: PolicyDirection::Both,
        interface: 0,
        selector: Selector { local: network(1), remote: network(2) },
        action: Action::Protect(TunnelId(tunnel.into())),
    }
}
