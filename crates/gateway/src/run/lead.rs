//! A gateway of a cluster that begins to lead, or ends it.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use convoy_cluster::Taken;

use super::{Gateway, Order, RunError};
use crate::cluster::{self, Led, Place, Stopped};
use crate::events::What;
use crate::state::wall_clock_ns;

impl Gateway {
    /// Begins to follow the orders of its cluster's agent.
    ///
    /// # Errors
    /// That the system refused a thread.
    pub(super) fn join_cluster(&mut self, orders: Sender<Order>) -> Result<(), RunError> {
        let (Some(cluster), Some(config)) = (&mut self.cluster, &self.config.cluster) else {
            return Ok(());
        };
        let place = Place {
            handles: self.handles.clone(),
            clock: self.clock.clone(),
            orders,
            helper: self.helper.clone(),
            events: self.events.clone(),
            lease: config.lease,
        };
        Ok(cluster.join(place)?)
    }

    /// Installs all tunnels behind what their SAs have used at other gateways.
    pub(super) fn lead(&mut self, taken: &[Taken]) -> Led {
        let lead = cluster::lead(&self.config, taken, wall_clock_ns(), &mut self.generation);
        let (config, beginnings) = (Arc::new(self.config.clone()), Arc::new(lead.beginnings));
        let answers = self.handles.tell(move |thread| thread.take_up(&config, &beginnings));
        for (tunnel, why) in answers.into_iter().flatten().flat_map(|done| done.refused) {
            self.events.warn(format!("cluster: tunnel {tunnel}: {why}"));
        }
        self.name_peers().into_iter().for_each(|warning| self.events.warn(warning));
        self.is_leading = true;
        let (tunnels, new) = (self.config.tunnels.len(), lead.new.len());
        let message =
            format!("this gateway leads the cluster: tunnels: {tunnels}, SA pairs new to it: {new}");
        self.events.tell(What::Leads, message);
        Led { generations: lead.generations, new: lead.new }
    }

    /// Removes all tunnels' SAs, and returns how far they have come.
    pub(super) fn stand_by(&mut self) -> Stopped {
        if !std::mem::take(&mut self.is_leading) {
            return Stopped::new();
        }
        let reports = self.handles.tell(|thread| thread.stand_by());
        self.events.tell(What::StandsBy, "this gateway no longer leads the cluster");
        reports.into_iter().flatten().flat_map(|report| report.progress().to_vec()).collect()
    }

    /// Gives what it leads to another gateway, before it ends.
    pub(super) fn hand_over(&mut self) {
        if self.cluster.is_none() {
            return;
        }
        let stopped = self.stand_by();
        if let Some(cluster) = &mut self.cluster {
            cluster.end(stopped);
        }
    }
}
