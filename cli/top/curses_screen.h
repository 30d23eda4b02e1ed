// CursesScreen is the whole terminal as a screen of `muster top`: it paints frames and reads keys. It is the only user
// of ncurses.
//
// Owner: one per process at a time, because ncurses and the C locale are global. It borrows stdin and stdout.
// Thread: one thread.
// Destruction: the terminal is as before: the user's own screen, its modes, and no reports of the mouse. Signals that
// ncurses would handle keep the handlers of the program.
//
// Example:
//   MUSTER_ASSIGN_OR_RETURN(const auto screen, CursesScreen::open({.term = "xterm-256color"}));
//   screen->paint(frame_of(state));
//   if (const auto keys = screen->read_keys()) …   // nullopt: the terminal is gone
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/top/top_frame.h"
#include "cli/top/top_keys.h"
#include "cli/view/raw_terminal.h"

namespace muster::cli::inline top {

struct CursesOptions {
  std::string term{};      // the kind of the terminal, as TERM
  bool has_colors = true;  // if the terminal has them
  bool has_mouse = true;
};

class CursesScreen {
 public:
  // INVALID_ARGUMENT: the terminal is of an unknown kind, or cannot move its cursor. The message says what to do.
  static base::Result<std::unique_ptr<CursesScreen>> open(const CursesOptions& options);
  ~CursesScreen();
  CursesScreen(const CursesScreen&) = delete;
  CursesScreen& operator=(const CursesScreen&) = delete;

  TerminalSize size() const;
  // Takes the present size of the terminal, after SIGWINCH.
  void resize();
  void paint(const TopFrame& frame);
  // Returns the keys that have come; empty if none. nullopt if the terminal is gone.
  std::optional<std::vector<KeyPress>> read_keys();

  // Gives the terminal back to the shell, before the program stops; then takes it again.
  void suspend();
  void resume();

 private:
  struct State;
  explicit CursesScreen(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace muster::cli::top
