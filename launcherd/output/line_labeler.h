// Puts the label of its rank before every line of output: the pure core of the console.
//
// "Line" is text up to '\n', '\r' or "\r\n". An unfinished line stays open: when the same stream goes on next, its text
// follows without a label; when another stream comes first, the open line is closed by '\n' and what follows of it gets
// a label again. So no line ever holds the text of two streams. Owned by the one thread that writes the console.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "launcherd/output/terminal.h"
#include "model/label_format.h"
#include "proto/output_frame.h"

namespace muster::launcherd::inline output {

// Bytes that grow without being initialised or counted twice; kept allocated between uses up to a bound.
class TextBuffer {
 public:
  void append(std::string_view text);
  void append(char byte) { append(std::string_view(&byte, 1)); }
  // `size` bytes of room at the end; add() makes some of them part of the text.
  char* room(std::size_t size);
  void add(std::size_t size) { size_ += size; }
  void clear();
  std::string_view view() const { return {bytes_.get(), size_}; }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

class LineLabeler {
 public:
  explicit LineLabeler(model::LabelFormat format) : format_(std::move(format)), has_time_(format_.has_time()) {}

  // Whether append() looks at `now`.
  bool has_time() const { return has_time_; }

  // Labels lines of `bytes` into `out` until all are used or `out` holds `enough` bytes and the line is complete.
  // Returns the number of bytes used.
  std::size_t append(int rank, proto::OutputStream stream, std::string_view bytes, base::WallTime now,
                     std::size_t enough, TextBuffer* out);

  // The stream ended: closes its line if that one is open.
  void end(int rank, proto::OutputStream stream, TextBuffer* out);

  // How the text that went into an empty `out` joins what came before it.
  Join join() const { return join_; }

  // The label of the line that is open, should it have to be written again; empty at the start of a line.
  const std::string& open_label() const { return open_label_; }

 private:
  struct Source {
    int rank;
    proto::OutputStream stream;
    bool operator==(const Source&) const = default;
  };
  void make_label(Source source, base::WallTime now);

  const model::LabelFormat format_;
  const bool has_time_;
  std::optional<Source> open_;  // whose text may go on without a label
  bool is_after_bar_ = false;   // open_'s line was ended by '\r': only a '\n' may still belong to it
  std::string open_label_;
  Join join_ = Join::kFresh;
  std::string label_;  // of label_source_ at label_second_
  std::optional<Source> label_source_;
  std::time_t label_second_ = 0;
};

}  // namespace muster::launcherd::output
