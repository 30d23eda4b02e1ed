// Uses the whole terminal as one page that is drawn again and again. Keys come one at a time, without echo.
// Thread: one thread. The destructor restores the user's screen and the terminal's mode.
#pragma once

#include <termios.h>

#include <optional>
#include <string>

namespace muster::cli::inline view {

class LiveScreen {
 public:
  LiveScreen(int in_fd, int out_fd);  // both are borrowed
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  // Draws over the previous page, as much of the text as fits. Returns false if the terminal no longer takes output.
  bool draw(const std::string& text);

 private:
  bool write(const std::string& bytes);

  const int in_fd_;
  const int out_fd_;
  std::optional<termios> before_;
};

}  // namespace muster::cli::view
