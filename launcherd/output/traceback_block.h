// TracebackBlock collects the lines of one Python traceback, with the tracebacks that are chained to it.
// Owner: LineFold, one for each stream of a rank. Thread: that of its owner; pure.
//
// A traceback begins with "Traceback (most recent call last):". Indented lines follow, then one line without
// indentation, which names the exception. A blank line and "During handling of the above exception, …" or "The above
// exception was the direct cause …" chain the next traceback. A traceback of an exception group is indented as a whole.
//
// Example:
//   TracebackBlock block;
//   while (next(&line)) {
//     if (block.take(line)) continue;
//     show(block.text());
//     show_lines(block.rest());
//     block.clear();  // take() may accept `line` now
//   }
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::launcherd::inline output {

class TracebackBlock {
 public:
  // Takes the next line, with its '\n', if it belongs to the block. The first line is a traceback's header. Returns
  // false if the line is no part of the block, or if the block would exceed kMaxSize.
  bool take(std::string_view line);

  bool is_empty() const { return text_.empty(); }
  // True if the block can end here: the exception has been named.
  bool is_whole() const { return state_ == State::kNamed; }
  // Returns the block. While a traceback is unfinished, all its lines so far.
  std::string_view text() const { return std::string_view(text_).substr(0, certain()); }
  // Returns lines after the block that were taken because a chained traceback could have followed.
  std::string_view rest() const { return std::string_view(text_).substr(certain()); }
  std::size_t size() const { return text_.size(); }
  void clear();

  static constexpr std::size_t kMaxSize = std::size_t{64} * 1024;

 private:
  enum class State { kOutside, kFrames, kNamed, kBlankAfter, kChained, kBlankBefore, kGroup };
  State next_state(std::string_view line) const;
  std::size_t certain() const { return is_between() ? named_size_ : text_.size(); }
  bool is_between() const {
    return state_ == State::kBlankAfter || state_ == State::kChained || state_ == State::kBlankBefore;
  }

  State state_ = State::kOutside;
  std::string text_;
  std::size_t named_size_ = 0;  // the size of text_ after the last line that named an exception
};

}  // namespace muster::launcherd::output
