//! What tests of log-block schemes share.
