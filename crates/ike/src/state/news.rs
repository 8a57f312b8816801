//! What the gateway tells its operator of charon's tunnels.
//!
//! An SA is reported once its tunnel's name is known, which charon sends when both SAs of a pair
//! are installed.

use convoy_ipsec::{SaDirection, SaNumber, TunnelId};

use super::CharonState;
use super::backend::{ChildChange, ChildNews, ChildSa, SaBackend};
use super::sas::CharonSa;
use crate::protocol::WireSaId;

/// An SA that has got other ends.
pub(super) struct Moved {
    pub(super) tunnel: TunnelId,
    pub(super) direction: SaDirection,
    pub(super) old: WireSaId,
    pub(super) new: WireSaId,
}

impl CharonState {
    fn installed(&self, number: &SaNumber) -> Option<&CharonSa> {
        self.sas.get(self.by_number.get(number)?)
    }

    /// The outbound SAs of a tunnel.
    fn ways_out(&self, tunnel: TunnelId) -> impl Iterator<Item = &CharonSa> {
        let numbers = self.tunnels.get(tunnel).map_or(&[][..], |tunnel| tunnel.sas(SaDirection::Outbound));
        numbers.iter().filter_map(|number| self.installed(number))
    }

    /// Tells of the outbound SAs of a tunnel that have come since the last call.
    pub(super) fn tell_come(&mut self, tunnel: TunnelId, backend: &mut dyn SaBackend) {
        let unreported: Vec<SaNumber> =
            self.ways_out(tunnel).filter(|sa| !sa.is_reported).map(|sa| sa.number).collect();
        for number in unreported {
            let Some(sa) = self.installed(&number) else { continue };
            let is_other =
                self.ways_out(tunnel).any(|other| other.is_reported && other.resource == sa.resource);
            let came = self.child_sa(sa);
            let what = if is_other { ChildChange::Rekeyed(came) } else { ChildChange::Up(came) };
            self.tell(tunnel, what, backend);
            let key = self.by_number.get(&number);
            if let Some(sa) = key.and_then(|key| self.sas.get_mut(key)) {
                sa.is_reported = true;
            }
        }
    }

    fn child_sa(&self, sa: &CharonSa) -> ChildSa {
        ChildSa {
            spi_out: sa.id.spi,
            spi_in: self.newest_spi_in(sa.tunnel),
            peer: sa.id.destination,
            is_encapsulated: sa.is_encapsulated,
            transform: sa.transform,
        }
    }

    fn newest_spi_in(&self, tunnel: TunnelId) -> Option<u32> {
        let newest = self.tunnels.get(tunnel)?.sas(SaDirection::Inbound).last()?;
        Some(self.installed(newest)?.id.spi)
    }

    /// Tells that a tunnel, or one of its resources, has no outbound SA any more, if this one,
    /// which is removed, was the last.
    pub(super) fn tell_gone(&self, gone: &CharonSa, backend: &mut dyn SaBackend) {
        let is_way_out = gone.direction == SaDirection::Outbound && gone.is_reported;
        let is_last = || !self.ways_out(gone.tunnel).any(|other| other.resource == gone.resource);
        if is_way_out && is_last() && !self.is_succeeded(gone.tunnel) {
            self.tell(gone.tunnel, ChildChange::Down(self.child_sa(gone)), backend);
        }
    }

    /// Whether a tunnel of a former charon has SAs under its name by the present one.
    fn is_succeeded(&self, tunnel: TunnelId) -> bool {
        let Some(former) = self.tunnels.get(tunnel).filter(|tunnel| tunnel.reqid.session != self.session)
        else {
            return false;
        };
        self.tunnels.all().any(|tunnel| {
            tunnel.reqid.session == self.session
                && tunnel.name == former.name
                && !tunnel.outbound_sas.is_empty()
        })
    }

    /// Tells that packets go to another address or port of the peer's.
    pub(super) fn tell_moved(&self, moved: &Moved, backend: &mut dyn SaBackend) {
        let (old, new) = (moved.old.destination, moved.new.destination);
        if moved.direction == SaDirection::Outbound && old != new {
            self.tell(moved.tunnel, ChildChange::Moved { old, new }, backend);
        }
    }

    fn tell(&self, tunnel: TunnelId, what: ChildChange, backend: &mut dyn SaBackend) {
        if let Some(child) = self.name(tunnel).filter(|name| !name.child.is_empty()).cloned() {
            backend.tell(ChildNews { tunnel, child, what });
        }
    }
}
