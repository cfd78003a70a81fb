//! Scenarios of the fold: logs and the rows that people read.
