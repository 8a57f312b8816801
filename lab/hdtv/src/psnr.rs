//! Peak signal-to-noise ratio of video.

use crate::format::Format;
use crate::samples::unpack;

/// Accumulated differences between frames and their references.
#[derive(Clone, Copy, Debug, Default)]
pub struct Difference {
    squares: f64,
    samples: u64,
    peak: f64,
    frames: u64,
    equal_frames: u64,
}

impl Difference {
    /// Adds a frame and the reference `should`.
    pub fn add(&mut self, format: &Format, frame: &[u8], should: &[u8]) {
        self.frames += 1;
        self.samples += (format.line_samples() * format.height) as u64;
        self.peak = f64::from(format.depth.peak());
        if frame == should {
            self.equal_frames += 1;
            return;
        }
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (frame, should) in frame.chunks(format.line_bytes()).zip(should.chunks(format.line_bytes())) {
            if frame == should {
                continue;
            }
            unpack(format.depth, frame, &mut first);
            unpack(format.depth, should, &mut second);
            let square = |(first, second): (&u16, &u16)| u64::from(first.abs_diff(*second)).pow(2);
            self.squares += first.iter().zip(&second).map(square).sum::<u64>() as f64;
        }
    }

    /// Frames added.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames that were identical to their reference.
    pub fn equal_frames(&self) -> u64 {
        self.equal_frames
    }

    /// PSNR over all samples, in dB; `None` where nothing differs.
    pub fn psnr_db(&self) -> Option<f64> {
        (self.squares > 0.0)
            .then(|| 10.0 * (self.peak * self.peak * self.samples as f64 / self.squares).log10())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Depth;

    #[test]
    fn it_is_the_known_formula() {
        let format: Format = "4x2p25".parse().expect("a name");
        let mut difference = Difference::default();
        difference.add(&format, &[9; 16], &[9; 16]);
        assert_eq!((difference.psnr_db(), difference.equal_frames()), (None, 1));
        difference.add(&format, &[9; 16], &[10; 16]);
        // A mean squared error of one half.
        let psnr = difference.psnr_db().expect("they differ");
        assert!((psnr - 51.141).abs() < 0.001 && difference.frames() == 2, "{psnr}");
        let ten = format.with_depth(Depth::Ten);
        let mut difference = Difference::default();
        difference.add(&ten, &[0xff; 20], &[0; 20]);
        assert!(difference.psnr_db().is_some_and(|psnr| psnr.abs() < 1e-9));
    }
}
