//! From the pixels of a large picture to the bytes of a small PNG.

use std::collections::BTreeMap;

/// A PNG is drawn this many times larger and averaged down.
pub(super) const OVERSAMPLE: u32 = 2;

/// Averages squares of `OVERSAMPLE` pixels.
pub(super) fn shrink(pixels: &[u8], width: usize) -> Vec<[u8; 3]> {
    let n = OVERSAMPLE as usize;
    let square = (n * n) as u32;
    let mut out = Vec::with_capacity(pixels.len() / (n * n * 3));
    let mut sums = vec![0u32; width * 3];
    for rows in pixels.chunks_exact(width * n * n * 3) {
        sums.fill(0);
        for row in rows.chunks_exact(width * n * 3) {
            for (sum, square) in sums.chunks_exact_mut(3).zip(row.chunks_exact(n * 3)) {
                for pixel in square.chunks_exact(3) {
                    sum.iter_mut().zip(pixel).for_each(|(sum, c)| *sum += u32::from(*c));
                }
            }
        }
        out.extend(sums.chunks_exact(3).map(|sum| [0, 1, 2].map(|c| (sum[c] / square) as u8)));
    }
    out
}

/// The farthest that a colour may be moved, as a distance in red, green and blue: nobody sees it in a smoothed edge.
const NEAR: u32 = 24;

/// A colour that fills so many neighbours in a row is that of an area, or of a scale of colours, and not of an edge.
const AREA: usize = 20;

/// At most 256 colours, and the place among them of every pixel's colour or the nearest one: first the
/// colours of areas, then those that would be missed most, until none is moved farther than [`NEAR`]. Areas keep their exact colour;
/// what is approximated is shades of smoothed edges, which are most of a picture's bytes.
fn reduce(pixels: &[[u8; 3]]) -> (Vec<[u8; 3]>, Vec<u8>) {
    // Neighbours are mostly alike, so whole runs of them are looked up.
    let runs = || pixels.chunk_by(|a, b| a == b).map(|run| (run[0], run.len()));
    let mut counts = BTreeMap::new();
    for (colour, length) in runs() {
        let (count, longest) = counts.entry(colour).or_insert((0, 0));
        (*count, *longest) = (*count + length, length.max(*longest));
    }
    let mut areas: Vec<_> = counts.iter().filter(|(_, (_, longest))| *longest >= AREA).collect();
    areas.sort_by_key(|&(colour, (count, _))| (std::cmp::Reverse(count), colour));
    let mut palette: Vec<[u8; 3]> = areas.into_iter().take(192).map(|(colour, _)| *colour).collect();
    let counted: Vec<(usize, [u8; 3])> =
        counts.into_iter().map(|(colour, (count, _))| (count, colour)).collect();
    let distance = |a: [u8; 3], b: [u8; 3]| -> u32 {
        a.iter().zip(b).map(|(&a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
    };
    let mut missed: Vec<u32> =
        counted.iter().map(|c| palette.iter().map(|&p| distance(p, c.1)).min().unwrap_or(u32::MAX)).collect();
    while palette.len() < 256.min(counted.len()) {
        let error = |i: &usize| (counted[*i].0 as u64 * u64::from(missed[*i]), *i);
        let seen = (0..counted.len()).filter(|i| missed[*i] > NEAR.pow(2));
        let Some(worst) = seen.max_by_key(error) else { break };
        let colour = counted[worst].1;
        palette.push(colour);
        for (m, c) in missed.iter_mut().zip(&counted) {
            *m = (*m).min(distance(colour, c.1));
        }
    }
    let nearest = |&(_, colour): &(usize, [u8; 3])| -> u8 {
        palette.iter().enumerate().min_by_key(|(_, p)| distance(**p, colour)).map_or(0, |(i, _)| i as u8)
    };
    let places: Vec<u8> = counted.iter().map(nearest).collect();
    let place = |p: &[u8; 3]| counted.binary_search_by_key(p, |c| c.1).map_or(0, |i| places[i]);
    let mut indices = Vec::with_capacity(pixels.len());
    for (colour, length) in runs() {
        indices.resize(indices.len() + length, place(&colour));
    }
    (palette, indices)
}

/// PNG bytes with a palette.
pub(super) fn encode(pixels: &[[u8; 3]], width: u32, height: u32) -> anyhow::Result<Vec<u8>> {
    let (palette, data) = reduce(pixels);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_palette(palette.concat());
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&data)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_keep_their_exact_colour_and_rare_colours_one_nearby() {
        let mut pixels: Vec<[u8; 3]> = (0..=180).flat_map(|i| [[i, 0, 100]; 30]).collect();
        let areas = pixels.len();
        pixels.extend([[7, 1, 101], [200, 255, 0]]);
        let (palette, indices) = reduce(&pixels);
        let shown: Vec<[u8; 3]> = indices.iter().map(|&i| palette[usize::from(i)]).collect();
        assert_eq!(shown[..areas], pixels[..areas]);
        assert_eq!(shown[areas..], [[7, 0, 100], [200, 255, 0]]);
        assert_eq!(palette.len(), 182);
    }
}
