//! Records of a TensorBoard event file: scalars, and the framing around them.
//!
//! ```text
//! record = length (u64) | masked crc32c of length | data | masked crc32c of data      little endian
//! data   = Event { 1: wall_time (double), 2: step (int64), 3: file_version (string) or 5: Summary }
//! Summary = repeated 1: Value { 1: tag (string), 2: simple_value (float) }
//! ```

/// The record every event file starts with.
pub(super) fn version(wall_time: f64) -> Vec<u8> {
    let mut event = Message::default();
    event.double(1, wall_time);
    event.bytes(3, b"brain.Event:2");
    framed(&event.0)
}

/// The record of one step's scalars.
pub fn scalars(wall_time: f64, step: u64, values: &[(String, f64)]) -> Vec<u8> {
    let mut summary = Message::default();
    for (tag, x) in values {
        let mut value = Message::default();
        value.bytes(1, tag.as_bytes());
        value.float(2, *x as f32);
        summary.bytes(1, &value.0);
    }
    let mut event = Message::default();
    event.double(1, wall_time);
    event.varint(2, step);
    event.bytes(5, &summary.0);
    framed(&event.0)
}

/// A protocol-buffer message in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn raw_varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push((n & 0x7f) as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }
    fn key(&mut self, field: u64, wire: u64) {
        self.raw_varint(field << 3 | wire);
    }
    fn varint(&mut self, field: u64, n: u64) {
        self.key(field, 0);
        self.raw_varint(n);
    }
    fn double(&mut self, field: u64, x: f64) {
        self.key(field, 1);
        self.0.extend(x.to_le_bytes());
    }
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, 2);
        self.raw_varint(bytes.len() as u64);
        self.0.extend(bytes);
    }
    fn float(&mut self, field: u64, x: f32) {
        self.key(field, 5);
        self.0.extend(x.to_le_bytes());
    }
}

fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend(masked(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked(data).to_le_bytes());
    record
}

/// A checksum that may itself be checksummed.
pub fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}
