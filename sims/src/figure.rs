//! Figures, described as data and drawn in one place.
