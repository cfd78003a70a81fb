//! The demo agent as a program of its own, as an editor would start it.

fn main() -> std::io::Result<()> {
    wharf_demo::run_stdio()
}
