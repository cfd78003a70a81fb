//! Real files and real processes. Terminals need the built `wharf`, which holds the keeper.

mod files;
mod outside;
mod terminals;
