// Input of `muster top`: keys, and actions of the mouse.
#pragma once

#include <string>

namespace muster::cli::inline top {

enum class TopKey {
  kText,  // a character, in KeyPress::text
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
  kTab,
  kClearLine,  // Ctrl-U
  kClick,      // at KeyPress::row
  kWheelUp,
  kWheelDown,
  kOther,
};

struct KeyPress {
  TopKey key = TopKey::kOther;
  std::string text{};  // one character in UTF-8
  int row = 0;         // of the mouse; 0 is the first line of the screen
};

}  // namespace muster::cli::top
