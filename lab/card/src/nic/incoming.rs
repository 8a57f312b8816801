//! From the card to the host: completions, answers to commands, and frames from the line.

use convoy_packet::Frame;
use zeroize::Zeroize;

use super::sas::Effect;
use super::{BUFFERS, COMMAND_BYTES, COMMANDS, COOKIE_BITS, Nic, PACKET_COOKIE, ReceiveRing, TIMEOUT_CYCLES};
use crate::command::{Code, Pipeline, Status};
use crate::device::LINE_LOSSES;
use crate::error::CardError;
use crate::rings::Completion;

impl Nic {
    pub(super) fn complete(&mut self, receive: &mut dyn FnMut(Option<u32>, Frame)) -> Result<(), CardError> {
        while let Some(completion) = self.rings.next(&self.device)? {
            self.counters.completions += 1;
            self.flight.silent = 0;
            match completion {
                Completion::Transmitted(at) => self.transmitted(at)?,
                Completion::Received(at, answer) => {
                    let arrival = self.answer(answer.status)?;
                    self.receive_again(at, answer.status.len.into(), arrival, receive)?;
                }
                Completion::Cut(at, status) => {
                    if !status.is_from_line {
                        return Err(CardError::Refused(status.code));
                    }
                    self.flight.arriving = self.flight.arriving.saturating_sub(1);
                    self.counters.too_long += 1;
                    self.receive_again(at, 0, None, receive)?;
                }
            }
        }
        self.rings.acknowledge(&mut self.device);
        Ok(())
    }

    /// The card has read the descriptor with this cookie.
    fn transmitted(&mut self, at: u32) -> Result<(), CardError> {
        let posted = self.flight.posted.pop_front().ok_or(CardError::Cookie(at))?;
        let place = (at as usize).checked_sub(COMMANDS).map(|at| at / COMMAND_BYTES);
        let place = place.filter(|place| *place < BUFFERS).ok_or(CardError::Cookie(at))?;
        self.device.unmap(place);
        self.device.memory[COMMANDS + place * COMMAND_BYTES..][..posted.wipe].zeroize();
        drop(posted.frame);
        Ok(())
    }

    /// Hands over what has arrived in the frame with this cookie, if it is to be, and gives the
    /// card a frame in its place. If no other is left, the arrival is dropped instead.
    fn receive_again(
        &mut self,
        cookie: u32,
        len: usize,
        arrival: Option<Option<u32>>,
        receive: &mut dyn FnMut(Option<u32>, Frame),
    ) -> Result<(), CardError> {
        let place = ReceiveRing::place(cookie)?;
        let filled = self.receiving.take(place, len, &mut self.device).ok_or(CardError::Cookie(cookie))?;
        let mut next = filled;
        if let Some(opened) = arrival {
            match self.receiving.fresh() {
                Some(fresh) => receive(opened, std::mem::replace(&mut next, fresh)),
                None => self.counters.overrun += 1,
            }
        }
        self.receiving.offer(place, next, &mut self.rings, &mut self.device);
        self.flight.is_rung = true;
        Ok(())
    }

    /// What a status says: `Some` if the frame is to be handed over, with the number of the SA that
    /// opened it.
    fn answer(&mut self, status: Status) -> Result<Option<Option<u32>>, CardError> {
        if status.is_from_line {
            return Ok(self.arrived(status));
        }
        let pipeline = match status.cookie & ((1 << COOKIE_BITS) - 1) {
            PACKET_COOKIE => {
                if status.code == Code::Filtered {
                    self.counters.filtered_out += 1;
                    self.counters.count_decision(Pipeline::X1, status.decision);
                } else {
                    self.counters.refused += 1;
                }
                let frames = u64::from(status.cookie >> COOKIE_BITS);
                self.flight.leaving = self.flight.leaving.saturating_sub(frames);
                return Ok(None);
            }
            1 => Pipeline::X1,
            2 => Pipeline::X2,
            other => return Err(CardError::Cookie(other)),
        };
        let command = self.flight.commands[pipeline as usize].pop_front();
        let effect = command.ok_or(CardError::Cookie(status.cookie))?;
        if status.code != Code::Ok {
            return Err(CardError::Refused(status.code));
        }
        match effect {
            Effect::Placed(place, number) if pipeline == Pipeline::X2 => {
                self.opens[usize::from(place)] = number;
            }
            Effect::Filter(table) => self.filter_written(pipeline, table),
            Effect::Signatures(table) => self.counters.signatures.start(table),
            Effect::Placed(..) | Effect::Loaded => {}
        }
        Ok(None)
    }

    fn arrived(&mut self, status: Status) -> Option<Option<u32>> {
        self.flight.arriving = self.flight.arriving.saturating_sub(1);
        let number = self.opens[usize::from(status.sa)];
        if status.code == Code::Filtered || status.len != 0 {
            self.counters.count_decision(Pipeline::X2, status.decision);
            self.counters.count_signature(status.signature);
        }
        if status.len != 0 {
            self.counters.wrong_udp_checksum += u64::from(status.has_wrong_udp_checksum);
        }
        match (status.code, number) {
            _ if status.len != 0 && status.has_wrong_ip_checksum => self.counters.wrong_ip_checksum += 1,
            (Code::Ok, Some(number)) if status.is_opened => {
                self.counters.opened += 1;
                return Some(Some(number));
            }
            (Code::Filtered, _) => self.counters.filtered_in += 1,
            (Code::WrongIcv, _) => self.counters.wrong_icv += 1,
            (Code::Ok, None) if status.is_opened => self.counters.refused += 1,
            _ if status.len != 0 => {
                self.counters.passed += 1;
                return Some(None);
            }
            _ => self.counters.malformed += 1,
        }
        None
    }

    /// Detects a stalled card. Frames from the line that found no room have no status, which is no
    /// error; anything else without an answer is one after a timeout.
    pub(super) fn watch(&mut self) -> Result<(), CardError> {
        if self.flight.silent == 0 || self.is_idle() {
            self.flight.silent = 0;
            return Ok(());
        }
        if self.flight.arriving != 0 {
            let losses = LINE_LOSSES.iter().fold(0_u32, |sum, at| sum.wrapping_add(self.device.read(*at)));
            let new = u64::from(losses.wrapping_sub(self.losses));
            self.losses = losses;
            self.counters.overrun += new;
            self.flight.arriving = self.flight.arriving.saturating_sub(new);
        }
        if self.flight.silent > TIMEOUT_CYCLES {
            return Err(CardError::Silent(self.flight.silent));
        }
        Ok(())
    }
}
