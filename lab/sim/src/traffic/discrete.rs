//! Draws from any distribution over small numbers in constant time, by Walker's alias method as
//! constructed by Vose.

/// A distribution over `first..first + n`.
pub(crate) struct Discrete {
    first: u32,
    columns: Vec<Column>,
}

/// One column of the alias table: draws below `own` give the number itself, others give `alias`.
#[derive(Clone, Copy)]
struct Column {
    own: u32,
    alias: u32,
}

impl Discrete {
    /// A distribution from weights, at least one of which is above 0.
    pub(crate) fn new(first: u32, weights: &[f64]) -> Self {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        let mut left: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let mut columns: Vec<Column> =
            (0..weights.len() as u32).map(|alias| Column { own: u32::MAX, alias }).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..left.len()).partition(|place| left[*place] < 1.0);
        while let (Some(less), Some(more)) = (small.pop(), large.last().copied()) {
            columns[less] = Column { own: (left[less] * 2f64.powi(32)) as u32, alias: more as u32 };
            left[more] -= 1.0 - left[less];
            if left[more] < 1.0 {
                large.pop();
                small.push(more);
            }
        }
        Self { first, columns }
    }

    /// The number for 32 random bits. The upper half of their product with the number of columns
    /// selects the column, and the lower half decides within the column.
    #[inline]
    pub(crate) fn draw(&self, bits: u32) -> u32 {
        let product = u64::from(bits) * self.columns.len() as u64;
        let place = (product >> 32) as usize;
        let column = self.columns[place];
        self.first + if (product as u32) < column.own { place as u32 } else { column.alias }
    }
}

/// The largest size of a distribution; with more columns, 32 bits leave too few to decide within a
/// column.
pub(crate) const NUMBERS_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    #[test]
    fn numbers_come_as_often_as_their_weights_say() {
        let weights = [1.0, 0.0, 5.0, 2.0];
        let distribution = Discrete::new(10, &weights);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut counts = [0u32; 4];
        for _ in 0..800_000 {
            counts[distribution.draw(random.next_u32()) as usize - 10] += 1;
        }
        for (count, weight) in counts.into_iter().zip(weights) {
            assert!((f64::from(count) - weight * 1e5).abs() < 1_500.0, "{counts:?}");
        }
        assert_eq!(counts[1], 0);
    }
}
