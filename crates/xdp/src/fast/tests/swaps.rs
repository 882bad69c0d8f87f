//! Sets of rules that follow each other, and those that stay with lanes.
