//! Times the parts of the encoder on one thread, for 4 texts of 128 tokens and one layer: `parts [avx512 | avx2 | portable]`.

use std::time::Instant;

use baton_encoder::{Encoder, INNER, Kernel, Matrix, Parts, Rows, Scratch, Text, WIDTH, Weights, builtin};

fn main() {
    let kernel = Kernel::available()
        .into_iter()
        .find(|one| std::env::args().nth(1).is_none_or(|name| one.name() == name))
        .expect("this processor does not have it");
    let tokens = 512;
    let matrix = |width: usize, columns: usize| {
        let weights: Vec<i8> = (0..width * columns).map(|at| (at * 31 % 255) as u8 as i8).collect();
        Matrix::new(&weights, vec![0.01; columns], vec![0.0; columns], width)
    };
    let (qkv, out, up, down) = (matrix(WIDTH, 3 * WIDTH), matrix(WIDTH, WIDTH), matrix(WIDTH, INNER), matrix(INNER, WIDTH));
    let x: Vec<f32> = (0..tokens * INNER).map(|at| (at * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let (mut rows, mut wide) = (Rows::default(), vec![0.0; tokens * INNER]);
    let mut seen = vec![0.0; tokens * WIDTH];
    let time = |name: &str, work: &mut dyn FnMut()| {
        let began = Instant::now();
        let mut count = 0;
        while began.elapsed().as_millis() < 300 {
            work();
            count += 1;
        }
        println!("{name:10} {:7.3} ms", began.elapsed().as_secs_f64() * 1e3 / f64::from(count));
    };
    time("quantize", &mut || kernel.quantize(&x[..tokens * WIDTH], WIDTH, &mut rows));
    time("qkv", &mut || kernel.multiply(&rows, &qkv, &mut wide[..tokens * 3 * WIDTH]));
    time("out", &mut || kernel.multiply(&rows, &out, &mut seen));
    time("up", &mut || kernel.multiply(&rows, &up, &mut wide));
    time("attend", &mut || {
        for text in 0..4 {
            kernel.attend(&x[text * 128 * 3 * WIDTH..][..128 * 3 * WIDTH], 128, 12, &mut seen[text * 128 * WIDTH..][..128 * WIDTH]);
        }
    });
    time("gelu", &mut || {
        // Values that are used again would vanish.
        wide.copy_from_slice(&x);
        kernel.gelu(&mut wide);
    });
    let mut inner = Rows::default();
    time("quantize'", &mut || kernel.quantize(&x, INNER, &mut inner));
    time("down", &mut || kernel.multiply(&inner, &down, &mut seen));
    // The whole network of the vectors, for texts of 140 tokens, a different number of them at once. The kernel is the process's own.
    let read = |bytes| Weights::read(bytes).expect("the weights of the binary");
    let parts = Parts::read(&read(builtin::VECTORS), &read(builtin::VERIFIER), builtin::VECTORS_LAYERS).expect("the weights of the binary");
    let encoder = Encoder::new(parts);
    let text = Text::whole((0..140).map(|at| 1_000 + at * 7).collect());
    let mut scratch = Scratch::default();
    for count in [1, 2, 3, 4, 8] {
        let texts = vec![&text; count];
        time(&format!("{count} texts"), &mut || {
            std::hint::black_box(encoder.forward(&texts, &mut scratch));
        });
    }
}
