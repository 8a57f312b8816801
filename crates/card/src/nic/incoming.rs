//! From the card to the host: completions, answers to commands, and frames from the line.

use zeroize::Zeroize;

use super::sas::Effect;
use super::{BUFFER_BYTES, Nic, PACKET_COOKIE, TIMEOUT_CYCLES};
use crate::command::{Code, Pipeline};
use crate::device::LINE_LOSSES;
use crate::error::CardError;
use crate::rings::{Answer, Completion};

impl Nic {
    pub(super) fn complete(&mut self, receive: &mut dyn FnMut(Option<u32>, &[u8])) -> Result<(), CardError> {
        let mut is_any = false;
        while let Some(completion) = self.rings.next(&self.device)? {
            is_any = true;
            match completion {
                Completion::Transmitted(at) => {
                    let wipe = self.flight.posted.pop_front().ok_or(CardError::Cookie(at))?;
                    self.device.memory[at as usize..][..wipe].zeroize();
                }
                Completion::Received(at, answer) => {
                    self.answer(&answer, receive)?;
                    self.rings.offer(&mut self.device, at as usize, BUFFER_BYTES);
                    self.flight.is_rung = true;
                }
            }
        }
        if is_any {
            self.flight.silent = 0;
            self.rings.acknowledge(&mut self.device);
        }
        Ok(())
    }

    fn answer(
        &mut self,
        answer: &Answer,
        receive: &mut dyn FnMut(Option<u32>, &[u8]),
    ) -> Result<(), CardError> {
        let status = answer.status;
        if status.is_from_line {
            self.arrived(answer, receive);
            return Ok(());
        }
        let pipeline = match status.cookie {
            PACKET_COOKIE => {
                if status.code == Code::Filtered {
                    self.counters.filtered_out += 1;
                    self.counters.count_decision(Pipeline::X1, status.decision);
                } else {
                    self.counters.refused += 1;
                }
                self.flight.leaving = self.flight.leaving.saturating_sub(1);
                return Ok(());
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
        Ok(())
    }

    fn arrived(&mut self, answer: &Answer, receive: &mut dyn FnMut(Option<u32>, &[u8])) {
        self.flight.arriving = self.flight.arriving.saturating_sub(1);
        let status = answer.status;
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
                receive(Some(number), answer.frame(&self.device));
            }
            (Code::Filtered, _) => self.counters.filtered_in += 1,
            (Code::WrongIcv, _) => self.counters.wrong_icv += 1,
            (Code::Ok, None) if status.is_opened => self.counters.refused += 1,
            _ if status.len != 0 => {
                self.counters.passed += 1;
                receive(None, answer.frame(&self.device));
            }
            _ => self.counters.malformed += 1,
        }
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
