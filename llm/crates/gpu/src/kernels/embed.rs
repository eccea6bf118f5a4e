//! Rows by index: the embedding and its gradient, gathering and scattering.

use super::launch::{ROW, kernel};
use crate::ptr::Real;

kernel! {
    /// `out[t] = table[ids[t]]`.
    Embed "embed" {
        read ids: u32[tokens],
        /// `[vocabulary, width]`.
        read table: Real[..],
        write out: Real[tokens, width],
        size tokens: u32,
        pass width: u32,
    }
    threads ROW; grid (tokens, 1);
    bytes ids[tokens], table[tokens, width], out[tokens, width];
}

kernel! {
    /// Adds `dx` into `dtable`: the tokens of the id `ids[i]` are `order[starts[i]..starts[i + 1]]` and are added in that order.
    EmbedBackward "embed_backward" {
        read dx: Real[tokens, width],
        /// Tokens, those of one id together.
        read order: u32[tokens],
        /// The place in `order` where each id begins.
        read starts: u32[distinct + 1],
        read ids: u32[distinct],
        /// `[vocabulary, width]`.
        update dtable: f32[..],
        size tokens: u32,
        /// Ids that occur.
        size distinct: u32,
        pass width: u32,
    }
    threads ROW; grid (distinct, 1);
    bytes dx[tokens, width], dtable[2, distinct, width];
}

kernel! {
    /// `out[i] = x[index[i]]`.
    GatherRows "gather_rows" {
        /// Rows of `width`.
        read x: Real[..],
        read index: u32[rows],
        write out: Real[rows, width],
        size rows: u32,
        pass width: u32,
    }
    threads ROW; grid (rows, 1);
    bytes x[rows, width], index[rows], out[rows, width];
}

kernel! {
    /// `out[index[i]] = x[i]`; the indices differ.
    ScatterRows "scatter_rows" {
        read x: Real[rows, width],
        read index: u32[rows],
        /// Rows of `width`.
        write out: Real[..],
        size rows: u32,
        pass width: u32,
    }
    threads ROW; grid (rows, 1);
    bytes x[rows, width], index[rows], out[rows, width];
}
