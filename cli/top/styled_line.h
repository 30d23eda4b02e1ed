// Lines of a screen as data: pieces of text with a style. The terminal decides how a style looks.
#pragma once

#include <string>
#include <vector>

namespace muster::cli::inline top {

enum class TextStyle {
  kPlain,
  kStrong,   // keys, names of what is shown
  kHeading,  // titles of columns
  kTitle,    // title of a pane
  kActive,   // title of the pane that has the keys
  kFaint,    // what matters less: jobs and ranks that ended well
  kGood,     // runs
  kWaiting,  // waits, or is late
  kBad,      // failed, hangs, does not answer
  kNews,     // starts, has changed
};

struct StyledText {
  std::string text;
  TextStyle style = TextStyle::kPlain;

  bool operator==(const StyledText&) const = default;
};

struct StyledLine {
  std::vector<StyledText> parts{};
  bool is_selected = false;
};

// Returns the line with harmless text of at most `columns` cells. A selected line is filled with blanks.
StyledLine fitted(const StyledLine& line, int columns);

// Returns the line's text without styles.
std::string text_of(const StyledLine& line);

}  // namespace muster::cli::top
