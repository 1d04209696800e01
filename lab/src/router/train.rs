//! Fits the weights: stochastic gradient descent with Adagrad and L2, in a fixed pseudo-random order.

use flows::auto::classify::{Classifier, FLOWS, Feature, PLACES, softmax};

use crate::sim::dice::Dice;

/// One training example.
#[derive(Clone, Debug)]
pub struct Example {
    pub features: Vec<Feature>,
    /// Index into [`FLOWS`].
    pub flow: usize,
}

const EPOCHS: usize = 15;
const RATE: f64 = 0.5;
/// Weight decay per step.
const L2: f64 = 1e-4;
const SEED: u64 = 14;

pub fn train(examples: &[Example]) -> Classifier {
    let mut weights = vec![[0.0; FLOWS.len()]; PLACES];
    let mut squares = vec![[1e-2; FLOWS.len()]; PLACES];
    let mut biases = [0.0; FLOWS.len()];
    let mut bias_squares = [1.0; FLOWS.len()];
    let mut order: Vec<usize> = (0..examples.len()).collect();
    let mut dice = Dice::new(&[SEED]);
    for _ in 0..EPOCHS {
        dice.shuffle(&mut order);
        for at in &order {
            let example = &examples[*at];
            let mut sums = biases;
            for feature in &example.features {
                for (sum, weight) in sums.iter_mut().zip(weights[feature.place]) {
                    *sum += weight * feature.value;
                }
            }
            let mut errors = softmax(sums);
            errors[example.flow] -= 1.0;
            for feature in &example.features {
                for flow in 0..FLOWS.len() {
                    let weight = &mut weights[feature.place][flow];
                    let slope = errors[flow] * feature.value + L2 * *weight;
                    let square = &mut squares[feature.place][flow];
                    *square += slope * slope;
                    *weight -= RATE * slope / square.sqrt();
                }
            }
            for flow in 0..FLOWS.len() {
                bias_squares[flow] += errors[flow] * errors[flow];
                biases[flow] -= RATE * errors[flow] / bias_squares[flow].sqrt();
            }
        }
    }
    Classifier::of(&weights, biases)
}
