//! Samples in the packed order of RFC 4175 section 4.3, and conversions: to 8 bits, to planes, to
//! RGB.

use crate::format::{Depth, Format, Sampling};

/// Unpacks whole pixel groups into samples, in packed order.
pub(crate) fn unpack(depth: Depth, packed: &[u8], samples: &mut Vec<u16>) {
    samples.clear();
    match depth {
        Depth::Eight => samples.extend(packed.iter().map(|byte| u16::from(*byte))),
        // Four 10-bit samples take five bytes; an RGB group is three times that.
        Depth::Ten => samples.extend(packed.as_chunks().0.iter().flat_map(|five| four(*five))),
        // Two 12-bit samples take three bytes; every group is a multiple of that.
        Depth::Twelve => samples.extend(packed.as_chunks().0.iter().flat_map(|three| two(*three))),
    }
}

/// Packs samples, as many as fit in `packed`.
pub(crate) fn pack(depth: Depth, samples: &[u16], packed: &mut [u8]) {
    match depth {
        Depth::Eight => {
            packed.iter_mut().zip(samples).for_each(|(byte, sample)| *byte = *sample as u8);
        }
        Depth::Ten => {
            for (five, four) in packed.as_chunks_mut::<5>().0.iter_mut().zip(samples.as_chunks::<4>().0) {
                let bits = four.iter().fold(0_u64, |bits, sample| bits << 10 | u64::from(sample & 0x3ff));
                five.copy_from_slice(&bits.to_be_bytes()[3..]);
            }
        }
        Depth::Twelve => {
            for (three, [first, second]) in packed.as_chunks_mut().0.iter_mut().zip(samples.as_chunks().0) {
                let bits = u32::from(first & 0xfff) << 12 | u32::from(second & 0xfff);
                let [_, bytes @ ..] = bits.to_be_bytes();
                *three = bytes;
            }
        }
    }
}

fn four(five: [u8; 5]) -> [u16; 4] {
    let bits = five.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    [30, 20, 10, 0].map(|shift| (bits >> shift & 0x3ff) as u16)
}

fn two([first, second, third]: [u8; 3]) -> [u16; 2] {
    let [first, second, third] = [first, second, third].map(u16::from);
    [first << 4 | second >> 4, (second & 0xf) << 8 | third]
}

/// Rounds a 10-bit sample to 8 bits.
pub(crate) const fn to_eight(sample: u16) -> u8 {
    let rounded = (sample + 2) >> 2;
    if rounded > 255 { 255 } else { rounded as u8 }
}

/// Converts packed 10-bit samples to packed 8-bit ones, as the papers' frame grabber does to fit
/// the stream into 1 Gbit/s.
pub(crate) fn ten_to_eight(ten: &[u8], eight: &mut [u8]) {
    for (five, to) in ten.as_chunks().0.iter().zip(eight.as_chunks_mut::<4>().0) {
        *to = four(*five).map(to_eight);
    }
}

/// Splits the samples of a line into planes: luma and both colour differences, or red, green and
/// blue. A plane is `width` long, or half of it for colour differences.
pub(crate) fn planes(sampling: Sampling, samples: &[u16], out: &mut [Vec<u16>; 3]) {
    out.iter_mut().for_each(Vec::clear);
    let [first, second, third] = out;
    match sampling {
        Sampling::Ycbcr422 => {
            for [cb, y0, cr, y1] in samples.as_chunks::<4>().0 {
                first.extend([y0, y1]);
                second.push(*cb);
                third.push(*cr);
            }
        }
        Sampling::Ycbcr444 => {
            for [cb, y, cr] in samples.as_chunks::<3>().0 {
                first.push(*y);
                second.push(*cb);
                third.push(*cr);
            }
        }
        Sampling::Rgb => {
            for [red, green, blue] in samples.as_chunks::<3>().0 {
                first.push(*red);
                second.push(*green);
                third.push(*blue);
            }
        }
    }
}

/// Converts a packed line to 8-bit RGB (ITU-R BT.709, narrow range).
pub(crate) fn line_to_rgb(format: &Format, packed: &[u8], samples: &mut Vec<u16>, rgb: &mut Vec<u8>) {
    unpack(format.depth, packed, samples);
    let scale = 255.0 / f32::from(format.depth.peak());
    match format.sampling {
        Sampling::Rgb => rgb.extend(samples.iter().map(|sample| (f32::from(*sample) * scale).round() as u8)),
        Sampling::Ycbcr422 => {
            for [cb, y0, cr, y1] in samples.as_chunks::<4>().0 {
                rgb.extend(pixel_to_rgb(format.depth, [*cb, *y0, *cr]));
                rgb.extend(pixel_to_rgb(format.depth, [*cb, *y1, *cr]));
            }
        }
        Sampling::Ycbcr444 => {
            rgb.extend(samples.as_chunks().0.iter().flat_map(|pixel| pixel_to_rgb(format.depth, *pixel)));
        }
    }
}

fn pixel_to_rgb(depth: Depth, [cb, y, cr]: [u16; 3]) -> [u8; 3] {
    let unit = f32::from(1_u16 << (depth.bits() - 8));
    let [cb, cr] = [cb, cr].map(|sample| (f32::from(sample) / unit - 128.0) / 224.0);
    let y = (f32::from(y) / unit - 16.0) / 219.0;
    let pixel = [y + 1.5748 * cr, y - 0.1873 * cb - 0.4681 * cr, y + 1.8556 * cb];
    pixel.map(|part| (part.clamp(0.0, 1.0) * 255.0).round() as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ten_bits_stand_as_rfc_4175_has_them() {
        // Cb 0x3ff, Y 0, Cr 0x3ff, Y 0.
        let mut packed = [0; 5];
        pack(Depth::Ten, &[0x3ff, 0, 0x3ff, 0], &mut packed);
        assert_eq!(packed, [0xff, 0xc0, 0x0f, 0xfc, 0x00]);
    }

    #[test]
    fn twelve_bits_stand_as_rfc_4175_has_them() {
        let mut packed = [0; 6];
        pack(Depth::Twelve, &[0x123, 0x456, 0x789, 0xabc], &mut packed);
        assert_eq!(packed, [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
        let mut samples = Vec::new();
        unpack(Depth::Twelve, &packed, &mut samples);
        assert_eq!(samples, [0x123, 0x456, 0x789, 0xabc]);
    }

    #[test]
    fn eight_bits_are_rounded_and_do_not_overflow() {
        assert_eq!([0, 1, 2, 940, 1023].map(to_eight), [0, 0, 1, 235, 255]);
        let mut ten = [0; 5];
        pack(Depth::Ten, &[512, 64, 513, 1023], &mut ten);
        let mut eight = [0; 4];
        ten_to_eight(&ten, &mut eight);
        assert_eq!(eight, [128, 16, 128, 255]);
    }

    #[test]
    fn black_white_and_red_look_like_it() {
        let format: Format = "2x1p25".parse().expect("a name");
        let mut rgb = Vec::new();
        line_to_rgb(&format, &[128, 16, 128, 235], &mut Vec::new(), &mut rgb);
        assert_eq!(rgb, [0, 0, 0, 255, 255, 255]);
        rgb.clear();
        line_to_rgb(&format, &[102, 63, 240, 63], &mut Vec::new(), &mut rgb);
        assert!(rgb[0] > 250 && rgb[1] < 5 && rgb[2] < 5, "{rgb:?}");
        let mut full = Vec::new();
        let format = format.with_sampling(Sampling::Ycbcr444);
        line_to_rgb(&format, &[102, 63, 240, 102, 63, 240], &mut Vec::new(), &mut full);
        assert_eq!(full, rgb);
    }

    proptest! {
        #[test]
        fn samples_come_back_as_they_were(samples in prop::collection::vec(0..1024_u16, 0..40)) {
            let samples = &samples[..samples.len() / 4 * 4];
            let mut packed = vec![0; samples.len() / 4 * 5];
            pack(Depth::Ten, samples, &mut packed);
            let mut again = Vec::new();
            unpack(Depth::Ten, &packed, &mut again);
            prop_assert_eq!(&again, samples);
        }
    }
}
