//! Finding passages: full text and vectors over folders, and over lists of tools.
