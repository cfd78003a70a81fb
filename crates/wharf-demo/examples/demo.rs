//! The demo agent as a program of its own: what an editor would start.

fn main() -> std::io::Result<()> {
    wharf_demo::run_stdio()
}
