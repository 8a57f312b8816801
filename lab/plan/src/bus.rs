//! Converts a configuration's buses to the simulator's.

use convoy_config::BusConfig;
use convoy_sim::BusSpec;

pub(super) fn spec(name: String, bus: &BusConfig) -> BusSpec {
    BusSpec {
        name,
        clock_mhz: bus.clock_mhz,
        address_cycles: bus.address_cycles,
        width_bytes: bus.width_bytes,
        packet_bytes: bus.packet_bytes,
    }
}

#[cfg(test)]
mod tests {
    use convoy_config::{Basis, Config};
    use convoy_sim::Platform;

    use super::*;

    const SITE: &str = include_str!("../../../examples/site-a.toml");

    #[test]
    fn a_bus_is_written_as_in_the_simulators_platforms() {
        for text in [
            include_str!("../../../platforms/grip.toml"),
            include_str!("../../../platforms/pci-accelerators.toml"),
        ] {
            let platform = Platform::from_toml("platform.toml", text).expect("good");
            let start = text.find("[[bus]]").expect("a bus");
            let bus = &text[start..start + text[start..].find("[[processor]]").expect("it ends")];
            let engine = "[[engine]]\nkind = \"model\"\nname = \"far\"\nbus = \"pci\"\n";
            let config = Config::parse_at(
                "site-a.toml",
                &format!("{SITE}{bus}{engine}"),
                &Basis::of(&convoy_devices::KINDS),
            )
            .expect("good");
            assert_eq!(spec("pci".to_owned(), &config.buses["pci"]), platform.buses[0]);
        }
    }
}
