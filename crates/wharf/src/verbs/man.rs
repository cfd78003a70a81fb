//! `wharf man`: manual pages.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ManVerb {
    /// Write `wharf.1` and one page per verb here [default: print `wharf.1`].
    dir: Option<PathBuf>,
}

pub(crate) fn run(verb: ManVerb) -> anyhow::Result<()> {
    let command = crate::build_command();
    match verb.dir {
        Some(dir) => {
            std::fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
            clap_mangen::generate_to(command, &dir)
                .with_context(|| format!("writing to {}", dir.display()))
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page).context("writing the page")?;
            output::print_bytes(&page);
            Ok(())
        }
    }
}
