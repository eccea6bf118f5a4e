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

/// A colour that fills so many neighbours in a row is that of an area, or of a scale of colours, and not of an edge.
const AREA: usize = 20;
/// The farthest that the colour of an area may be moved, as a distance in red, green and blue: nobody sees it.
const NEAR: u32 = 6;
/// The most colours of areas.
const AREAS: usize = 192;
/// The shades of smoothed edges besides the colours of areas. Where both fit, there are [`HALF_BYTE`] colours in all.
const SHADES: usize = 12;
/// The colours of a palette whose pixels take half a byte.
const HALF_BYTE: usize = 16;

/// A colour of a picture: its pixels, and the most of them in a row.
struct Counted {
    colour: [u8; 3],
    pixels: usize,
    longest: usize,
}

/// The colours of a picture with a palette for them.
struct Palette {
    counted: Vec<Counted>,
    chosen: Vec<[u8; 3]>,
    /// The square of the distance from each colour to the nearest that is chosen.
    missed: Vec<u32>,
}

fn distance(a: [u8; 3], b: [u8; 3]) -> u32 {
    a.iter().zip(b).map(|(&a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
}

impl Palette {
    /// Chooses the colour that is missed most among those that count, up to `most` of them in all, and until none is moved
    /// farther than `near`.
    fn fill(&mut self, most: usize, near: u32, counts: impl Fn(&Counted) -> bool) {
        while self.chosen.len() < most {
            let open = |&i: &usize| counts(&self.counted[i]) && self.missed[i] > near * near;
            let error = |&i: &usize| (self.counted[i].pixels as u64 * u64::from(self.missed[i]), i);
            let Some(worst) = (0..self.counted.len()).filter(open).max_by_key(error) else { break };
            let colour = self.counted[worst].colour;
            self.chosen.push(colour);
            let all = self.missed.iter_mut().zip(&self.counted);
            all.for_each(|(missed, c)| *missed = (*missed).min(distance(colour, c.colour)));
        }
    }

    /// The place of the chosen colour that is nearest.
    fn nearest(&self, colour: [u8; 3]) -> u8 {
        let places = self.chosen.iter().enumerate();
        places.min_by_key(|(_, c)| distance(**c, colour)).map_or(0, |(place, _)| place as u8)
    }
}

/// Few colours, and the place among them of the one nearest to every pixel's: first the colours of areas, then the shades of
/// smoothed edges that would be missed most, which are most of a picture's bytes.
fn reduce(pixels: &[[u8; 3]]) -> (Vec<[u8; 3]>, Vec<u8>) {
    // Neighbours are mostly equal, so whole runs of them are looked up.
    let runs = || pixels.chunk_by(|a, b| a == b).map(|run| (run[0], run.len()));
    let mut counts = BTreeMap::new();
    for (colour, length) in runs() {
        let (count, longest) = counts.entry(colour).or_insert((0, 0));
        (*count, *longest) = (*count + length, length.max(*longest));
    }
    let counted = counts.into_iter().map(|(colour, (pixels, longest))| Counted { colour, pixels, longest });
    let counted: Vec<Counted> = counted.collect();
    let mut palette = Palette { missed: vec![u32::MAX; counted.len()], counted, chosen: Vec::new() };
    palette.fill(AREAS, NEAR, |c| c.longest >= AREA);
    let areas = palette.chosen.len();
    let most = if areas + SHADES / 2 <= HALF_BYTE { HALF_BYTE } else { areas + SHADES };
    palette.fill(most, 0, |_| true);
    let places: BTreeMap<[u8; 3], u8> =
        palette.counted.iter().map(|c| (c.colour, palette.nearest(c.colour))).collect();
    let mut indices = Vec::with_capacity(pixels.len());
    for (colour, length) in runs() {
        indices.resize(indices.len() + length, places[&colour]);
    }
    (palette.chosen, indices)
}

/// PNG bytes with a palette.
pub(super) fn encode(pixels: &[[u8; 3]], width: u32, height: u32) -> anyhow::Result<Vec<u8>> {
    let (palette, mut data) = reduce(pixels);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_depth(png::BitDepth::Eight);
    if palette.len() <= HALF_BYTE {
        encoder.set_depth(png::BitDepth::Four);
        let pair = |pair: &[u8]| pair[0] << 4 | pair.get(1).unwrap_or(&0);
        data = data.chunks(width as usize).flat_map(|row| row.chunks(2).map(pair)).collect();
    }
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
    fn areas_keep_their_colour_and_smoothed_edges_one_nearby() {
        let mut pixels: Vec<[u8; 3]> = (0..=180).flat_map(|i| [[i, 0, 100]; 30]).collect();
        let areas = pixels.len();
        pixels.extend([[7, 1, 101], [200, 255, 0]]);
        let (palette, indices) = reduce(&pixels);
        let shown = |i: usize| palette[usize::from(indices[i])];
        assert!((0..areas).all(|i| distance(shown(i), pixels[i]) <= NEAR * NEAR));
        assert_eq!((shown(areas + 1), distance(shown(areas), [7, 1, 101]) < 50), ([200, 255, 0], true));
        assert!(palette.len() <= 256);
    }

    #[test]
    fn a_picture_of_few_colours_takes_half_a_byte_a_pixel_and_keeps_them() {
        let row = [[255, 255, 255], [0, 114, 178], [230, 230, 230]];
        let pixels = [row, row, [row[2], row[1], row[0]]].concat();
        let bytes = encode(&pixels, 3, 3).expect("a picture");
        assert_eq!(bytes[24], 4, "bits of a pixel");
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a header");
        let palette = reader.info().palette.clone().expect("a palette");
        let mut data = vec![0; reader.output_buffer_size().expect("small")];
        reader.next_frame(&mut data).expect("pixels");
        let place = |i: usize| (data[i / 3 * 2 + i % 3 / 2] >> (4 * (1 - i % 3 % 2))) & 15;
        let read: Vec<[u8; 3]> =
            (0..9).map(|i| std::array::from_fn(|c| palette[3 * usize::from(place(i)) + c])).collect();
        assert_eq!(read, pixels);
    }
}
