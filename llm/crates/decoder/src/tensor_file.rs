//! Safetensors files written tensor by tensor: nothing as large as the file is made in memory.
//!
//! The bytes are those of [`safetensors::serialize`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

/// Writes the numbers of a tensor; they are made or fetched when it is called.
pub(crate) type TensorWriter<'a, E> = Box<dyn Fn(&mut dyn Write) -> Result<(), E> + 'a>;

/// A tensor on its way into a file.
pub(crate) struct TensorEntry<'a, E> {
    /// Its name.
    pub(crate) name: String,
    /// Number type in the file.
    pub(crate) dtype: Dtype,
    /// Its shape.
    pub(crate) shape: Vec<usize>,
    /// Its numbers, little-endian and by rows.
    pub(crate) write: TensorWriter<'a, E>,
}

impl<E> TensorEntry<'_, E> {
    fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bitsize() / 8
    }
}

/// The bytes of these numbers in a file, which are those in memory where it is little-endian.
pub fn bytes_of(data: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return Cow::Borrowed(bytemuck::cast_slice(data));
    }
    data.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Writes a file of these tensors, with `about` in its header.
///
/// # Errors
/// When `to` refuses, or a tensor cannot be had.
///
/// # Panics
/// When two tensors have one name, or one writes another number of bytes than its shape says.
pub(crate) fn write<E: From<io::Error>>(
    mut tensors: Vec<TensorEntry<'_, E>>,
    about: Option<HashMap<String, String>>,
    to: &mut dyn Write,
) -> Result<(), E> {
    // The order of the library: wide numbers first, so that all are aligned.
    tensors.sort_by(|a, b| b.dtype.cmp(&a.dtype).then_with(|| a.name.cmp(&b.name)));
    let mut end = 0;
    let mut place = |tensor: &TensorEntry<'_, E>| {
        let begin = end;
        end += tensor.bytes();
        let info =
            TensorInfo { dtype: tensor.dtype, shape: tensor.shape.clone(), data_offsets: (begin, end) };
        (tensor.name.clone(), info)
    };
    let header = Metadata::new(about, tensors.iter().map(&mut place).collect());
    let mut header = header
        .and_then(|header| Ok(serde_json::to_vec(&header)?))
        .expect("tensors end to end under names of their own");
    header.resize(header.len().next_multiple_of(8), b' ');
    to.write_all(&(header.len() as u64).to_le_bytes())?;
    to.write_all(&header)?;
    for tensor in &tensors {
        let mut counted = Counted { to, bytes: 0 };
        (tensor.write)(&mut counted)?;
        assert_eq!(counted.bytes, tensor.bytes(), "bytes of {}", tensor.name);
    }
    Ok(())
}

/// Counts what passes.
struct Counted<'a> {
    to: &'a mut dyn Write,
    bytes: usize,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::TensorView;

    #[test]
    fn the_bytes_are_those_of_the_library() {
        let (numbers, count) = ([0.5f32, -1.0, 3e-9, f32::NAN, 7.0, -0.0], 9u64.to_le_bytes());
        let entries = |names: [&str; 3]| {
            let [a, b, c] = names.map(str::to_owned);
            let floats = |name, shape: &[usize]| TensorEntry::<io::Error> {
                name,
                dtype: Dtype::F32,
                shape: shape.to_vec(),
                write: Box::new(|to| to.write_all(&bytes_of(&numbers))),
            };
            let write: TensorWriter<'_, io::Error> = Box::new(|to| to.write_all(&count));
            vec![
                floats(a, &[2, 3]),
                TensorEntry { name: b, dtype: Dtype::U64, shape: vec![1], write },
                floats(c, &[6]),
            ]
        };
        let names = ["weights/b", "steps", "first/a.with \"quotes\""];
        for about in [None, Some(HashMap::from([("format".to_owned(), "pt".to_owned())]))] {
            let mut found = Vec::new();
            write(entries(names), about.clone(), &mut found).expect("memory takes it");
            let floats = bytes_of(&numbers);
            let view = |shape: &[usize]| TensorView::new(Dtype::F32, shape.to_vec(), &floats).expect("fits");
            let steps = TensorView::new(Dtype::U64, vec![1], &count).expect("fits");
            let views = [(names[0], view(&[2, 3])), (names[1], steps), (names[2], view(&[6]))];
            assert_eq!(found, safetensors::serialize(views, about).expect("a file"));
        }
    }

    #[test]
    fn a_refusal_ends_the_file_with_its_reason() {
        let write = |to: &mut dyn Write| {
            to.write_all(&[0; 4])?;
            Err(io::Error::other("the device went away"))
        };
        let entry =
            TensorEntry { name: "a".into(), dtype: Dtype::F32, shape: vec![2], write: Box::new(write) };
        let error = super::write(vec![entry], None, &mut Vec::new()).expect_err("refused");
        assert_eq!(error.to_string(), "the device went away");
    }
}
