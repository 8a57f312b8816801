use super::*;
use crate::path::SaCursor;

#[test]
fn a_walk_over_sas_sees_each_that_stays_once_whatever_comes_and_goes_meanwhile() {
    const SAS: u32 = 100;
    const MOST: u32 = 7;
    let link = Link::default();
    let mut a = Gateway::new(IpsecConfig::default());
    let mut installed = Vec::new();
    for sa in 0..SAS {
        for direction in [SaDirection::Outbound, SaDirection::Inbound] {
            let spi = 0x1000 + sa;
            installed.push((spi, a.install(SaConfig { spi, ..link.sa(0, direction) })));
        }
    }
    let (mut seen, mut steps, mut gone) = (Vec::new(), 0, Vec::new());
    let mut cursor = Some(SaCursor::default());
    while let Some(at) = cursor {
        let before = seen.len();
        cursor = a.ipsec.tables.walk_sas(at, MOST, &mut |view| seen.push((view.name.spi, view.index)));
        assert!(seen.len() - before <= MOST as usize);
        // One goes, which the walk has passed or not, and another comes, perhaps to its place.
        let (spi, index) = installed[(steps * 53) % installed.len()];
        if !gone.contains(&index) {
            a.ipsec.remove(index);
            gone.push(index);
            a.install(SaConfig { spi: spi + 0x1000, ..link.sa(0, SaDirection::Outbound) });
        }
        steps += 1;
    }
    assert!(steps >= 2 * (SAS / MOST) as usize, "{steps} steps");
    let stayed = installed.iter().filter(|(_, index)| !gone.contains(index));
    for sa in stayed {
        assert_eq!(seen.iter().filter(|seen| *seen == sa).count(), 1, "{sa:?}");
    }
    let mut indices: Vec<u32> = seen.iter().map(|(_, index)| index.0).collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), seen.len(), "no place was seen twice");
}
