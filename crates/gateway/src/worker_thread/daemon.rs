//! What a key daemon has a worker do: its SAs, its policies, and the names of its tunnels.

use convoy_dataplane::pipeline::SaInstallError;
use convoy_engine::wipe_stack;
use convoy_ipsec::{PolicyChange, SaConfig, SaDirection, SaEnds, SaNumber, SaView, TunnelId};
use convoy_report::survey::Surveyed;
use convoy_state::Started;

use super::WorkerThread;

/// The names of a key daemon's tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TunnelName {
    /// The name for people: that of a `[[tunnel]]` that covers its networks, or takes them from it;
    /// without one, charon's.
    pub(crate) shown: String,
    /// charon's, as `connection/child`; empty if charon has not named it yet.
    pub(crate) child: String,
    /// Further `[[tunnel]]`s whose networks it serves.
    pub(crate) others: Vec<String>,
}

impl WorkerThread {
    /// Changes a key daemon's policies. They follow the configuration's of the same priority.
    pub(crate) fn change_policies(&mut self, changes: &[PolicyChange]) {
        self.worker.pipeline_mut().ipsec_mut().change_policies(changes);
    }

    /// Sets or clears the name of a key daemon's tunnel. Its totals until now stay with the
    /// previous name.
    pub(crate) fn name_tunnel(&mut self, tunnel: TunnelId, name: Option<&TunnelName>) {
        self.close_departed();
        self.update_totals_of(tunnel);
        match name {
            Some(name) => self.names.insert(tunnel, name.clone()),
            None => self.names.remove(&tunnel),
        };
    }

    /// Sets whether a key daemon negotiates an SA of this worker's own for a tunnel that another
    /// one serves.
    pub(crate) fn set_own_sas(&mut self, tunnel: TunnelId, are_wanted: bool) {
        self.worker.pipeline_mut().ipsec_mut().tables.set_own_sas(tunnel, are_wanted);
    }

    /// Installs a key daemon's SA, of a tunnel that this worker serves or has a resource of. With
    /// `started`, its numbers are reported.
    ///
    /// # Errors
    /// Why it was refused; it is installed nowhere then.
    pub(crate) fn install(
        &mut self,
        sa: &SaConfig,
        started: Option<&Started>,
    ) -> Result<SaNumber, SaInstallError> {
        let done = self.install_sa(sa);
        wipe_stack();
        if let (Ok(number), Some(started)) = (&done, started) {
            self.share(number.index, started);
        }
        done
    }

    /// Never inlined, so that [`wipe_stack`] covers its frame.
    #[inline(never)]
    fn install_sa(&mut self, sa: &SaConfig) -> Result<SaNumber, SaInstallError> {
        let pipeline = self.worker.pipeline_mut();
        let index = pipeline.install(sa, &|engine, transform| self.costs.of(engine, transform))?;
        let number = pipeline.ipsec().tables.number(index).expect("it was installed");
        if sa.direction == SaDirection::Inbound {
            self.worker.take_spis(&[sa.spi]);
        }
        Ok(number)
    }

    /// Removes an SA once its last packet has left. One that is already gone is no error.
    pub(crate) fn retire(&mut self, sa: SaNumber) {
        if let Some(sa) = self.tables().place(sa) {
            self.unshare(sa);
            self.worker.pipeline_mut().retire(sa);
        }
    }

    /// Gives an SA other ends; returns the previous ones, or `None` if the new ones are invalid for
    /// it.
    pub(crate) fn move_sa(&mut self, sa: SaNumber, ends: &SaEnds) -> Option<SaEnds> {
        let ipsec = self.worker.pipeline_mut().ipsec_mut();
        let sa = ipsec.tables.place(sa)?;
        let old = ipsec.tables.ends(sa)?;
        ipsec.upkeep.move_sa(&mut ipsec.tables, sa, ends).then_some(old)
    }

    /// The state of an SA.
    pub(crate) fn view(&self, sa: SaNumber) -> Option<SaView> {
        self.tables().sa(self.tables().place(sa)?)
    }
}
