// The whole terminal as a page that is drawn again and again: the user's own screen comes back at the end, and keys
// come one by one, without echo. One thread. What it changes is undone on destruction.
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

  // Over what was drawn before; as much of the text as fits. False: nobody takes it any more.
  bool draw(const std::string& text);

 private:
  bool write(const std::string& bytes);

  const int in_fd_;
  const int out_fd_;
  std::optional<termios> before_;
};

}  // namespace muster::cli::view
