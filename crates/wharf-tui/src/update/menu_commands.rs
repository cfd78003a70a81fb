//! Lists of choices over the screen.

use crate::keymap::{ComposerCommand, MenuCommand};
use crate::model::{Overlay, PaneFocus, TuiState};

impl TuiState {
    pub(super) fn run_menu_command(&mut self, command: MenuCommand) {
        match self.overlays.last_mut() {
            Some(Overlay::Palette(palette)) => {
                let matches = palette.matches();
                match command {
                    MenuCommand::Down => {
                        palette.selected =
                            (palette.selected + 1).min(matches.len().saturating_sub(1))
                    }
                    MenuCommand::Up => palette.selected = palette.selected.saturating_sub(1),
                    MenuCommand::Choose => {
                        let chosen = matches.get(palette.selected).map(|binding| binding.command);
                        self.overlays.pop();
                        if let Some(command) = chosen {
                            self.run_command(command);
                        }
                    }
                }
            }
            Some(Overlay::PickList(list)) => match command {
                MenuCommand::Down => list.move_selection(true),
                MenuCommand::Up => list.move_selection(false),
                MenuCommand::Choose => {
                    let chosen = list.matches().get(list.selected).map(|item| item.action.clone());
                    if let Some(action) = chosen {
                        self.overlays.pop();
                        self.run_pick_action(action);
                    }
                }
            },
            Some(Overlay::Rename(_)) => {
                if command == MenuCommand::Choose {
                    self.submit_rename();
                }
            }
            None if self.focus == PaneFocus::Composer => match command {
                MenuCommand::Down => self.move_completion(true),
                MenuCommand::Up => self.move_completion(false),
                MenuCommand::Choose => {
                    if !self.take_completion() {
                        self.run_composer_command(ComposerCommand::Send);
                    }
                }
            },
            // The list while its filter is typed.
            None if self.focus == PaneFocus::List => match command {
                MenuCommand::Down => self.list.move_selection(1),
                MenuCommand::Up => self.list.move_selection(-1),
                MenuCommand::Choose => {
                    self.list.filter = None;
                    self.list.sort();
                    self.open_selected();
                }
            },
            // The transcript while the text to find is typed.
            None if self.focus == PaneFocus::Transcript && command == MenuCommand::Choose => {
                self.submit_find()
            }
            Some(Overlay::NewSession | Overlay::AskForm(_) | Overlay::Reader(_)) | None => {}
        }
    }
}
